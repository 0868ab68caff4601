//! What libvirt does with guests that it has started, and what it knows of them.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vrdma_lab::pair::{Pair, Side};

use super::stage::words;

/// How long libvirt may take to learn from QEMU that its VM runs, on a busy machine.
const NOTICING_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The name of a guest's domain, which is the guest's.
const DOMAIN: &str = "a";

fn virsh(uri: &str, words: &[&str]) -> Result<Output> {
    let mut virsh = Command::new("virsh");
    virsh.args(["--quiet", "--connect", uri]).args(words);
    virsh.output().context("cannot start virsh")
}

/// Checks that `virsh migrate`, which would leave the adapter behind, fails before anything has changed: the hook of
/// the destination's host refuses.
pub(super) fn check_refusal(pair: &Pair) -> Result<()> {
    let libvirt = |side| {
        let uri = pair.guest(side).libvirt();
        uri.with_context(|| format!("guest {} has no libvirt", side.name()))
    };
    let to = libvirt(Side::B)?;
    let output = virsh(&libvirt(Side::A)?, &["migrate", "--live", DOMAIN, &to])?;
    let said = words(&output);
    ensure!(
        !output.status.success() && said.contains("vrdma migrate"),
        "virsh migrate was not refused: {said}"
    );
    check_running(pair)
}

/// Checks that the libvirt of guest a's present host, if it has one, knows that the guest runs.
pub(super) fn check_running(pair: &Pair) -> Result<()> {
    let Some(uri) = pair.guest(Side::A).libvirt() else {
        return Ok(());
    };
    let deadline = Instant::now() + NOTICING_LIMIT;
    loop {
        let said = words(&virsh(&uri, &["domstate", DOMAIN])?);
        if said.trim() == "running" {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "libvirt says of a guest that runs: {said}"
        );
        thread::sleep(LOOK_EVERY);
    }
}
