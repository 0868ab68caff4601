//! Watches a migration and ends a process in a phase of it.
//!
//! ```text
//!   waiting ──the phase begins──► victim ended ──► the migration goes on, into the trouble
//! ```

use std::process::Command;

use anyhow::{Result, bail, ensure};
use vrdma_lab::daemon::Daemon;
use vrdma_lab::pair::{Arriving, Pair, Side};
use vrdma_lab::relay::WaitingRelay;
use vrdma_migration::{Phase, Progress, Watcher};

use super::{Victim, is_due};

/// The processes that may end; each is killed when it is dropped.
pub(super) struct Doomed {
    pub(super) spare: Option<Daemon>,
    pub(super) arriving: Option<Arriving>,
    pub(super) relay: Option<WaitingRelay>,
}

pub(super) struct Saboteur<'a> {
    pair: &'a Pair,
    phase: Phase,
    victim: Victim,
    doomed: Doomed,
    interrupts: bool,
    /// Whether the process was ended, or the error that prevented it.
    done: Option<Result<()>>,
}

impl<'a> Saboteur<'a> {
    pub(super) fn new(pair: &'a Pair, phase: Phase, victim: Victim, doomed: Doomed) -> Self {
        Self {
            pair,
            phase,
            victim,
            doomed,
            interrupts: false,
            done: None,
        }
    }

    /// Checks that the process was ended.
    pub(super) fn check(self) -> Result<()> {
        match self.done {
            Some(done) => done,
            None => bail!("the migration ended before that phase"),
        }
    }

    fn act(&mut self) -> Result<()> {
        match self.victim {
            Victim::Interrupted => self.interrupts = true,
            Victim::Qemu => self.doomed.arriving = None,
            Victim::Daemon => self.doomed.spare = None,
            Victim::NewDaemon => {
                self.doomed.spare = None;
                self.doomed.spare = Some(self.pair.spare_daemon(Side::A)?);
            }
            Victim::Relay => self.doomed.relay = None,
            Victim::SilentRelay => stop_own_relay()?,
            Victim::Orchestrator => bail!("who dies cannot watch"),
        }
        Ok(())
    }
}

/// Stops the source's relay, which is a child of this process.
fn stop_own_relay() -> Result<()> {
    let own = std::process::id().to_string();
    let mut stop = Command::new("pkill");
    stop.args([
        "--signal",
        "STOP",
        "--parent",
        &own,
        "--full",
        "--",
        "relay --send",
    ]);
    ensure!(stop.status()?.success(), "the source's relay is not found");
    Ok(())
}

impl Watcher for Saboteur<'_> {
    fn progress(&mut self, progress: &Progress) {
        if self.done.is_none() && is_due(self.phase, progress) {
            let done = self.act();
            self.done = Some(done);
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupts
    }
}
