//! `cargo xtask check`: the house rules that a program can check; reports all findings at once, one a line.
//!
//! ```text
//!   rooms     ── Cargo.toml of each room, compilation without std      (layers, bare)
//!   sources   ── crates/**/*.rs, parsed once ──► facts ──► ratchet.toml (lengths, tuples, allow, words)
//!   texts     ── rustdoc, *.md, bodies of commits                       (docs, markdown, commits)
//!   formats   ── versions in sources, files of what each saves          (formats)
//! ```
//!
//! What the sources had before a rule was made is counted in `ratchet.toml`: it may stay, and the count may only fall.

mod bare;
mod commits;
mod docs;
mod formats;
mod layers;
mod markdown;
mod ratchet;
mod source;
mod words;

use std::cell::OnceCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use crate::named::Only;
use source::Fact;

/// Checks the house rules that a program can check.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    only: Only,
    /// Print the names of the checks and exit
    #[arg(long)]
    list: bool,
    /// Lower crates/xtask/ratchet.toml to the present counts, and check nothing
    #[arg(long)]
    ratchet: bool,
}

impl Arguments {
    /// Only the check of that name.
    pub(crate) fn layers() -> Self {
        Self {
            only: Only::text("layers"),
            list: false,
            ratchet: false,
        }
    }
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    place: Location,
    /// What is wrong and what to do.
    sentence: String,
}

/// A line of a file of the checkout, or the whole file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Location {
    /// Path from the root of the checkout.
    file: String,
    line: Option<usize>,
}

/// The checkout.
pub(super) struct Tree {
    root: PathBuf,
    facts: OnceCell<Vec<Fact>>,
}

struct Check {
    name: &'static str,
    about: &'static str,
    run: fn(&Tree) -> Result<Vec<Finding>>,
}

const CHECKS: &[Check] = &[
    Check {
        name: "layers",
        about: "a room uses the rooms in its row only, and forbids unsafe where the row says so",
        run: layers::findings,
    },
    Check {
        name: "bare",
        about: "rooms without std compile where std cannot be",
        run: bare::findings,
    },
    Check {
        name: "ratchet",
        about: "lengths, tuple parameters, allow without a reason, words that are going",
        run: ratchet::findings,
    },
    Check {
        name: "markdown",
        about: "relative links of Markdown files lead somewhere",
        run: markdown::findings,
    },
    Check {
        name: "formats",
        about: "each saved format has a file of its version",
        run: formats::findings,
    },
    Check {
        name: "commits",
        about: "commits have a body",
        run: commits::findings,
    },
    Check {
        name: "docs",
        about: "links in doc comments lead somewhere",
        run: docs::findings,
    },
];

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
    arguments.only.check(&names)?;
    let meant = CHECKS
        .iter()
        .filter(|check| arguments.only.means(check.name));
    if arguments.list {
        meant.for_each(|check| println!("{:<10}{}", check.name, check.about));
        return Ok(ExitCode::SUCCESS);
    }
    let tree = Tree::of_this_program()?;
    if arguments.ratchet {
        ratchet::lower(&tree)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut findings = Vec::new();
    for check in meant {
        let found = (check.run)(&tree).with_context(|| format!("the check {}", check.name))?;
        let verdict = match found.len() {
            0 => "ok".to_owned(),
            count => format!("{count} to mend"),
        };
        println!("{:<10}{verdict}", check.name);
        findings.extend(found);
    }
    findings.sort();
    findings.iter().for_each(|finding| println!("{finding}"));
    Ok(ExitCode::from(u8::from(!findings.is_empty())))
}

impl Tree {
    /// The checkout that this program was compiled in.
    fn of_this_program() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize();
        Ok(Self::at(root.context("the checkout is not there")?))
    }

    fn at(root: PathBuf) -> Self {
        Self {
            root,
            facts: OnceCell::new(),
        }
    }

    /// Facts of the sources that rules are about; read once.
    fn facts(&self) -> Result<&[Fact]> {
        if let Some(facts) = self.facts.get() {
            return Ok(facts);
        }
        let facts = source::read(self)?;
        Ok(self.facts.get_or_init(|| facts))
    }

    /// Files below a folder whose name ends with `ending`, in order; none of build results.
    fn files(&self, below: &str, ending: &str) -> Result<Vec<String>> {
        let mut files = Vec::new();
        let mut folders = vec![self.root.join(below)];
        while let Some(folder) = folders.pop() {
            let entries = folder
                .read_dir()
                .with_context(|| format!("cannot read {}", folder.display()))?;
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if path.is_dir() && name != "target" && !name.starts_with('.') {
                    folders.push(path);
                } else if name.ends_with(ending) && path.is_file() {
                    let file = path.strip_prefix(&self.root)?;
                    files.push(file.to_string_lossy().into_owned());
                }
            }
        }
        files.sort();
        Ok(files)
    }

    fn has(&self, file: &str) -> bool {
        self.root.join(file).is_file()
    }

    fn read(&self, file: &str) -> Result<String> {
        std::fs::read_to_string(self.root.join(file)).with_context(|| format!("cannot read {file}"))
    }
}

impl Finding {
    fn new(place: Location, sentence: impl Into<String>) -> Self {
        Self {
            place,
            sentence: sentence.into(),
        }
    }
}

impl Location {
    fn line(file: impl Into<String>, line: usize) -> Self {
        Self {
            file: file.into(),
            line: Some(line),
        }
    }

    fn file(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}", self.file),
            None => formatter.write_str(&self.file),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.sentence)
    }
}
