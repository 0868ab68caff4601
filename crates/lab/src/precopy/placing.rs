//! Relays at both ends that place the memory in the destination's, past both QEMUs.
//!
//! ```text
//!   source's QEMU ── unix ──► vrdma relay ══ RDMA ══► vrdma relay ── unix ──► destination's QEMU
//! ```

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use vrdma_api::{RelayRequest, RelayTold};
use vrdma_migration::blocks::{self, RamBlock};
use vrdma_migration::{Relay, RelayProgram};

use super::Machine;
use crate::process::{Lifetime, POLL, Supervised};

/// How long the destination's may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// The backend of a [`Machine`]'s memory.
const BACKEND: &str = "ram";

/// Where they run.
#[derive(Clone, Copy)]
pub struct Placing<'a> {
    /// `vrdma`.
    pub program: &'a Path,
    /// Commands in the environment of the source's adapter and the destination's.
    pub enter: [&'a dyn Fn(&Command) -> Command; 2],
    /// Where the destination's listens.
    pub to: SocketAddr,
}

/// Both, ready for QEMUs that migrate.
pub struct Relays {
    source: Relay,
    destination: Supervised,
    log: PathBuf,
}

impl Relays {
    /// Starts them for these QEMUs.
    ///
    /// # Errors
    /// When one does not start, or cannot use the memory.
    pub fn start(placing: &Placing<'_>, [source, destination]: [&mut Machine; 2]) -> Result<Self> {
        let log = destination.file("relay");
        let listener = listen(placing, destination.process.id(), &log)?;
        let lists = [ram_blocks(source)?, ram_blocks(destination)?];
        let request = RelayRequest {
            to: placing.to,
            process: source.process.id(),
            blocks: blocks::placed(&[BACKEND], &lists[0], &lists[1])?,
        };
        Ok(Self {
            source: Relay::start(&sender(placing), &request)?,
            destination: listener,
            log,
        })
    }

    /// The migration URIs of the source's QEMU and the destination's.
    #[must_use]
    pub fn uris(&self) -> &[String; 2] {
        self.source.uris()
    }

    /// Waits for their ends; the processor time of each.
    ///
    /// # Errors
    /// When one ends badly.
    pub fn finish(mut self) -> Result<[Duration; 2]> {
        let source = match self.source.finish() {
            Some(RelayTold::Done { processor_ms, .. }) => processor_ms,
            Some(RelayTold::Failed { why }) => bail!("the source's relay: {why}"),
            Some(RelayTold::Ready { .. }) | None => bail!("the source's relay does not end"),
        };
        let ended = self.destination.wait_for_exit(PATIENCE)?;
        let said = fs::read_to_string(&self.log)?;
        let is_good = ended.is_some_and(|status| status.success());
        ensure!(is_good, "the destination's relay ended badly: {said}");
        let destination = reported(&said).context("the destination's relay tells of no time")?;
        Ok([source, destination].map(Duration::from_millis))
    }
}

/// The milliseconds of a report, which comes behind lines for people.
fn reported(said: &str) -> Option<u64> {
    let (_, report) = said.split_once('{')?;
    let report: Value = serde_json::from_str(&format!("{{{report}")).ok()?;
    report["processor_ms"].as_u64()
}

/// Starts the destination's, and waits until it listens.
fn listen(placing: &Placing<'_>, qemu: u32, log: &Path) -> Result<Supervised> {
    let mut command = Command::new(placing.program);
    command
        .args(["--json", "relay", "--inside"])
        .args(["--qemu", &qemu.to_string()])
        .args(["--listen", &placing.to.to_string()]);
    let command = placing.enter[1](&command);
    let mut relay = Supervised::spawn(&command, Some(log), Lifetime::Owned)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = fs::read_to_string(log)?;
        if said.contains("waiting for a relay") {
            return Ok(relay);
        }
        ensure!(relay.ended()?.is_none(), "the relay ended: {said}");
        ensure!(Instant::now() < deadline, "the relay does not listen");
        thread::sleep(POLL);
    }
}

/// How the source's is started, there.
fn sender(placing: &Placing<'_>) -> RelayProgram {
    let mut command = Command::new(placing.program);
    command.args(["relay", "--send"]);
    let command = placing.enter[0](&command);
    let variables = command.get_envs();
    let variables = variables.filter_map(|(name, value)| Some((name.into(), value?.into())));
    RelayProgram {
        program: command.get_program().into(),
        arguments: command.get_args().map(Into::into).collect(),
        variables: variables.collect(),
    }
}

fn ram_blocks(machine: &mut Machine) -> Result<Vec<RamBlock>> {
    let question = json!({ "command-line": blocks::QUESTION });
    let said = machine.monitor.execute("human-monitor-command", question)?;
    let listed = said.as_str().and_then(blocks::parse);
    listed.with_context(|| format!("QEMU says {said} of its blocks of memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_behind_what_is_for_people() {
        let said = "vrdma: waiting for a relay at 0.0.0.0:4444\n{\n  \"answered_bytes\": 9,\n  \"processor_ms\": 70\n}\n";
        assert_eq!(reported(said), Some(70));
        assert_eq!(reported("vrdma: waiting"), None);
    }
}
