//! Small C programs of benchmarks and labs, compiled against the installed libibverbs and librdmacm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const FLAGS: [&str; 6] = [
    "-std=c99",
    "-D_GNU_SOURCE",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
];

const PACKAGES: &str = "install the packages gcc libibverbs-dev librdmacm-dev";

/// Compiles a source into a program of this name in the folder.
pub(crate) fn compiled(folder: &Path, name: &str, source: &str) -> Result<PathBuf> {
    let program = folder.join(name);
    let file = program.with_extension("c");
    fs::write(&file, source)?;
    let status = Command::new("cc")
        .args(FLAGS)
        .arg("-o")
        .arg(&program)
        .arg(&file)
        .args(["-libverbs", "-lrdmacm"])
        .status()
        .with_context(|| format!("cc is missing: {PACKAGES}"))?;
    ensure!(status.success(), "{name}.c does not compile: {PACKAGES}");
    Ok(program)
}
