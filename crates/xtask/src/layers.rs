//! `cargo xtask layers`: each room uses only the rooms that the house plan allows, and rooms that
//! forbid `unsafe` say so.
//!
//! The table is the plan of ARCHITECTURE.md; a room that is missing from it fails the check.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

struct Room {
    name: &'static str,
    may_use: &'static [&'static str],
    forbids_unsafe: bool,
}

const fn room(name: &'static str, may_use: &'static [&'static str], forbids_unsafe: bool) -> Room {
    Room {
        name,
        may_use,
        forbids_unsafe,
    }
}

const ROOMS: &[Room] = &[
    room("wire", &[], true),
    room("verbs", &["wire"], true),
    room("memory", &["verbs"], false),
    room("adapter", &["wire", "verbs"], true),
    room("switch", &["wire"], true),
    room("cm", &["wire"], true),
    room("host", &["wire", "verbs", "adapter", "switch"], true),
    room("pvrdma", &["wire", "verbs", "memory", "adapter"], true),
    room(
        "process",
        &[
            "wire", "verbs", "memory", "adapter", "switch", "cm", "provider",
        ],
        true,
    ),
    room("vfio-user", &[], true),
    room("uplink", &["wire"], false),
    room("api", &[], true),
    room("api-client", &["api"], true),
    room("provider", &[], false),
    room(
        "daemon",
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
            "api",
        ],
        true,
    ),
    room("ibverbs", &["provider"], false),
    room("study", &["api", "lab"], true),
    room("cli", &["api", "api-client"], true),
    room(
        "driver",
        &["wire", "verbs", "memory", "adapter", "pvrdma"],
        false,
    ),
    room("sim", &["wire", "verbs", "switch", "uplink"], true),
    room("lab", &["api", "api-client"], false),
    room("xtask", &["lab", "api", "study"], true),
];

/// Checks every package of the workspace; all findings are reported at once.
pub(crate) fn check() -> Result<()> {
    let metadata = metadata()?;
    let mut findings = Vec::new();
    for (name, package) in packages(&metadata)? {
        match ROOMS.iter().find(|room| room.name == name) {
            Some(room) => check_room(room, package, &mut findings),
            None => findings.push(format!(
                "{name}: not in the house plan (xtask/src/layers.rs)"
            )),
        }
    }
    ensure!(findings.is_empty(), "layers:\n  {}", findings.join("\n  "));
    println!("layers: {} rooms keep to the house plan", ROOMS.len());
    Ok(())
}

fn metadata() -> Result<Value> {
    let output = Command::new(env!("CARGO"))
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

fn check_room(room: &Room, package: &Value, findings: &mut Vec<String>) {
    for used in used_rooms(package) {
        if !room.may_use.contains(&used) {
            findings.push(format!("{} may not use {used}", room.name));
        }
    }
    if room.forbids_unsafe && !forbids_unsafe(package) {
        findings.push(format!("{} lacks #![forbid(unsafe_code)]", room.name));
    }
}

/// Dev-dependencies may reach up: a test brings its own world.
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
