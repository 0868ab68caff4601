//! Rooms: each uses only the rooms that the house plan allows, and those that forbid `unsafe` declare it.
//!
//! The table is the plan of ARCHITECTURE.md; a room that is missing from it is a finding. So is a row, or a line of
//! Cargo.toml, that allows a room that is not used.

mod unused;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Finding, Location, Tree};

struct Room {
    name: &'static str,
    may_use: &'static [&'static str],
    kind: Kind,
}

/// Restrictions of a room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Neither std nor `unsafe`.
    Bare,
    /// No `unsafe`.
    Safe,
    /// `unsafe`, or nothing is declared.
    Any,
}

use Kind::{Any, Bare, Safe};

const fn room(name: &'static str, may_use: &'static [&'static str], kind: Kind) -> Room {
    Room {
        name,
        may_use,
        kind,
    }
}

const ROOMS: &[Room] = &[
    room("wire", &[], Bare),
    room("verbs", &["wire"], Bare),
    room("memory", &["verbs"], Any),
    room("keep", &[], Any),
    room("adapter", &["wire", "verbs"], Bare),
    room("switch", &["wire"], Bare),
    room("cm", &["wire"], Bare),
    room("host", &["wire", "verbs", "adapter", "switch"], Safe),
    room("pvrdma", &["wire", "verbs", "memory", "adapter"], Safe),
    room(
        "process",
        &[
            "wire", "verbs", "memory", "adapter", "switch", "cm", "provider", "keep",
        ],
        Safe,
    ),
    room("vfio-user", &[], Any),
    room("uplink", &["wire"], Any),
    room("api", &[], Safe),
    room("api-client", &["api"], Safe),
    room("migration", &["api", "api-client"], Safe),
    room("handover", &["api", "uplink"], Safe),
    room("provider", &[], Any),
    room(
        "inventory",
        &["wire", "switch", "uplink", "process", "keep", "api"],
        Safe,
    ),
    room("sandbox", &["wire", "uplink", "provider", "api"], Safe),
    room(
        "threads",
        &[
            "wire",
            "switch",
            "uplink",
            "host",
            "process",
            "vfio-user",
            "api",
            "inventory",
            "sandbox",
        ],
        Safe,
    ),
    room(
        "ethernet",
        &[
            "wire",
            "switch",
            "uplink",
            "host",
            "process",
            "api",
            "inventory",
            "sandbox",
            "threads",
        ],
        Safe,
    ),
    room(
        "shard",
        &[
            "wire",
            "verbs",
            "adapter",
            "process",
            "memory",
            "switch",
            "cm",
            "host",
            "pvrdma",
            "vfio-user",
            "provider",
            "uplink",
            "keep",
            "api",
            "inventory",
            "sandbox",
            "threads",
        ],
        Safe,
    ),
    room(
        "daemon",
        &[
            "wire",
            "verbs",
            "adapter",
            "process",
            "memory",
            "switch",
            "pvrdma",
            "uplink",
            "keep",
            "api",
            "inventory",
            "sandbox",
            "threads",
            "handover",
            "ethernet",
            "shard",
        ],
        Safe,
    ),
    room("ibverbs", &["provider"], Any),
    room("relay", &["ibverbs"], Any),
    room("study", &["api", "lab"], Safe),
    room(
        "cli",
        &["api", "api-client", "migration", "relay", "wire"],
        Safe,
    ),
    room(
        "driver",
        &[
            "wire", "verbs", "memory", "adapter", "switch", "host", "pvrdma",
        ],
        Any,
    ),
    room(
        "sim",
        &[
            "wire", "verbs", "adapter", "switch", "host", "pvrdma", "uplink", "driver",
        ],
        Safe,
    ),
    room(
        "fuzz",
        &[
            "wire",
            "verbs",
            "memory",
            "switch",
            "cm",
            "adapter",
            "pvrdma",
            "vfio-user",
            "process",
            "provider",
            "uplink",
            "driver",
            "keep",
            "relay",
            "api",
            "handover",
            "inventory",
            "migration",
        ],
        Safe,
    ),
    room("lab", &["api", "api-client", "migration"], Any),
    room("xtask", &["lab", "api", "study", "migration"], Safe),
];

/// Rooms without std.
pub(super) fn without_std() -> impl Iterator<Item = &'static str> {
    let bare = ROOMS.iter().filter(|room| room.kind == Bare);
    bare.map(|room| room.name)
}

/// Checks each package of the workspace.
pub(super) fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    let metadata = metadata(tree)?;
    let mut findings = Vec::new();
    for (name, package) in packages(&metadata)? {
        let manifest = Manifest::of(tree, package)?;
        match ROOMS.iter().find(|room| room.name == name) {
            Some(room) => {
                findings.extend(check_room(room, package, &manifest));
                let sources = unused::sources(package)?;
                findings.extend(unused::check(room, package, &manifest, &sources));
            }
            None => findings.push(Finding::new(
                Location::file(&manifest.file),
                format!(
                    "{name} is not in the house plan: add it to ARCHITECTURE.md and check/layers.rs"
                ),
            )),
        }
    }
    Ok(findings)
}

fn metadata(tree: &Tree) -> Result<Value> {
    let output = Command::new(env!("CARGO"))
        .current_dir(&tree.root)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .output()
        .context("running cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata failed");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn packages(metadata: &Value) -> Result<BTreeMap<&str, &Value>> {
    let list = metadata["packages"]
        .as_array()
        .context("cargo metadata lists no packages")?;
    Ok(list
        .iter()
        .filter_map(|package| Some((package["name"].as_str()?.strip_prefix("vrdma-")?, package)))
        .collect())
}

/// A room's Cargo.toml.
struct Manifest {
    file: String,
    text: String,
}

impl Manifest {
    fn of(tree: &Tree, package: &Value) -> Result<Self> {
        let path = package["manifest_path"]
            .as_str()
            .context("a package without a manifest")?;
        let file = Path::new(path).strip_prefix(&tree.root)?.to_string_lossy();
        let text = tree.read(&file)?;
        Ok(Self {
            file: file.into_owned(),
            text,
        })
    }

    /// The line that names a room.
    fn line_of(&self, used: &str) -> Location {
        let name = format!("vrdma-{used}");
        let is_named = |line: &str| {
            let rest = line.strip_prefix(&name);
            rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        match self.text.lines().position(is_named) {
            Some(index) => Location::line(&self.file, index + 1),
            None => Location::file(&self.file),
        }
    }
}

fn check_room(room: &Room, package: &Value, manifest: &Manifest) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = room.name;
    for used in used_rooms(package).filter(|used| !room.may_use.contains(used)) {
        let sentence = format!(
            "{name} may not use {used}: find another way, or change the row in ARCHITECTURE.md and check/layers.rs"
        );
        findings.push(Finding::new(manifest.line_of(used), sentence));
    }
    if room.kind != Any && !forbids_unsafe(package) {
        let sentence =
            format!("{name} lacks #![forbid(unsafe_code)]: add it to its lib.rs or main.rs");
        findings.push(Finding::new(Location::file(&manifest.file), sentence));
    }
    findings
}

/// Rooms that a package uses. Dev-dependencies may go up the layers: tests use what they need.
fn used_rooms(package: &Value) -> impl Iterator<Item = &str> {
    package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str()?.strip_prefix("vrdma-"))
}

fn forbids_unsafe(package: &Value) -> bool {
    let source = Path::new(package["manifest_path"].as_str().unwrap_or_default())
        .parent()
        .map(|folder| folder.join("src"));
    source.is_some_and(|folder| {
        ["lib.rs", "main.rs"].iter().any(|file| {
            std::fs::read_to_string(folder.join(file))
                .is_ok_and(|text| text.contains("#![forbid(unsafe_code)]"))
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_room_that_reaches_up_is_found_at_its_line() {
        let manifest = Manifest {
            file: "crates/wire/Cargo.toml".to_owned(),
            text: "[dependencies]\nvrdma-verbs.workspace = true\n".to_owned(),
        };
        let dependencies = json!([{ "name": "vrdma-verbs", "kind": null }, { "name": "vrdma-lab", "kind": "dev" }]);
        let package =
            json!({ "dependencies": dependencies, "manifest_path": "/nonexistent/Cargo.toml" });
        let found = check_room(&ROOMS[0], &package, &manifest);
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("crates/wire/Cargo.toml:2: wire may not use verbs: "));
        assert!(told[1].starts_with("crates/wire/Cargo.toml: wire lacks #![forbid(unsafe_code)]"));
    }
}
