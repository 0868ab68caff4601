//! The relay at the host to which a guest migrates.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use vrdma_lab::daemon::process_socket;
use vrdma_lab::pair::{Pair, QEMUS, Side};
use vrdma_lab::relay::WaitingRelay;
use vrdma_migration::RelayProgram;

use super::PORT;

/// The command with which the migration crate starts the relay at the guest's present host.
pub(super) fn program(pair: &Pair, vrdma: &Path, host: Side) -> RelayProgram {
    let socket = process_socket(pair.daemon_of(host).run_dir());
    let variables = [
        ("VRDMA_ADAPTER".into(), QEMUS.into()),
        ("VRDMA_SOCKET".into(), socket.into()),
    ];
    RelayProgram {
        program: vrdma.to_owned(),
        arguments: ["relay", "--send"].map(Into::into).to_vec(),
        variables: variables.to_vec(),
    }
}

/// The command of a relay for a QEMU of that host, on the adapter that its QEMUs have.
pub(super) fn command(pair: &Pair, vrdma: &Path, host: Side, qemu: u32) -> Command {
    let mut command = Command::new(vrdma);
    command
        .arg("--socket")
        .arg(pair.daemon_of(host).control_socket())
        .args(["relay", "--adapter", QEMUS])
        .args(["--qemu", &qemu.to_string()])
        .args(["--listen", &format!("{}:{PORT}", host.qemus_address())]);
    command
}

pub(super) fn start(pair: &Pair, command: &Command) -> Result<WaitingRelay> {
    WaitingRelay::start(command, &pair.run_dir().join("relay.out"))
}
