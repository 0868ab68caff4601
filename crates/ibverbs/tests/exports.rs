//! The linked library against the table of its names: nothing is missing, nothing else is exported,
//! every version node is there.

use std::collections::BTreeSet;
use std::process::Command;

use object::elf;
use object::read::elf::{FileHeader, Sym, SymbolTable, VersionTable};
use object::{Endianness, StringTable};

type Elf = elf::FileHeader64<Endianness>;

const TABLE: &str = include_str!("../names.txt");

/// (name, version node), an empty node for none.
type Export = (String, String);

fn expected() -> (BTreeSet<Export>, BTreeSet<String>) {
    let (mut exports, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    let mut section: Vec<(String, &str)> = Vec::new();
    for line in TABLE.lines() {
        let words: Vec<&str> = line.split('#').next().unwrap().split_whitespace().collect();
        match words[..] {
            [] => continue,
            ["node", name, ..] => section = vec![(name.to_owned(), "")],
            ["private", ref numbers @ ..] => {
                section = numbers
                    .iter()
                    .map(|number| (format!("IBVERBS_PRIVATE_{number}"), *number))
                    .collect();
            }
            ["bare"] => section = vec![(String::new(), "")],
            [name, ..] => exports.extend(
                section
                    .iter()
                    .map(|(node, number)| (name.replace('%', number), node.clone())),
            ),
        }
        nodes.extend(
            section
                .iter()
                .map(|(node, _)| node.clone())
                .filter(|node| !node.is_empty()),
        );
    }
    (exports, nodes)
}

/// Links the library of this profile; its bytes.
fn library() -> Vec<u8> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "run",
        "--quiet",
        "--package",
        "vrdma-xtask",
        "--",
        "library",
    ]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = String::from_utf8(output.stdout).expect("a path");
    std::fs::read(path.trim()).expect("the library is there")
}

struct Read<'a> {
    symbols: SymbolTable<'a, Elf>,
    versions: VersionTable<'a, Elf>,
}

impl<'a> Read<'a> {
    fn new(data: &'a [u8]) -> Self {
        let header = Elf::parse(data).expect("an ELF file");
        let endian = header.endian().expect("known byte order");
        let sections = header.sections(endian, data).expect("sections");
        let symbols = sections
            .symbols(endian, data, elf::SHT_DYNSYM)
            .expect("symbols");
        let versions = sections
            .versions(endian, data)
            .expect("versions")
            .expect("some");
        Self { symbols, versions }
    }

    /// (name, node, whether it is the default) of what is defined here, without the nodes' own symbols.
    fn exports(&self) -> Vec<(Export, bool)> {
        let strings: StringTable<'a> = self.symbols.strings();
        let mut exports = Vec::new();
        for (index, symbol) in self.symbols.enumerate() {
            let endian = Endianness::Little;
            if symbol.is_undefined(endian)
                || index.0 == 0
                || symbol.st_shndx.get(endian) == elf::SHN_ABS
            {
                continue;
            }
            let name =
                String::from_utf8_lossy(symbol.name(endian, strings).expect("a name")).into_owned();
            let version = self.versions.version_index(endian, index);
            let node = self
                .versions
                .version(version)
                .expect("a version")
                .map_or_else(String::new, |node| {
                    String::from_utf8_lossy(node.name()).into_owned()
                });
            exports.push(((name, node), !version.is_hidden()));
        }
        exports
    }
}

#[test]
fn exactly_the_names_of_the_table_are_exported() {
    let data = library();
    let found: BTreeSet<Export> = Read::new(&data)
        .exports()
        .into_iter()
        .map(|(export, _)| export)
        .collect();
    let (wanted, _) = expected();
    let missing: Vec<_> = wanted.difference(&found).collect();
    let extra: Vec<_> = found.difference(&wanted).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "missing: {missing:?}\nextra: {extra:?}"
    );
}
