//! Uses a guest's adapter right after it has come: its driver is reloaded, then the guest is rebooted.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use vrdma_lab::pair::Side;

use super::stage::Stage;
use crate::guests::with_device;

const RELOAD: &str = "modprobe -r vmw_pvrdma && modprobe vmw_pvrdma || exit 1; \
    for i in $(seq 200); do grep -q ACTIVE /sys/class/infiniband/*/ports/1/state && exit 0; sleep 0.05; done; exit 1";

/// The program, which compares every byte.
const PROGRAM: &str = "ibv_rc_pingpong -d $DEV -g 1 -c -s 16384 -n 1000";

const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn run(stage: &mut Stage<'_>, times: u32) -> Result<ExitCode> {
    for number in 1..=times {
        eprintln!("migration {number} of {times} ...");
        stage.go()?;
        stage.pair.guest(Side::A).check(RELOAD)?;
        check(stage).context("after the driver was loaded anew")?;
        stage.pair.guest(Side::A).reboot()?;
        check(stage).context("after the guest booted anew")?;
    }
    println!("{times} migrations, the driver loaded anew and the guest booted anew after each: ok");
    Ok(ExitCode::SUCCESS)
}

/// Checks that both guests communicate.
fn check(stage: &Stage<'_>) -> Result<()> {
    let (server, client) = (with_device(PROGRAM), with_device(&format!("{PROGRAM} $A")));
    let outcome = stage.pair.run(&server, &client, LIMIT)?;
    ensure!(
        [outcome.server.status, outcome.client.status] == [0, 0],
        "{}{}",
        outcome.client.stdout_text(),
        outcome.client.stderr_text()
    );
    Ok(())
}
