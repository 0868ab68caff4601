//! Guests, containers and processes on which the cells run.
//!
//! ```text
//!   Processes, one host:   host-a (namespace) --process socket--> vrdmad <-- host-b     veth for the programs' TCP
//!   Processes, two hosts:  host-a, vrdmad === veth, raw uplinks === vrdmad, host-b
//!   Guests, one host:      guest a --> vrdmad <-- guest b         rxe over its Ethernet switch
//!   Lent:                  guest a, a function of the host's <--card or cable--> another one, guest b
//!   Host:                  two programs on the host as it is
//!   Guests, two hosts:     guest a, vrdmad === veth === vrdmad, guest b; rxe guests have TAPs on the wire
//!   Cluster:               tenants of one or more guests each, all of one vrdmad
//! ```
//!
//! A stage is started when the first cell needs it and stays until the last one is done, so that repetitions of rivals
//! can take turns. Stages that wait are idle.

mod cluster;
mod guests;
mod host;
mod memory;
mod needed;
mod openfoam;
mod processes;
mod together;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use vrdma_lab::daemon::Daemon;
use vrdma_lab::guest::{Kind, Output};
use vrdma_lab::place::{self, Place};
use vrdma_lab::steps::Steps;

use crate::cell::{Endpoint, Setting, Transport};
use crate::programs::Own;
use crate::room::{self, Room};
use crate::run::Bench;
use crate::tool::Commands;
use crate::tool::{MemoryPath, Tool};
use cluster::Clustered;
use guests::Guests;
use host::Host;
use needed::Needed;
pub(crate) use needed::needed;
use processes::Processes;

/// Our programs that stages start.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `vrdmad`.
    pub daemon: PathBuf,
    /// `libibverbs.so.1`.
    pub library: PathBuf,
}

/// A pair of places for each endpoint and tenant; tenants are counted from 0.
trait Stage {
    /// The places of the server and of the client.
    fn places(&self, endpoint: Endpoint, tenant: u8) -> [&dyn Place; 2];
    /// Shell commands before a program of ours. They set `$PROGRAMS`, its folder, which is writable, and `$DEV`, the
    /// device; where adapters have names, also `$SIDE_A` and `$SIDE_B`.
    ///
    /// # Errors
    /// When a program does not compile or cannot be put there.
    fn prepare(&self, setting: Setting, tenant: u8, own: Own) -> Result<String>;
    /// The daemons of the adapters.
    fn daemons(&self) -> Vec<&Daemon>;
    /// The last messages of daemons and consoles.
    fn logs(&self) -> String;
    /// Migrates a guest's memory from side a to side b and returns the record of it.
    ///
    /// # Errors
    /// When it does not arrive, or this stage has no QEMUs of its own to migrate.
    fn migrate(&self, transport: Transport, way: MemoryPath) -> Result<String> {
        bail!("no memory migrates by {transport:?} ({way:?}) here")
    }
}

/// All stages that have been started.
pub struct Stages {
    programs: Programs,
    steps: Steps,
    /// The stages, or the reasons why they did not start.
    live: BTreeMap<Needed, Result<Box<dyn Stage>, String>>,
    /// Programs that are known to be installed.
    present: Vec<(Setting, &'static str)>,
}

impl Stages {
    /// No stages yet.
    #[must_use]
    pub fn new(programs: Programs) -> Self {
        Self {
            programs,
            steps: Steps::default(),
            live: BTreeMap::new(),
            present: Vec::new(),
        }
    }

    /// Makes room for a setting. Stages of rivals stay as long as there is memory for all; otherwise the others are
    /// ended, and boot again later.
    fn make_room(&mut self, setting: Setting) {
        let present = self.live.contains_key(&needed(setting));
        if !present && room::lack(setting, &Room::look()).is_some() {
            self.live
                .retain(|live, _| !matches!(live, Needed::Cluster { .. }));
        }
    }

    fn stage(&mut self, needed: Needed) -> Result<&dyn Stage> {
        if !self.live.contains_key(&needed) {
            let step = self.steps.start(&needed.title());
            let started = start(needed, &self.programs);
            step.done();
            self.live
                .insert(needed, started.map_err(|error| format!("{error:#}")));
        }
        match &self.live[&needed] {
            Ok(stage) => Ok(stage.as_ref()),
            Err(error) => Err(anyhow!("{error}")),
        }
    }

    /// Checks that a tool is installed: otherwise it would look like a server that ends at once.
    fn require(
        &mut self,
        setting: Setting,
        program: &'static str,
        package: &'static str,
    ) -> Result<()> {
        if self.present.contains(&(setting, program)) {
            return Ok(());
        }
        let [place, _] = self.stage(needed(setting))?.places(setting.endpoint, 0);
        let look = place
            .start(&format!("command -v {program}"))?
            .end(Duration::from_secs(30))?;
        ensure!(
            look.status == 0,
            "{program} is missing: install the package {package}"
        );
        self.present.push((setting, program));
        Ok(())
    }
}

impl Bench for Stages {
    fn begin(&mut self, setting: Setting, tool: &Tool) -> Result<()> {
        self.make_room(setting);
        // Our own programs are installed in guests that lack them.
        if let Some(own) = tool.own() {
            self.stage(needed(setting))?.prepare(setting, 0, own)?;
        }
        match tool.needs() {
            Some((program, package)) => self.require(setting, program, package),
            None => Ok(()),
        }
    }

    fn measure(
        &mut self,
        setting: Setting,
        tool: &Tool,
        commands: &Commands,
        limit: Duration,
    ) -> Result<String> {
        let stage = self.stage(needed(setting))?;
        let before = sent(stage)?;
        let words = match (tool, setting.tenants) {
            (Tool::Precopy(tool), _) => stage.migrate(setting.transport, tool.way)?,
            (_, 1) => alone(stage, setting, tool, commands, limit)?,
            _ => together::run(stage, setting, tool, commands, limit)?,
        };
        let (must, have) = (senders(setting, tool), moved(&before, &sent(stage)?));
        ensure!(
            have >= must,
            "{have} adapters have sent messages meanwhile, and {must} should: this went another way\n{}",
            words.trim()
        );
        Ok(words)
    }

    fn release(&mut self, still: &[Setting]) {
        let still: Vec<Needed> = still.iter().copied().map(needed).collect();
        self.live.retain(|live, _| still.contains(live));
    }
}

/// Number of adapters that must have sent messages if nothing bypasses them: those of all ranks, one of other programs.
fn senders(setting: Setting, tool: &Tool) -> usize {
    if setting.transport != Transport::Vrdma || setting.nodes == 1 || tool.asks_daemon() {
        return 0;
    }
    match tool.own() {
        Some(Own::Mpi | Own::Cavity) => usize::from(setting.tenants) * usize::from(setting.nodes),
        _ => 1,
    }
}

/// RDMA messages that each adapter has sent so far.
fn sent(stage: &dyn Stage) -> Result<Vec<u64>> {
    let mut messages = Vec::new();
    for daemon in stage.daemons() {
        let adapters = daemon.stats()?;
        let sent = adapters
            .iter()
            .map(|adapter| adapter.rdma.counters.tx_messages);
        messages.extend(sent);
    }
    Ok(messages)
}

fn moved(before: &[u64], after: &[u64]) -> usize {
    let both = before.iter().zip(after);
    both.filter(|(before, after)| after > before).count()
}

/// Runs a server and its client and returns the output of both.
fn alone(
    stage: &dyn Stage,
    setting: Setting,
    tool: &Tool,
    commands: &Commands,
    limit: Duration,
) -> Result<String> {
    let words = match tool.own() {
        Some(own) => stage.prepare(setting, 0, own)?,
        None => String::new(),
    };
    let server = match commands.server.as_str() {
        "" => String::new(),
        server => format!("{words}{server}"),
    };
    let client = format!("{words}{}", commands.client);
    let places = stage.places(setting.endpoint, 0);
    let outcome = place::run(places, &server, &client, limit)?;
    if tool.asks_daemon() {
        let said = said(tool, &commands.client, &outcome.client, &stage.logs())?;
        return Ok(said + &adapters(stage)?);
    }
    let last = format!(
        "its server said: {}\n{}",
        outcome.server.stdout_text().trim(),
        stage.logs()
    );
    said(tool, &commands.client, &outcome.client, &last)
}

/// The output of `vrdma adapter show` and `vrdma stats`, a line of JSON an adapter.
fn adapters(stage: &dyn Stage) -> Result<String> {
    let mut lines = String::new();
    for daemon in stage.daemons() {
        for (adapter, stats) in daemon.adapters()?.iter().zip(daemon.stats()?) {
            let both = serde_json::json!({ "adapter": adapter, "stats": stats });
            lines.push_str(&format!("{both}\n"));
        }
    }
    Ok(lines)
}

/// The client's output, if it succeeded.
fn said(tool: &Tool, command: &str, client: &Output, more: &str) -> Result<String> {
    let words = format!("{}{}", client.stdout_text(), client.stderr_text());
    let last = words.trim().lines().last().unwrap_or("it said nothing");
    ensure!(
        client.status == 0,
        "{} ended with status {}: {last}\n{command}\n{}\n{more}",
        tool.needs().map_or("it", |(program, _)| program),
        client.status,
        words.trim(),
    );
    Ok(words)
}

fn start(needed: Needed, programs: &Programs) -> Result<Box<dyn Stage>> {
    Ok(match needed {
        Needed::Processes(placement) => Box::new(Processes::start(placement, programs)?),
        Needed::Host => Box::new(Host::start()?),
        Needed::Lent(transport) => Box::new(Guests::lent(transport)?),
        Needed::Guests { rxe, placement } => {
            let kind = if rxe { Kind::Rxe } else { Kind::Vrdma };
            Box::new(Guests::start(kind, placement, programs)?)
        }
        Needed::Cluster {
            tenants,
            nodes,
            processors,
        } => Box::new(Clustered::start(tenants, nodes, processors, programs)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::chosen;

    fn must_send(cell: &str) -> usize {
        match &chosen(&[cell.to_owned()]).unwrap()[0].work {
            crate::cell::Work::Run(setting, tool) => senders(*setting, tool),
            _ => 0,
        }
    }

    #[test]
    fn every_rank_sends_unless_all_are_in_one_guest() {
        assert_eq!(must_send("s2/get-lat/native"), 2);
        assert_eq!(must_send("s2/bfs/vms-8"), 8);
        assert_eq!(must_send("s2/bfs/vms-1"), 0);
        assert_eq!(must_send("s1/mpi-send/containers-rdma-four"), 8);
        assert_eq!(must_send("s1/mpi-send/containers-tcp-four"), 0);
        assert_eq!(must_send("s0/read-lat-polling/native"), 1);
    }

    #[test]
    fn only_counters_that_grew_count() {
        assert_eq!(moved(&[1, 2, 3], &[1, 3, 9]), 2);
    }
}
