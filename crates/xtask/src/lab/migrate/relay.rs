//! The relay at the host to which a guest goes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use vrdma_lab::daemon::process_socket;
use vrdma_lab::pair::{Pair, QEMUS, Side};
use vrdma_lab::process::{Lifetime, Supervised};
use vrdma_migration::RelayProgram;

use super::PORT;

/// How long it may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Between two looks at what it printed.
const POLL: Duration = Duration::from_millis(10);

/// How the migration room starts the one of the host where the guest is.
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

/// `vrdma relay`, under way.
pub(super) struct Relay {
    process: Supervised,
    log: PathBuf,
}

impl Relay {
    /// Starts one for a QEMU of that host, on the adapter that its QEMUs have.
    pub(super) fn start(pair: &Pair, vrdma: &Path, host: Side, qemu: u32) -> Result<Self> {
        let mut command = Command::new(vrdma);
        command
            .arg("--socket")
            .arg(pair.daemon_of(host).control_socket())
            .args(["relay", "--adapter", QEMUS])
            .args(["--qemu", &qemu.to_string()])
            .args(["--listen", &format!("{}:{PORT}", host.qemus_address())]);
        let log = pair.run_dir().join("relay.out");
        // The log of the one before it would be continued.
        fs::write(&log, "")?;
        let process = Supervised::spawn(&command, Some(&log), Lifetime::Owned)?;
        let mut relay = Self { process, log };
        relay.wait_until_it_listens()?;
        Ok(relay)
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.said().contains("waiting for a relay") {
            let ended = self.process.ended()?;
            ensure!(ended.is_none(), "the relay ended: {}", self.said());
            ensure!(Instant::now() < deadline, "the relay does not listen");
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for its end, which must be a good one.
    pub(super) fn finish(mut self) -> Result<()> {
        let ended = self.process.wait_for_exit(PATIENCE)?;
        let is_good = ended.is_some_and(|status| status.success());
        ensure!(is_good, "the relay ended with {ended:?}: {}", self.said());
        Ok(())
    }
}
