//! The agent's binary: named by a variable, beside the running program, or compiled here for the guest.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};

use crate::linked::{Profile, link, workspace};

/// Names a ready-made agent, so that none is compiled.
const AGENT_VARIABLE: &str = "VRDMA_LAB_AGENT";

/// The agent's name in an installation, beside its programs. Cargo's own `lab_agent` is beside them too, but is not
/// linked statically.
const AGENT_NAME: &str = "vrdma-lab-agent";

/// The agent compiled by this process; the lock makes simultaneous guests wait for the first.
static COMPILED: Mutex<Option<&'static Path>> = Mutex::new(None);

pub(super) fn agent_program() -> Result<&'static Path> {
    let mut compiled = COMPILED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(path) = *compiled {
        return Ok(path);
    }
    let path: &'static Path = Box::leak(find()?.into_boxed_path());
    *compiled = Some(path);
    Ok(path)
}

fn find() -> Result<PathBuf> {
    let given = std::env::var_os(AGENT_VARIABLE).map(PathBuf::from);
    if let Some(path) = given {
        ensure!(
            path.is_file(),
            "{AGENT_VARIABLE} names {}, which is no file",
            path.display()
        );
        return Ok(path);
    }
    let program = std::env::current_exe().context("cannot name the running program")?;
    let beside = program.with_file_name(AGENT_NAME);
    choose(beside, &workspace())
}

/// Chooses the agent beside the program, otherwise the checkout's, if the checkout is still there.
fn choose(beside: PathBuf, workspace: &Path) -> Result<PathBuf> {
    if beside.is_file() {
        return Ok(beside);
    }
    ensure!(
        workspace.join("Cargo.toml").is_file(),
        "the guests' agent is missing: put {AGENT_NAME} beside this program, or name it by {AGENT_VARIABLE} \
         (cargo build --release --package vrdma-lab --bin lab_agent makes it, with RUSTFLAGS='-C target-feature=+crt-static')"
    );
    link(
        "vrdma-lab",
        "lab_agent",
        Profile::Release,
        &["--no-default-features"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_checkout_or_agent_it_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path().join(AGENT_NAME);
        let told = choose(beside.clone(), folder.path()).unwrap_err();
        assert!(told.to_string().contains(AGENT_VARIABLE), "{told}");
        std::fs::write(&beside, "").unwrap();
        assert_eq!(choose(beside.clone(), folder.path()).unwrap(), beside);
    }
}
