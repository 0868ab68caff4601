//! The tests in a stock guest, over the kernel's driver and the device.

use std::time::Duration;

use anyhow::{Result, ensure};
use vrdma_lab::pair::Mixed;

use super::SCRIPT;

/// The folder of the image that holds rdma-core's tests, unpacked.
const FOLDER: &str = "/opt/rdma-core";

/// Seconds that one test may take: an emulated processor runs both of its sides.
const LIMIT: u32 = 60;

/// Longest time of all tests together.
const ALL_LIMIT: Duration = Duration::from_secs(1200);

/// Runs the tests that match and returns the report.
pub(super) fn run(only: &[String]) -> Result<String> {
    let mixed = Mixed::start(&crate::lab::daemon(true)?)?;
    let guest = mixed.guest();
    guest.put("/tmp/run.py", "644", SCRIPT.as_bytes())?;
    let patterns: String = only.iter().map(|pattern| format!(" '{pattern}'")).collect();
    let command = format!("python3 /tmp/run.py {FOLDER} /tmp/report {LIMIT}{patterns}");
    let output = guest.run_for(&command, ALL_LIMIT)?;
    ensure!(
        output.status == 0,
        "the tests ended with status {}:\n{}{}\n{}",
        output.status,
        output.stdout_text(),
        output.stderr_text(),
        mixed.logs()
    );
    eprint!("{}", output.stderr_text());
    guest.check("cat /tmp/report")
}
