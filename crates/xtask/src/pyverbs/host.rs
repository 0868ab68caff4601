//! The tests on this host, over the library and a daemon.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::SCRIPT;
use crate::process_host::ProcessHost;

/// The folder of the tests in Debian, below a root.
const TESTS: &str = "usr/share/doc/rdma-core/tests";

/// Debian's Python, for which its pyverbs is built.
const PYTHON: &str = "/usr/bin/python3";

/// Seconds that one test may take.
pub(super) const LIMIT: &str = "30";

/// Runs the tests that match and returns the report.
pub(super) fn run(release: bool, only: &[String]) -> Result<String> {
    let library = crate::library::link(release)?;
    let folder = TempDir::with_prefix("vrdma-pyverbs-")?;
    unpack(Path::new("/"), folder.path())?;
    let daemon = ProcessHost::start(release, folder.path())?;
    let (script, report) = (folder.path().join("run.py"), folder.path().join("report"));
    std::fs::write(&script, SCRIPT)?;
    let mut python = Command::new(PYTHON);
    python
        .arg(script)
        .arg(folder.path())
        .arg(&report)
        .arg(LIMIT)
        .args(only)
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
    Ok(std::fs::read_to_string(report)?)
}

/// Copies the tests of a root, and ours, to a folder from which they can be imported.
pub(super) fn unpack(root: &Path, folder: &Path) -> Result<()> {
    let tests = root.join(TESTS);
    ensure!(
        tests.is_dir(),
        "{} is not there; install rdma-core and python3-pyverbs",
        tests.display()
    );
    let copied = Command::new("cp")
        .arg("-r")
        .arg(&tests)
        .arg(folder)
        .status()?;
    ensure!(copied.success(), "copying {} failed", tests.display());
    for file in std::fs::read_dir(folder.join("tests"))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "gz") {
            let unpacked = Command::new("gzip").arg("-d").arg(&path).status()?;
            ensure!(unpacked.success(), "unpacking {} failed", path.display());
        }
    }
    let ours = include_str!("test_vrdma.py");
    std::fs::write(folder.join("tests/test_vrdma.py"), ours)?;
    Ok(())
}
