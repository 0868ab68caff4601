//! Rust's nightly toolchain, which only some checks need.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// Nightly's cargo, in this tree.
pub(crate) fn cargo() -> Command {
    let mut command = cargo::of(Command::new("rustup"));
    command.args(["run", "nightly", "cargo"]);
    // These variables are of the toolchain that runs this program.
    for variable in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"] {
        command.env_remove(variable);
    }
    command
}

/// Fails with the installation command if something is missing.
pub(crate) fn ensure(components: &[&str]) -> Result<()> {
    let mut rustup = Command::new("rustup");
    rustup.args(["component", "list", "--toolchain", "nightly", "--installed"]);
    let output = rustup.output().context("cannot start rustup")?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let is_there = |name: &&str| listed.lines().any(|line| line.starts_with(*name));
    ensure!(
        output.status.success() && components.iter().all(is_there),
        "this needs: rustup toolchain install nightly --profile minimal --component {}",
        components.join(",")
    );
    Ok(())
}
