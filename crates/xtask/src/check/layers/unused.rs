//! Rooms that a room is allowed to use and does not: an unneeded row of the table, or line of its Cargo.toml.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Finding, Location, Manifest, Room, used_rooms};

/// Reports what is allowed and not used. `sources` are all files of the room except its tests.
pub(super) fn check(
    room: &Room,
    package: &Value,
    manifest: &Manifest,
    sources: &[String],
) -> Vec<Finding> {
    let name = room.name;
    let used: Vec<&str> = used_rooms(package).collect();
    let unused_row = room.may_use.iter().filter(|room| !used.contains(room));
    let unused_row = unused_row.map(|unused| {
        let sentence = format!(
            "{name} may use {unused} and does not: take it out of the rows in ARCHITECTURE.md and check/layers.rs"
        );
        Finding::new(Location::file(&manifest.file), sentence)
    });
    let is_named = |used: &str| {
        let library = format!("vrdma_{}", used.replace('-', "_"));
        sources.iter().any(|text| names(text, &library))
    };
    let unused_line = used.iter().filter(|used| !is_named(used));
    let unused_line = unused_line.map(|unused| {
        let sentence = format!("no source of {name} but tests uses {unused}: take it out, or let it be a dev-dependency");
        Finding::new(manifest.line_of(unused), sentence)
    });
    unused_row.chain(unused_line).collect()
}

/// Whether a text contains a name that is not the beginning of a longer one.
fn names(text: &str, name: &str) -> bool {
    let mut behind = text.split(name).skip(1);
    behind.any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

/// The text of each source file of a package's libraries and programs, and of their build scripts.
pub(super) fn sources(package: &Value) -> Result<Vec<String>> {
    let targets = package["targets"]
        .as_array()
        .context("a package without targets")?;
    let is_shipped = |target: &&Value| {
        let kinds = target["kind"].as_array().into_iter().flatten();
        !kinds
            .filter_map(Value::as_str)
            .any(|kind| matches!(kind, "test" | "example" | "bench"))
    };
    let folders = targets.iter().filter(is_shipped).filter_map(|target| {
        let path = Path::new(target["src_path"].as_str()?);
        path.parent().map(Path::to_path_buf)
    });
    let folders: BTreeSet<PathBuf> = folders.collect();
    let mut texts = Vec::new();
    for folder in folders {
        read_all(&folder, &mut texts)?;
    }
    Ok(texts)
}

fn read_all(folder: &Path, texts: &mut Vec<String>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(std::fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Kind, room};
    use super::*;

    #[test]
    fn what_is_allowed_and_not_used_is_found() {
        const CM: Room = room("cm", &["wire", "verbs", "uplink"], Kind::Bare);
        let manifest = Manifest {
            file: "crates/cm/Cargo.toml".to_owned(),
            text: "[dependencies]\nvrdma-wire.workspace = true\nvrdma-verbs.workspace = true\n"
                .to_owned(),
        };
        let dependencies = json!([
            { "name": "vrdma-wire", "kind": null },
            { "name": "vrdma-verbs", "kind": null },
            { "name": "vrdma-uplink", "kind": "dev" },
        ]);
        let package = json!({ "dependencies": dependencies });
        let sources = ["use vrdma_wire::Gid;\nuse vrdma_verbs_of_others::Hca;\n".to_owned()];
        let found = check(&CM, &package, &manifest, &sources);
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("crates/cm/Cargo.toml: cm may use uplink and does not: "));
        assert!(
            told[1].starts_with("crates/cm/Cargo.toml:3: no source of cm but tests uses verbs: ")
        );
    }
}
