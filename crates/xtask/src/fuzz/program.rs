//! The programs: one for each target, built with coverage counters, which ordinary builds must not have.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::folders::Folders;
use crate::cargo;

/// The program of a target.
pub(super) struct Program {
    pub(super) target: String,
    pub(super) path: PathBuf,
}

/// The flags that cargo-fuzz passes, so that stable Rust suffices.
const FLAGS: &[&str] = &[
    "--cfg",
    "fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Cargo's name for the machine's own triple. With a target named, build scripts and macros are built without the
/// counters.
const TRIPLE: &str = "host-tuple";

pub(super) fn build(folders: &Folders, targets: &[String]) -> Result<Vec<Program>> {
    let mut cargo = cargo::command();
    cargo
        .args(["build", "--package", "vrdma-fuzz", "--features", "coverage"])
        .args(["--profile", "fuzz", "--target", TRIPLE, "--target-dir"])
        .arg(&folders.results)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    targets.iter().for_each(|target| {
        cargo.args(["--bin", target]);
    });
    let status = cargo.status().context("cannot start cargo")?;
    ensure!(status.success(), "the targets do not build");
    let folder = folders.results.join(triple()?).join("fuzz");
    let program = |target: &String| Program {
        target: target.clone(),
        path: folder.join(target),
    };
    Ok(targets.iter().map(program).collect())
}

/// The triple that [`TRIPLE`] stands for, which is the name of the folder.
pub(crate) fn triple() -> Result<String> {
    let output = Command::new("rustc")
        .args(["--print", "host-tuple"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cannot start rustc")?;
    ensure!(output.status.success(), "rustc does not tell its machine");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
