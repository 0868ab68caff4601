//! A guest that writes its memory faster than it is sent: its migration ends with `--auto-converge`, and not without
//! it.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use vrdma_lab::pair::Side;
use vrdma_lab::process::{Lifetime, Supervised};

use super::stage::Stage;

/// Copies one of two different files over a third, again and again: hundreds of megabytes a second of pages that are
/// not zeros, where the limit allows 25.
pub(super) const WRITER: &str = "cd /dev/shm; dd if=/dev/urandom of=r1 bs=1M count=24 status=none; \
    dd if=/dev/urandom of=r2 bs=1M count=24 status=none; cp r1 w; \
    setsid sh -c 'while :; do cat r1 1<> w; cat r2 1<> w; done' < /dev/null > /dev/null 2>&1 &";

const LIMITED: [&str; 2] = ["--bandwidth-limit", "200mbit"];

/// Time to send the guest's memory, which takes twelve seconds, and some more passes.
const PATIENCE: Duration = Duration::from_secs(40);

/// Time to undo the migration.
const GRACE: Duration = Duration::from_secs(30);

pub(super) fn run(stage: &mut Stage<'_>) -> Result<ExitCode> {
    stage.pair.guest(Side::A).check(WRITER)?;
    eprintln!("without --auto-converge, for {} s ...", PATIENCE.as_secs());
    goes_on_for_ever(stage)?;
    eprintln!("with --auto-converge ...");
    let converged = stage.go_with(&[&LIMITED[..], &["--auto-converge"]].concat())?;
    let figure = |name| converged.number(name).context("no such figure");
    println!(
        "without: not over after {} s; with --auto-converge: {:.1} s, {:.0} rounds, {:.0} ms of downtime: ok",
        PATIENCE.as_secs(),
        figure("total_ms")? / 1e3,
        figure("rounds")?,
        figure("downtime_ms")?
    );
    Ok(ExitCode::SUCCESS)
}

/// Checks that a migration does not end until it is interrupted.
fn goes_on_for_ever(stage: &mut Stage<'_>) -> Result<()> {
    let arriving = stage.pair.expect(Side::A)?;
    let command = stage.command(&arriving, &LIMITED);
    let log = stage.pair.run_dir().join("migrate.out");
    let migration = Supervised::spawn(&command, Some(&log), Lifetime::Owned);
    let mut migration = migration.context("cannot start vrdma")?;
    if let Some(status) = migration.wait_for_exit(PATIENCE)? {
        bail!("it ended without --auto-converge: {status}");
    }
    migration.stop(GRACE);
    let said = fs::read_to_string(&log)?;
    ensure!(said.contains("the VM runs on at the source"), "{said}");
    Ok(())
}
