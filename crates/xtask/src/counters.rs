//! Counters of daemons, read as a user would.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use vrdma_lab::daemon::Daemon;
use vrdma_lab::pair::Pair;

/// Runs `vrdma stats` at all the pair's daemons; adapters are in the order of the guests.
///
/// # Errors
/// When a daemon does not answer.
pub(crate) fn adapters(pair: &Pair, vrdma: &Path) -> Result<Vec<Value>> {
    all(pair.daemons(), vrdma)
}

/// The same for any daemons.
///
/// # Errors
/// When one does not answer.
pub(crate) fn all(daemons: &[Daemon], vrdma: &Path) -> Result<Vec<Value>> {
    let daemons = daemons.iter();
    let adapters: Result<Vec<Vec<Value>>> = daemons.map(|daemon| asked(daemon, vrdma)).collect();
    Ok(adapters?.concat())
}

/// Live objects and services of `rdma_cm` at each adapter.
pub(crate) fn objects(adapters: &[Value]) -> Vec<Value> {
    let alive = adapters.iter().map(|adapter| {
        let rdma = &adapter["rdma"];
        json!({ "objects": rdma["objects"], "listeners": rdma["listeners"] })
    });
    alive.collect()
}

/// Sum of one RDMA counter over adapters.
pub(crate) fn rdma_sum(adapters: &[Value], counter: &str) -> u64 {
    let counts = adapters
        .iter()
        .filter_map(|adapter| adapter["rdma"]["counters"][counter].as_u64());
    counts.sum()
}

/// Runs `vrdma stats` at one daemon.
///
/// # Errors
/// When it does not answer.
pub(crate) fn asked(daemon: &Daemon, vrdma: &Path) -> Result<Vec<Value>> {
    let output = Command::new(vrdma)
        .arg("--socket")
        .arg(daemon.control_socket())
        .args(["stats", "--json"])
        .output()
        .context("cannot start vrdma")?;
    ensure!(
        output.status.success(),
        "vrdma stats: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("vrdma stats --json is not a list")
}
