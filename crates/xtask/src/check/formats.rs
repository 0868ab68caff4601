//! Each saved format has a file as its present version saves it, which a test of the room loads.

use anyhow::{Context, Result};

use super::{Finding, Location, Tree};

/// The place of a version, and the file that must exist for it.
struct Format {
    source: &'static str,
    constant: &'static str,
    /// The file's path, with `{}` for the version.
    file: &'static str,
}

const FORMATS: &[Format] = &[
    Format {
        source: "crates/verbs/src/saved/mod.rs",
        constant: "pub const VERSION: u32",
        file: "crates/verbs/tests/engine/saved/version{}.bin",
    },
    Format {
        source: "crates/migration/src/snapshot/file.rs",
        constant: "const VERSION: u32",
        file: "crates/migration/corpus/snapshot{}.bin",
    },
    Format {
        source: "crates/vfio_user/src/state.rs",
        constant: "pub(crate) const VERSION: u8",
        file: "crates/vfio_user/corpus/state{}.bin",
    },
    Format {
        source: "crates/shard/src/legacy.rs",
        constant: "pub const FORMAT: u32",
        file: "crates/process/corpus/records{}.txt",
    },
    Format {
        source: "crates/shard/src/legacy.rs",
        constant: "pub const FORMAT: u32",
        file: "crates/keep/corpus/succession{}.json",
    },
    Format {
        source: "crates/shard/src/legacy.rs",
        constant: "pub const FORMAT: u32",
        file: "crates/inventory/corpus/changes{}.txt",
    },
];

pub(super) fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for format in FORMATS {
        let file = file(format, &tree.read(format.source)?)?;
        if !tree.has(&file) {
            let sentence = format!(
                "{file} is not there: `cargo test -p ROOM -- --ignored write_the_corpus` writes what this version saves"
            );
            findings.push(Finding::new(Location::file(format.source), sentence));
        }
    }
    Ok(findings)
}

/// The file for the version that a source has.
fn file(format: &Format, source: &str) -> Result<String> {
    let Format {
        source: name,
        constant,
        ..
    } = format;
    let lines = source
        .lines()
        .filter_map(|line| line.strip_prefix(constant));
    let mut versions = lines.filter_map(|rest| rest.strip_prefix(" = ")?.strip_suffix(';'));
    let version = versions
        .next()
        .with_context(|| format!("{name} has no line `{constant} = ...;`"))?;
    Ok(format.file.replace("{}", version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_today_needs_its_file() {
        let [first, ..] = FORMATS else {
            panic!("there are formats")
        };
        let named = file(first, "// before\npub const VERSION: u32 = 31;\n").unwrap();
        assert_eq!(named, "crates/verbs/tests/engine/saved/version31.bin");
        let error = file(first, "const VERSION: u8 = 31;").unwrap_err();
        assert!(error.to_string().contains("has no line"), "{error}");
    }
}
