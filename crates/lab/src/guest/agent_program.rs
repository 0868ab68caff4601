//! The agent's binary, compiled for the guest.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};

/// A ready-made agent instead of compiling one.
const AGENT_VARIABLE: &str = "VRDMA_LAB_AGENT";

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Compiled once a process; the lock makes simultaneous guests wait for the first.
static COMPILED: Mutex<Option<&'static Path>> = Mutex::new(None);

pub(super) fn agent_program() -> Result<&'static Path> {
    let mut compiled = COMPILED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(path) = *compiled {
        return Ok(path);
    }
    let path: &'static Path = Box::leak(compile()?.into_boxed_path());
    *compiled = Some(path);
    Ok(path)
}

/// Statically linked, since the guest's C library may be older than the
/// host's; in a target folder of its own, so that neither these flags nor
/// another cargo's lock touch the checkout's main one.
fn compile() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(AGENT_VARIABLE) {
        return Ok(path.into());
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = workspace.join("target/lab-agent");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(&workspace)
        .args([
            "build",
            "--release",
            "--quiet",
            "--package",
            "vrdma-lab",
            "--bin",
            "lab_agent",
        ])
        .args(["--no-default-features", "--target", TARGET, "--target-dir"])
        .arg(&folder)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .output()
        .context("cannot start cargo to compile the guests' agent")?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "the guests' agent does not compile:\n{words}"
    );
    Ok(folder.join(TARGET).join("release/lab_agent"))
}
