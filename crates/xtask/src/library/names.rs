//! The table of exported names (`crates/ibverbs/names.txt` describes its form), as version script and as assembly with
//! the aliases.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};

/// Names that the archive exports for internal use only: mangled names, the runtime's hooks, the compiler's helpers and
/// the stubs.
const OURS: &[&str] = &[
    "_ZN*",
    "_R*",
    "__[!x_vlor]*",
    "__l[!x]*",
    "__o[!p]*",
    "__r[!e]*",
    "__re[!a]*",
    "rust_*",
    "vrdma_*",
    "anon.*",
    "DW.*",
];

#[derive(Debug, PartialEq, Eq)]
struct Node {
    name: String,
    parent: Option<String>,
    /// Functions exported under their own name by the archive.
    plain: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Alias {
    name: String,
    /// Index of the version node; `None` is without a version.
    node: Option<usize>,
    function: String,
}

/// The parsed table.
#[derive(Default, Debug)]
pub(crate) struct Names {
    nodes: Vec<Node>,
    aliases: Vec<Alias>,
    /// The last node of each name, which is its default.
    newest: BTreeMap<String, usize>,
}

/// The section of the table that the next lines belong to.
enum Section {
    None,
    Node(usize),
    Private(Vec<(usize, String)>),
    Bare,
}

impl Names {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut names = Self::default();
        let mut section = Section::None;
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<&str> = line
                .split('#')
                .next()
                .unwrap_or("")
                .split_whitespace()
                .collect();
            names
                .line(&words, &mut section)
                .with_context(|| format!("line {number} of the table of names: {line}"))?;
        }
        Ok(names)
    }

    fn line(&mut self, words: &[&str], section: &mut Section) -> Result<()> {
        match words {
            [] => {}
            ["node", name] => *section = Section::Node(self.node(name, None)),
            ["node", name, parent] => *section = Section::Node(self.node(name, Some(parent))),
            ["private", numbers @ ..] => {
                let nodes = numbers.iter().map(|number| {
                    let node = self.node(&format!("IBVERBS_PRIVATE_{number}"), None);
                    (node, (*number).to_owned())
                });
                *section = Section::Private(nodes.collect());
            }
            ["bare"] => *section = Section::Bare,
            [name] => self.entry(section, name, name)?,
            [name, "->", stub] => self.entry(section, name, &format!("vrdma_refuse_{stub}"))?,
            [name, "=", function] => self.entry(section, name, function)?,
            _ => bail!("not of any form"),
        }
        Ok(())
    }

    fn node(&mut self, name: &str, parent: Option<&str>) -> usize {
        self.nodes.push(Node {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            plain: Vec::new(),
        });
        self.nodes.len() - 1
    }

    fn entry(&mut self, section: &Section, name: &str, function: &str) -> Result<()> {
        match section {
            Section::None => bail!("a name before any node"),
            Section::Node(node) if name == function => {
                self.newest.insert(name.to_owned(), *node);
                self.nodes[*node].plain.push(name.to_owned());
            }
            Section::Node(node) => {
                self.newest.insert(name.to_owned(), *node);
                self.alias(name, Some(*node), function);
            }
            Section::Private(nodes) => {
                for (node, number) in nodes {
                    let name = name.replace('%', number);
                    self.newest.insert(name.clone(), *node);
                    self.alias(&name, Some(*node), function);
                }
            }
            Section::Bare => {
                ensure!(
                    name != function,
                    "a name without a version needs = FUNCTION"
                );
                self.alias(name, None, function);
            }
        }
        Ok(())
    }

    fn alias(&mut self, name: &str, node: Option<usize>, function: &str) {
        self.aliases.push(Alias {
            name: name.to_owned(),
            node,
            function: function.to_owned(),
        });
    }

    /// The linker's version script. It has no names of aliases: the assembly binds them to versions.
    pub(crate) fn version_script(&self) -> String {
        let mut script = String::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(script, "{} {{", node.name);
            if !node.plain.is_empty() {
                let _ = writeln!(script, "  global: {};", node.plain.join("; "));
            }
            if index == 0 {
                let _ = writeln!(script, "  local: {};", OURS.join("; "));
            }
            let parent = node.parent.as_deref().map(|parent| format!(" {parent}"));
            let _ = writeln!(script, "}}{};", parent.unwrap_or_default());
        }
        script
    }

    /// Assembly in which each alias is a jump, shared by all names of one function.
    pub(crate) fn aliases(&self) -> String {
        let mut text = String::from(".section .note.GNU-stack,\"\",%progbits\n.text\n");
        let mut bodies = BTreeMap::new();
        for alias in &self.aliases {
            let next = bodies.len();
            let body = *bodies.entry(alias.function.as_str()).or_insert(next);
            if body == next {
                text.push_str(&jump(body, &alias.function));
            }
        }
        for (index, alias) in self.aliases.iter().enumerate() {
            text.push_str(&self.alias_text(index, alias, bodies[alias.function.as_str()]));
        }
        text
    }

    fn alias_text(&self, index: usize, alias: &Alias, body: usize) -> String {
        let Some(node) = alias.node else {
            let name = &alias.name;
            return format!(".globl {name}\n.type {name}, %function\n.set {name}, .Ljump{body}\n");
        };
        let default = self.newest.get(&alias.name) == Some(&node);
        let at = if default { "@@" } else { "@" };
        let (name, version) = (&alias.name, &self.nodes[node].name);
        let kind = if alias.function == DATA {
            "object"
        } else {
            "function"
        };
        format!(
            ".globl vrdma_alias_{index}\n.type vrdma_alias_{index}, %{kind}\n\
             .set vrdma_alias_{index}, .Ljump{body}\n\
             .symver vrdma_alias_{index}, {name}{at}{version}\n"
        )
    }
}

/// The only stub that is data.
const DATA: &str = "vrdma_refuse_false";

fn jump(body: usize, function: &str) -> String {
    if function == DATA {
        return format!(".data\n.Ljump{body}: .quad 0\n.text\n");
    }
    let instruction = if cfg!(target_arch = "aarch64") {
        "b"
    } else {
        "jmp"
    };
    format!(".balign 16\n.Ljump{body}: {instruction} {function}\n")
}

#[cfg(test)]
mod tests {
    use super::Names;

    const TABLE: &str = "
        node A_1.0        # a comment
          old -> errno
          both -> null
        node A_1.1 A_1.0
          both
          renamed = other
        private 33 34
          register_% -> nothing
          log -> nothing
        bare
          open = vrdma_open
    ";

    #[test]
    fn plain_names_stand_in_the_script_of_their_node_only() {
        let script = Names::parse(TABLE).unwrap().version_script();
        assert!(
            script.contains("A_1.1 {\n  global: both;\n} A_1.0;"),
            "{script}"
        );
        assert!(
            !script.contains("renamed") && !script.contains("open"),
            "{script}"
        );
    }

    #[test]
    fn the_last_node_of_a_name_is_its_default() {
        let text = Names::parse(TABLE).unwrap().aliases();
        for symver in [
            "old@@A_1.0",
            "both@A_1.0",
            "renamed@@A_1.1",
            "register_33@@IBVERBS_PRIVATE_33",
            "register_34@@IBVERBS_PRIVATE_34",
            "log@IBVERBS_PRIVATE_33",
            "log@@IBVERBS_PRIVATE_34",
        ] {
            assert!(text.contains(&format!(", {symver}\n")), "{symver}: {text}");
        }
        assert!(text.contains(".globl open\n"), "{text}");
    }

    #[test]
    fn a_line_of_no_form_is_refused_with_its_number() {
        let error = Names::parse("node A\n a b c d").unwrap_err();
        assert!(format!("{error:#}").contains("line 2"), "{error:#}");
        assert!(Names::parse("orphan").is_err());
    }
}
