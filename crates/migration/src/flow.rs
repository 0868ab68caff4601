//! The phases of a migration, one after the other.
//!
//! ```text
//!   until release: a failure goes to `revive`        after it: a failure is told with where things are
//! ```

mod each;
mod outcome;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::{Cause, Error};
use crate::machine::MigrationInfo;
use crate::pci::ConfigSpace;
use crate::progress::{MemoryProgress, Phase, Progress, Report, Times, Watcher};
use crate::qmp::EventKind;
use crate::relay::Relay;
use crate::revive::Undo;
use crate::verify::verify;
use crate::{Hosts, Migration};
use each::{HandedOver, Unreleased};

/// How often the copy's numbers are told, and whether the destination still lives.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// Only what has come already.
const AT_ONCE: Duration = Duration::ZERO;

/// How long the rest may take to go over: some hundred milliseconds, unless QEMU guessed wrong.
const SWITCH_OVER_LIMIT: Duration = Duration::from_secs(60);

const STANDS_STILL: &str = "the VM stands still in both QEMUs, and none was ended";

/// Runs a migration that was checked.
pub(crate) fn run(migration: Migration, watcher: &mut dyn Watcher) -> Result<Report, Error> {
    let mut flow = Flow {
        migration,
        watcher,
        times: Times::new(),
        phase: Phase::Track,
        undo: Undo::default(),
        stopped: None,
        configured: Vec::new(),
        sending_began: None,
        sending_ended: None,
        unreleased: Vec::new(),
    };
    let prepared = flow.until_release();
    let carried = match prepared.and_then(|carried| flow.release(carried)) {
        Ok(carried) => carried,
        Err(Failed::Before(why)) => return Err(flow.abort(&why)),
        Err(Failed::Unsure(why)) => return Err(flow.abort_if_held(&why)),
    };
    flow.after_release(carried)
}

/// What failed before anybody was told that the source gave up the adapter.
enum Failed {
    Before(Cause),
    /// Perhaps it did.
    Unsure(Cause),
}

impl From<Cause> for Failed {
    fn from(why: Cause) -> Self {
        Self::Before(why)
    }
}

/// What went over, for the report.
struct Carried {
    adapters: Vec<HandedOver>,
    verified_bytes: Option<u64>,
    sent: MigrationInfo,
}

struct Flow<'a> {
    migration: Migration,
    watcher: &'a mut dyn Watcher,
    times: Times,
    phase: Phase,
    undo: Undo,
    /// When the source's VM stopped.
    stopped: Option<Instant>,
    /// With which configuration QEMU of the destination has each adapter already.
    configured: Vec<Option<ConfigSpace>>,
    /// When the source's QEMU began to send what was left, and when it had sent it, by its clock.
    sending_began: Option<Duration>,
    sending_ended: Option<Duration>,
    /// What the source's daemon still claims when the VM runs at the destination.
    unreleased: Vec<Unreleased>,
}

impl Flow<'_> {
    fn hosts(&mut self) -> &mut Hosts {
        &mut self.migration.hosts
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.times.enter(phase);
        self.watcher.progress(&Progress::Phase(phase));
    }

    /// Begins a phase that may be given up.
    fn begin(&mut self, phase: Phase) -> Result<(), Cause> {
        self.enter(phase);
        self.check_interrupted()
    }

    fn check_interrupted(&self) -> Result<(), Cause> {
        if self.watcher.is_interrupted() {
            return Err(Cause::new("it was interrupted"));
        }
        Ok(())
    }

    fn until_release(&mut self) -> Result<Carried, Failed> {
        let tracked = self.track()?;
        self.configure_ahead(tracked)?;
        self.copy()?;
        self.begin(Phase::Freeze)?;
        // The rest of the memory goes over while the adapter is frozen and handed over. What the adapter writes
        // meanwhile is in its context, which is restored when QEMU has loaded all.
        let next = json!({ "state": "pre-switchover" });
        let source = &mut self.hosts().source.machine;
        source.execute("migrate-continue", next)?;
        let contexts = self.freeze()?;
        self.begin(Phase::HandOver)?;
        let adapters = self.hand_over(contexts)?;
        self.begin(Phase::SwitchOver)?;
        self.switch_over()?;
        self.configure(&adapters)?;
        self.begin(Phase::Restore)?;
        self.restore(&adapters)?;
        let verified_bytes = self.verify()?;
        Ok(Carried {
            adapters,
            verified_bytes,
            sent: self.hosts().source.machine.migration()?,
        })
    }

    fn track(&mut self) -> Result<Vec<ConfigSpace>, Cause> {
        self.begin(Phase::Track)?;
        self.undo.tracked = true;
        let tracked = self.track_all()?;
        self.undo.capabilities = true;
        let copying = &self.migration.options.memory;
        let Hosts {
            source,
            destination,
        } = &mut self.migration.hosts;
        self.undo.parameters = Some(source.machine.set_up(copying)?);
        destination.machine.set_up(copying)?;
        Ok(tracked)
    }

    /// Until the VM stands still and QEMU waits for us.
    fn copy(&mut self) -> Result<(), Cause> {
        self.begin(Phase::Copy)?;
        let [from, to] = self.uris();
        let hosts = self.hosts();
        let destination = &mut hosts.destination.machine;
        destination.execute("migrate-incoming", to)?;
        self.undo.migrating = true;
        self.hosts().source.machine.execute("migrate", from)?;
        loop {
            match self.hosts().source.machine.next_event(TELL_EVERY)? {
                Some(event) => match event.kind {
                    EventKind::Stop => self.stopped = Some(event.at),
                    EventKind::Resume => self.stopped = None,
                    EventKind::Migration(status) if status == "pre-switchover" => return Ok(()),
                    EventKind::Migration(status) => self.check_source(&status, "pre-switchover")?,
                    EventKind::Pass(_) => {}
                },
                None => self.tell_memory()?,
            }
            self.check_interrupted()?;
        }
    }

    /// What both QEMUs are told, which are the relays' where there are any.
    fn uris(&self) -> [Value; 2] {
        let uri = &self.migration.options.memory.uri;
        let relay = self.migration.relay.as_ref();
        let uris = relay.map_or([uri, uri], |relay| relay.uris().each_ref());
        uris.map(|uri| json!({ "uri": uri }))
    }

    /// A relay that has ended is told before QEMU notices.
    fn watch_relay(&self) -> Result<(), Cause> {
        let relay = self.migration.relay.as_ref();
        relay.and_then(Relay::known_failure).map_or(Ok(()), Err)
    }

    fn tell_memory(&mut self) -> Result<(), Cause> {
        self.watch_destination()?;
        self.hosts().destination.first_adapter().look()?;
        let info = self.hosts().source.machine.migration()?;
        self.watcher.progress(&Progress::Memory(MemoryProgress {
            rounds: info.ram.dirty_sync_count,
            remaining_bytes: info.ram.remaining,
            total_bytes: info.ram.total,
            pages_per_second: info.ram.pages_per_second,
            expected_downtime_ms: info.expected_downtime,
        }));
        Ok(())
    }

    /// A destination that has ended is told from a connection that broke.
    fn watch_destination(&mut self) -> Result<bool, Cause> {
        let mut is_loaded = false;
        while let Some(event) = self.hosts().destination.machine.next_event(AT_ONCE)? {
            is_loaded |= self.has_loaded(&event.kind)?;
        }
        Ok(is_loaded)
    }

    fn has_loaded(&mut self, event: &EventKind) -> Result<bool, Cause> {
        let EventKind::Migration(status) = event else {
            return Ok(false);
        };
        if status == "failed" {
            let info = self.hosts().destination.machine.migration()?;
            return Err(Cause::new(format!(
                "the destination's QEMU could not load the VM ({}); start it with the same options as the source's",
                info.error_desc.as_deref().unwrap_or("see its log")
            )));
        }
        Ok(status == "completed")
    }

    /// A status of the source that is not the one that is waited for.
    fn check_source(&mut self, status: &str, wanted: &str) -> Result<(), Cause> {
        match status {
            "failed" => {
                // A destination that ended explains it better.
                self.watch_destination()?;
                if let Some(why) = self.migration.relay.as_ref().and_then(Relay::failure) {
                    return Err(why);
                }
                let info = self.hosts().source.machine.migration()?;
                let said = info.error_desc.unwrap_or_else(|| "see its log".to_owned());
                Err(Cause::new(format!(
                    "the source's QEMU could not send the VM: {said}"
                )))
            }
            "cancelled" => Err(Cause::new("somebody cancelled it at the source's QEMU")),
            "completed" => Err(Cause::new(format!(
                "the source's QEMU did not wait for {wanted}; use QEMU 11 and let nobody else steer it"
            ))),
            _ => Ok(()),
        }
    }

    /// Until the destination's QEMU has loaded all.
    fn switch_over(&mut self) -> Result<(), Cause> {
        let deadline = Instant::now() + SWITCH_OVER_LIMIT;
        let mut is_loaded = false;
        while self.sending_ended.is_none() {
            match self.hosts().source.machine.next_event(TELL_EVERY)? {
                Some(event) => match event.kind {
                    EventKind::Migration(status) if status == "device" => {
                        self.sending_began = Some(event.timestamp);
                    }
                    EventKind::Migration(status) if status == "completed" => {
                        self.sending_ended = Some(event.timestamp);
                    }
                    EventKind::Migration(status) => self.check_source(&status, "the end")?,
                    _ => {}
                },
                None => is_loaded |= self.watch_destination()?,
            }
            check_in_time(deadline)?;
        }
        while !is_loaded {
            if let Some(event) = self.hosts().destination.machine.next_event(TELL_EVERY)? {
                is_loaded = self.has_loaded(&event.kind)?;
            } else {
                self.watch_relay()?;
            }
            check_in_time(deadline)?;
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<Option<u64>, Cause> {
        if !self.migration.options.verify {
            return Ok(None);
        }
        self.begin(Phase::Verify)?;
        verify(self.hosts()).map(Some)
    }

    fn release(&mut self, carried: Carried) -> Result<Carried, Failed> {
        self.begin(Phase::Release)?;
        // The last moment to see that the other daemon was started anew, or that its QEMU has ended: that one is asked
        // itself, too, since its daemon may hear of its end later than we.
        self.check_restored()?;
        self.hosts().destination.machine.state()?;
        self.unreleased = self.release_all()?;
        self.watcher.progress(&Progress::PointOfNoReturn);
        Ok(carried)
    }

    /// From here on nothing is taken back.
    fn after_release(mut self, carried: Carried) -> Result<Report, Error> {
        self.enter(Phase::Activate);
        self.activate().map_err(|why| {
            let state = format!(
                "the source has given the adapter up and the destination has not taken it: {STANDS_STILL}; cont at the destination lets the VM run, its connections are lost"
            );
            self.released(&why, state)
        })?;
        self.enter(Phase::Resume);
        let resumed = self.hosts().destination.machine.execute("cont", json!({}));
        resumed.map_err(|why| {
            let state = "the destination has the adapter: let the VM run there with cont, and quit the source's QEMU, which must not run again";
            self.released(&why, state.to_owned())
        })?;
        let downtime = self.downtime();
        self.enter(Phase::Quit);
        if let Some(relay) = &self.migration.relay {
            relay.finish();
        }
        let quit = self.hosts().source.machine.execute("quit", json!({}));
        quit.map_err(|why| {
            let state = "the VM runs at the destination: end the source's QEMU by hand, which must not run again";
            self.released(&why, state.to_owned())
        })?;
        self.check_released()?;
        Ok(self.report(&carried, downtime))
    }

    fn abort(&mut self, why: &Cause) -> Error {
        self.watcher.progress(&Progress::Aborting);
        let undo = &self.undo;
        let Hosts {
            source,
            destination,
        } = &mut self.migration.hosts;
        Error::Aborted {
            phase: self.phase,
            why: why.to_string(),
            left: undo.undo(
                source,
                &destination.adapters,
                &self.migration.options.memory,
            ),
        }
    }

    /// A daemon that did not say whether it released the adapter still has it if it thaws it.
    fn abort_if_held(&mut self, why: &Cause) -> Error {
        if self.hosts().source.first_adapter().thaw().is_ok() {
            return self.abort(why);
        }
        let state = format!(
            "whether the source has given the adapter up is not known: {STANDS_STILL}; look with vrdma adapter show at the source before either runs"
        );
        self.released(why, state)
    }

    fn released(&self, why: &Cause, state: String) -> Error {
        Error::Released {
            phase: self.phase,
            why: why.to_string(),
            state,
        }
    }
}

fn check_in_time(deadline: Instant) -> Result<(), Cause> {
    if Instant::now() < deadline {
        return Ok(());
    }
    Err(Cause::new(format!(
        "the rest of the VM's memory did not go over within {SWITCH_OVER_LIMIT:?}; look at the network between the hosts"
    )))
}
