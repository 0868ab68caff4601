//! `cargo xtask pyverbs`: rdma-core's own tests, on this host over the library, with ours in the same framework
//! (`pyverbs/test_vrdma.py`), in a container with the newest tests that Debian has, or in a guest over the device.
//!
//! Debian ships the tests as documentation of rdma-core, some of them compressed, and the modules that they import as
//! python3-pyverbs. `pyverbs/host.txt`, `pyverbs/newest.txt` and `pyverbs/guest.txt` list the tests that skip or fail
//! there, with reasons.

mod expected;
mod guest;
mod host;
mod newest;

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use clap::Args;

use expected::{Expected, Outcome};

/// The script that runs the tests and reports on each; its arguments are described at its top.
const SCRIPT: &str = include_str!("pyverbs/run.py");

/// Options of `cargo xtask pyverbs`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Run in a stock guest instead of on this host
    #[arg(long)]
    guest: bool,
    /// Run in a container with rdma-core of Debian's unstable release
    #[arg(long, conflicts_with = "guest")]
    newest: bool,
    /// Use an optimised library and daemon; a guest's daemon always is
    #[arg(long)]
    release: bool,
    /// Only tests that match, such as "test_cq.*"
    #[arg(value_name = "PATTERN")]
    only: Vec<String>,
}

/// Runs the tests and compares their outcomes with the expected ones.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { release, only, .. } = arguments;
    let (expected, report) = match (arguments.guest, arguments.newest) {
        (true, _) => (include_str!("pyverbs/guest.txt"), guest::run(only)?),
        (false, true) => (
            include_str!("pyverbs/newest.txt"),
            newest::run(*release, only)?,
        ),
        (false, false) => (include_str!("pyverbs/host.txt"), host::run(*release, only)?),
    };
    let outcomes = Outcome::read(&report);
    if let Some(sentence) = outcomes.iter().find_map(Outcome::unknown) {
        bail!("{sentence}");
    }
    ensure!(!outcomes.is_empty(), "no test ran");
    let findings = Expected::parse(expected)?.compare(&outcomes, arguments.only.is_empty());
    println!("{}", expected::summary(&outcomes));
    for finding in &findings {
        println!("  {finding}");
    }
    Ok(ExitCode::from(u8::from(!findings.is_empty())))
}
