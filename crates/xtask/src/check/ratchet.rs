//! Old violations of rules that the sources may keep: `crates/xtask/ratchet.toml`, whose numbers only fall.
//!
//! A number that rises is a finding. One that can fall is reported, and `cargo xtask check --ratchet` writes it down,
//! so that it does not rise again. The program never raises a number; a person who must does it by hand, with the
//! reason in the commit.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::source::{Fact, Rule};
use super::words::WORDS;
use super::{Finding, Tree};

const FILE: &str = "crates/xtask/ratchet.toml";

const HEAD: &str = "\
# What the sources still have of what `cargo xtask check` is against. Numbers only fall:
# `cargo xtask check --ratchet` lowers them to what is there.
";

/// Most places of one finding that are reported; a search finds the rest.
const PLACES_MAX: usize = 5;

/// A section of the table.
struct Section {
    rule: Rule,
    name: &'static str,
    /// Largest amount that needs no line in the table.
    limit: usize,
}

const fn section(rule: Rule, name: &'static str, limit: usize) -> Section {
    Section { rule, name, limit }
}

const SECTIONS: &[Section] = &[
    section(Rule::FunctionLines, "function-lines", 60),
    section(Rule::FileLines, "file-lines", 400),
    section(Rule::TupleParameters, "tuple-parameters", 0),
    section(Rule::AllowWithoutReason, "allow-without-reason", 0),
    section(Rule::Words, "words", 0),
];

/// Section, key, number.
type Table = BTreeMap<String, BTreeMap<String, usize>>;

/// Reports amounts that exceed the table.
pub(super) fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    let (facts, table) = (tree.facts()?, read(tree)?);
    let fallen = changes(&table, &lowered(&table, facts)).len();
    if fallen > 0 {
        println!("{fallen} numbers of {FILE} can fall: run cargo xtask check --ratchet");
    }
    Ok(judge(facts, &table))
}

/// Writes the table with the present amounts where they are smaller.
pub(super) fn lower(tree: &Tree) -> Result<()> {
    let table = read(tree)?;
    let lowered = lowered(&table, tree.facts()?);
    for change in changes(&table, &lowered) {
        println!("{change}");
    }
    let text = render(&lowered)?;
    std::fs::write(tree.root.join(FILE), text).with_context(|| format!("cannot write {FILE}"))
}

fn read(tree: &Tree) -> Result<Table> {
    toml::from_str(&tree.read(FILE)?).with_context(|| format!("{FILE} is no table of numbers"))
}

fn judge(facts: &[Fact], table: &Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    for section in SECTIONS {
        for (key, found) in section.groups(facts) {
            let amount = section.amount(&found);
            let allowed = section.allowed(table, key);
            if amount > allowed {
                let sentence = sentence(section.rule, key, amount, allowed);
                let places = section.places(&found);
                let shown = places.iter().take(PLACES_MAX);
                findings.extend(shown.map(|fact| Finding::new(fact.place.clone(), &sentence)));
            }
        }
    }
    findings
}

impl Section {
    fn groups<'a>(&self, facts: &'a [Fact]) -> BTreeMap<&'a str, Vec<&'a Fact>> {
        let mut groups: BTreeMap<&str, Vec<&Fact>> = BTreeMap::new();
        for fact in facts.iter().filter(|fact| fact.rule == self.rule) {
            groups.entry(&fact.key).or_default().push(fact);
        }
        groups
    }

    /// Whether the amounts are lengths, of which the longest of a name counts; others are added up.
    fn is_length(&self) -> bool {
        matches!(self.rule, Rule::FunctionLines | Rule::FileLines)
    }

    fn amount(&self, found: &[&Fact]) -> usize {
        let amounts = found.iter().map(|fact| fact.amount);
        match self.is_length() {
            true => amounts.max().unwrap_or_default(),
            false => amounts.sum(),
        }
    }

    fn places<'a>(&self, found: &[&'a Fact]) -> Vec<&'a Fact> {
        let amount = self.amount(found);
        let told = |fact: &&&Fact| !self.is_length() || fact.amount == amount;
        found.iter().filter(told).copied().collect()
    }

    fn allowed(&self, table: &Table, key: &str) -> usize {
        let listed = table.get(self.name).and_then(|numbers| numbers.get(key));
        listed.copied().unwrap_or_default().max(self.limit)
    }
}

fn sentence(rule: Rule, key: &str, amount: usize, allowed: usize) -> String {
    match rule {
        Rule::FunctionLines => {
            format!("{key} has {amount} lines, at most {allowed} are allowed: make steps of it")
        }
        Rule::FileLines => {
            format!("the file has {amount} lines, at most {allowed} are allowed: divide it")
        }
        Rule::TupleParameters => format!(
            "{key} takes a tuple apart in its parameters ({amount} of that name, allowed {allowed}): give the value a type"
        ),
        Rule::AllowWithoutReason => format!(
            "{key} without a reason ({amount} times, allowed {allowed}): add `reason = \"...\"`"
        ),
        Rule::Words => {
            let word = WORDS.iter().find(|word| word.text == key);
            let instead = word.map_or("", |word| word.instead);
            format!(
                "{key} is a word that is going ({amount} times, allowed {allowed}): {instead}; git grep -n {key} finds all"
            )
        }
    }
}

/// The table with lower amounts: nothing rises, and amounts within the limit have no line.
fn lowered(table: &Table, facts: &[Fact]) -> Table {
    let mut lowered = Table::new();
    for section in SECTIONS {
        let groups = section.groups(facts);
        let Some(numbers) = table.get(section.name) else {
            continue;
        };
        let kept = numbers.iter().filter_map(|(key, number)| {
            let found = groups.get(key.as_str()).map_or(&[][..], Vec::as_slice);
            let amount = section.amount(found).min(*number);
            (amount > section.limit).then(|| (key.clone(), amount))
        });
        lowered.insert(section.name.to_owned(), kept.collect());
    }
    lowered
}

/// Describes each number that changes.
fn changes(before: &Table, after: &Table) -> Vec<String> {
    let mut changes = Vec::new();
    for (section, numbers) in before {
        for (key, number) in numbers {
            let now = after.get(section).and_then(|numbers| numbers.get(key));
            if now != Some(number) {
                let now = now.map_or("gone".to_owned(), ToString::to_string);
                changes.push(format!("{section} {key}: {number} -> {now}"));
            }
        }
    }
    changes
}

fn render(table: &Table) -> Result<String> {
    Ok(format!("{HEAD}\n{}", toml::to_string(table)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Location;

    fn fact(rule: Rule, key: &str, amount: usize, line: usize) -> Fact {
        Fact {
            rule,
            key: key.to_owned(),
            amount,
            place: Location::line("x.rs", line),
        }
    }

    fn table(text: &str) -> Table {
        toml::from_str(text).unwrap()
    }

    fn told(facts: &[Fact], text: &str) -> Vec<String> {
        let findings = judge(facts, &table(text));
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_functions_are_findings_unless_they_are_listed() {
        let facts = [
            fact(Rule::FunctionLines, "short", 60, 1),
            fact(Rule::FunctionLines, "long", 61, 2),
            fact(Rule::FunctionLines, "long", 3, 3),
        ];
        let sentence = "x.rs:2: long has 61 lines, at most 60 are allowed: make steps of it";
        assert_eq!(told(&facts, ""), [sentence]);
        assert!(told(&facts, "[function-lines]\nlong = 61").is_empty());
        assert_eq!(told(&facts, "[function-lines]\nlong = 50"), [sentence]);
    }

    #[test]
    fn things_are_counted_and_all_their_places_told() {
        let facts = [7, 9].map(|line| fact(Rule::Words, "Door", 1, line));
        assert!(told(&facts, "[words]\nDoor = 2").is_empty());
        let found = told(&facts, "[words]\nDoor = 1");
        assert_eq!(found.len(), 2);
        let sentence = "x.rs:7: Door is a word that is going (2 times, allowed 1): say Listener;";
        assert!(found[0].starts_with(sentence), "{}", found[0]);
    }

    #[test]
    fn numbers_fall_and_never_rise() {
        let facts = [
            fact(Rule::FunctionLines, "shorter", 70, 1),
            fact(Rule::FunctionLines, "mended", 30, 2),
            fact(Rule::FunctionLines, "longer", 90, 3),
            fact(Rule::FunctionLines, "new", 90, 4),
        ];
        let before = table("[function-lines]\nshorter = 80\nmended = 80\nlonger = 80\ngone = 80");
        let after = lowered(&before, &facts);
        assert_eq!(after, table("[function-lines]\nshorter = 70\nlonger = 80"));
        assert_eq!(
            changes(&before, &after),
            [
                "function-lines gone: 80 -> gone",
                "function-lines mended: 80 -> gone",
                "function-lines shorter: 80 -> 70"
            ]
        );
    }

    #[test]
    fn the_table_is_read_as_it_is_written() {
        let before = table("[words]\nDoor = 3\n[file-lines]\n\"a/b.rs\" = 500");
        let text = render(&before).unwrap();
        assert!(text.starts_with("# What the sources still have"));
        assert_eq!(table(&text), before);
    }
}
