//! `cargo xtask pyverbs`: rdma-core's own tests on this host, over the library and a daemon, and ours
//! in the same frame (`pyverbs/test_vrdma.py`).
//!
//! Debian ships the tests as documentation of rdma-core, some of them compressed, and what they
//! import as python3-pyverbs. `pyverbs/expected.txt` lists the tests that skip or fail, with reasons.

mod expected;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use tempfile::TempDir;

use expected::{Expected, Outcome};

/// Where Debian puts the tests.
const TESTS: &str = "/usr/share/doc/rdma-core/tests";

/// Debian's Python, for which its pyverbs is built.
const PYTHON: &str = "/usr/bin/python3";

/// Seconds that one test may take.
const LIMIT: &str = "30";

/// Options of `cargo xtask pyverbs`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Optimised library and daemon
    #[arg(long)]
    release: bool,
    /// Only tests that match, such as "test_cq.*"
    #[arg(value_name = "PATTERN")]
    only: Vec<String>,
}

/// Runs the tests and compares what became of them with what is expected.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let expected = Expected::parse(include_str!("pyverbs/expected.txt"))?;
    let library = crate::library::link(arguments.release)?;
    let folder = TempDir::with_prefix("vrdma-pyverbs-")?;
    unpack(folder.path())?;
    let daemon = crate::process_host::ProcessHost::start(arguments.release, folder.path())?;
    let report = folder.path().join("report");
    let mut python = Command::new(PYTHON);
    python
        .arg(script(folder.path())?)
        .arg(folder.path())
        .arg(&report)
        .arg(LIMIT)
        .args(&arguments.only)
        .stdin(Stdio::null());
    daemon.environment(&mut python, &library);
    let status = python
        .status()
        .with_context(|| format!("running {PYTHON}"))?;
    ensure!(
        status.success(),
        "the tests ended with {status}:\n{}",
        daemon.log()
    );
    let outcomes = Outcome::read(&std::fs::read_to_string(report)?);
    ensure!(!outcomes.is_empty(), "no test matches");
    let findings = expected.compare(&outcomes, arguments.only.is_empty());
    println!("{}", expected::summary(&outcomes));
    for finding in &findings {
        println!("  {finding}");
    }
    Ok(if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn script(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("run.py");
    std::fs::write(&path, include_str!("pyverbs/run.py"))?;
    Ok(path)
}

/// Copies the tests to where they can be imported, ours beside them.
fn unpack(folder: &Path) -> Result<()> {
    ensure!(
        Path::new(TESTS).is_dir(),
        "{TESTS} is not there; install rdma-core and python3-pyverbs"
    );
    let copied = Command::new("cp")
        .args(["-r", TESTS])
        .arg(folder)
        .status()?;
    ensure!(copied.success(), "copying {TESTS} failed");
    for file in std::fs::read_dir(folder.join("tests"))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "gz") {
            let unpacked = Command::new("gzip").arg("-d").arg(&path).status()?;
            ensure!(unpacked.success(), "unpacking {} failed", path.display());
        }
    }
    let ours = include_str!("pyverbs/test_vrdma.py");
    std::fs::write(folder.join("tests/test_vrdma.py"), ours)?;
    Ok(())
}
