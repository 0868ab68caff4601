//! `vrdma relay` disconnects a program that connects and sends nothing, and waits for the next one.

use std::fs::write;
use std::process::{Command, id};
use std::time::Duration;

use anyhow::Result;
use vrdma_lab::pair::Side;
use vrdma_lab::process::{Lifetime, Supervised};
use vrdma_lab::relay::WaitingRelay;

use super::stage::Hosts;

pub(super) const NAME: &str = "vrdma relay and a silent caller";

const PORT: u16 = 4445;

/// Seconds after which the relay disconnects it.
const SILENCE: &str = "1";

/// Longest wait on a busy machine, including Python's start.
const PATIENCE: Duration = Duration::from_secs(40);

/// Connects and stays connected until it is killed.
const CALLER: &str = "\
import signal, sys
from pyverbs.cmid import CMID, AddrInfo
from pyverbs.qp import QPInitAttr, QPCap
import pyverbs.cm_enums as ce
info = AddrInfo(src=sys.argv[1], dst=sys.argv[2], dst_service=sys.argv[3], port_space=ce.RDMA_PS_TCP)
cmid = CMID(creator=info, qp_init_attr=QPInitAttr(qp_type=2, cap=QPCap(max_recv_wr=4)))
cmid.connect()
signal.pause()
";

/// Checks that two callers, one after the other, are reported.
pub(super) fn check(stage: &Hosts) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("caller.py");
    write(&script, CALLER)?;
    let to = stage.address(Side::B).to_string();
    let mut command = Command::new(crate::lab::built("vrdma", false)?);
    // Any process will do: its memory is mapped only for a relay that sends its request.
    command
        .args(["relay", "--inside", "--silence", SILENCE])
        .args(["--qemu", &id().to_string()])
        .args(["--listen", &format!("{to}:{PORT}")]);
    let command = stage.linked(Side::B, &command);
    let mut relay = WaitingRelay::start(&command, &folder.path().join("relay.out"))?;
    for callers in 1..=2 {
        let mut caller = Command::new("/usr/bin/python3");
        caller.arg(&script).arg(stage.address(Side::A).to_string());
        caller.args([&to, &PORT.to_string()]);
        let caller = stage.command(Side::A, &caller);
        let log = folder.path().join("caller.out");
        let _caller = Supervised::spawn(&caller, Some(&log), Lifetime::Owned)?;
        relay.wait_for("has been silent for too long", callers, PATIENCE)?;
    }
    Ok(())
}
