//! Relays at both ends that place the memory in the destination's guest, past both QEMUs.
//!
//! ```text
//!   source's QEMU ── unix ──► vrdma relay ══ RDMA ══► vrdma relay ── unix ──► destination's QEMU
//! ```

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use vrdma_api::{RelayRequest, RelayTold};
use vrdma_migration::blocks::{self, RamBlock};
use vrdma_migration::{Offered, Relay, RelayProgram};

use super::Machine;
use crate::relay::WaitingRelay;

/// The backend of a [`Machine`]'s memory.
const BACKEND: &str = "ram";

/// How and where the relays run.
#[derive(Clone, Copy)]
pub struct Placing<'a> {
    /// The program `vrdma`.
    pub program: &'a Path,
    /// Commands in the environment of the source's adapter and the destination's.
    pub enter: [&'a dyn Fn(&Command) -> Command; 2],
    /// The address at which the destination's relay listens.
    pub to: SocketAddr,
}

/// Both relays, ready for QEMUs that migrate.
pub struct Relays {
    source: Relay,
    /// The file that the source's QEMU writes its stream into.
    file: Option<Offered>,
    destination: WaitingRelay,
}

impl Relays {
    /// Starts the relays for these QEMUs.
    ///
    /// # Errors
    /// When a relay does not start, or cannot use the memory.
    pub fn start(placing: &Placing<'_>, [source, destination]: [&mut Machine; 2]) -> Result<Self> {
        let log = destination.file("relay");
        let listening = listen(placing, destination.process.id(), &log)?;
        let lists = [ram_blocks(source)?, ram_blocks(destination)?];
        let request = RelayRequest {
            to: placing.to,
            process: source.process.id(),
            blocks: blocks::placed(&[BACKEND], &lists[0], &lists[1])?,
        };
        let relay = Relay::start(&sender(placing), &request)?;
        Ok(Self {
            file: relay.offer(&mut source.monitor)?,
            source: relay,
            destination: listening,
        })
    }

    /// The migration URIs of the source's QEMU and the destination's.
    #[must_use]
    pub fn uris(&self) -> [String; 2] {
        let [socket, destination] = self.source.uris().clone();
        let source = self.file.as_ref().map_or(socket, |file| file.uri.clone());
        [source, destination]
    }

    /// Waits for both relays to end, when this QEMU has sent all; returns the processor time of each.
    ///
    /// # Errors
    /// When a relay fails.
    pub fn finish(self, source: &mut Machine) -> Result<[Duration; 2]> {
        if let Some(file) = &self.file {
            file.withdraw(&mut source.monitor)?;
        }
        let source = match self.source.finish() {
            Some(RelayTold::Done { processor_ms, .. }) => processor_ms,
            Some(RelayTold::Failed { why }) => bail!("the source's relay: {why}"),
            Some(RelayTold::Ready { .. }) | None => bail!("the source's relay does not end"),
        };
        let said = self.destination.finish()?;
        let destination = reported(&said).context("the destination's relay tells of no time")?;
        Ok([source, destination].map(Duration::from_millis))
    }
}

/// The milliseconds of a report, which follows lines for people.
fn reported(said: &str) -> Option<u64> {
    let (_, report) = said.split_once('{')?;
    let report: Value = serde_json::from_str(&format!("{{{report}")).ok()?;
    report["processor_ms"].as_u64()
}

/// Starts the destination's relay.
fn listen(placing: &Placing<'_>, qemu: u32, log: &Path) -> Result<WaitingRelay> {
    let mut command = Command::new(placing.program);
    command
        .args(["--json", "relay", "--inside"])
        .args(["--qemu", &qemu.to_string()])
        .args(["--listen", &placing.to.to_string()]);
    WaitingRelay::start(&placing.enter[1](&command), log)
}

/// The command of the source's relay, in the source's environment.
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
