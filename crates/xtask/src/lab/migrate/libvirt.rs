//! What libvirt does with guests that it has started, and knows of them.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vrdma_lab::pair::{Pair, Side};

use super::stage::words;

/// How long libvirt may take to hear from QEMU that its VM runs, on a busy machine.
const NOTICING_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A guest's domain has its name.
const DOMAIN: &str = "a";

fn virsh(uri: &str, words: &[&str]) -> Result<Output> {
    let mut virsh = Command::new("virsh");
    virsh.args(["--quiet", "--connect", uri]).args(words);
    virsh.output().context("cannot start virsh")
}

/// `virsh migrate`, which would leave the adapter behind, ends before anything has changed: the hook of the host that the
/// guest would come to says so.
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

/// Where guest a is, its libvirt, if it has one, knows that it runs.
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
