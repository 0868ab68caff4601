//! Checks by compilation that rooms work without std: a crate that uses the room without its default features brings a
//! panic handler of its own. Std has one too, so if the room or a dependency of it links std there are two. The
//! compiler refuses that, and names the crate that brought std.
//!
//! This needs nothing but the compiler at hand: neither a bare target nor a download of one.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::layers::without_std;
use super::{Finding, Location, Tree};

/// The folder below that of build results; one for all rooms, so that what they share is compiled once.
const FOLDER: &str = "target/check";

pub(super) fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for room in without_std() {
        if let Some(words) = refusal(tree, room, "default-features = false")? {
            let place = Location::file(format!("crates/{room}/Cargo.toml"));
            let sentence = format!("{room} does not compile without std: {words}");
            findings.push(Finding::new(place, sentence));
        }
    }
    Ok(findings)
}

/// The compiler's errors about a room with such features, in one line.
fn refusal(tree: &Tree, room: &str, features: &str) -> Result<Option<String>> {
    let folder = tree.root.join(FOLDER).join(room);
    write_crate(tree, &folder, room, features)?;
    let output = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--color", "never"])
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(tree.root.join(FOLDER).join("target"))
        .output()
        .context("cannot start cargo check")?;
    if output.status.success() {
        return Ok(None);
    }
    Ok(Some(in_one_line(&String::from_utf8_lossy(&output.stderr))))
}

fn write_crate(tree: &Tree, folder: &Path, room: &str, features: &str) -> Result<()> {
    let path = tree.root.join("crates").join(room);
    let manifest = format!(
        "[package]\nname = \"bare-{room}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dependencies.vrdma-{room}]\npath = {path:?}\n{features}\n[workspace]\n"
    );
    let source = format!(
        "#![no_std]\nuse vrdma_{room} as _;\n#[panic_handler]\n\
         fn panic(_: &core::panic::PanicInfo<'_>) -> ! {{\n    loop {{}}\n}}\n"
    );
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::write(folder.join("src/lib.rs"), source)?;
    // The versions that the checkout uses, since they are already downloaded.
    fs::copy(tree.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}

/// Joins errors, and the notes that tell where std comes from.
fn in_one_line(words: &str) -> String {
    let is_told = |line: &&str| {
        line.starts_with("error") || line.contains("first defined in") || line.contains("-->")
    };
    let lines: Vec<&str> = words.lines().filter(is_told).map(str::trim).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_that_brings_std_is_refused() {
        let tree = Tree::of_this_program().unwrap();
        let words = refusal(&tree, "wire", "features = [\"cpu-detect\"]");
        let words = words.unwrap().unwrap();
        assert!(
            words.contains("std` (which `crc32fast` depends on)"),
            "{words}"
        );
    }
}
