//! The phases of a migration, one after the other.
//!
//! ```text
//!   until release: a failure goes to `revive`        after it: a failure is reported with the place of VM and adapter
//! ```
//! With post-copy the order after the copy is different, see `post_copy`.

mod each;
mod memory;
mod outcome;
mod post_copy;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::error::{Cause, Error};
use crate::machine::MigrationInfo;
use crate::pci::ConfigSpace;
use crate::progress::{Phase, Progress, Report, Times, Watcher};
use crate::revive::Undo;
use crate::verify::verify;
use crate::{Hosts, Transfer};
use each::{HandedOver, Unreleased};
use post_copy::Switched;

const STANDS_STILL: &str = "the VM stands still in both QEMUs, and none was ended";

/// Runs a migration that has been checked.
pub(crate) fn run(transfer: Transfer, watcher: &mut dyn Watcher) -> Result<Report, Error> {
    let mut flow = Flow::new(transfer, watcher);
    let prepared = flow.until_release();
    let ready = prepared.and_then(|ready| match ready {
        Ready::Whole(carried) => flow.release(carried).map(Ready::Whole),
        post_copy @ Ready::PostCopy(_) => Ok(post_copy),
    });
    let carried = match ready {
        Ok(Ready::Whole(carried)) => carried,
        Ok(Ready::PostCopy(adapters)) => return flow.complete_post_copy(adapters),
        Err(Failed::Before(why)) => return Err(flow.abort(&why)),
        Err(Failed::Unsure(why)) => return Err(flow.abort_if_held(&why)),
    };
    flow.after_release(carried)
}

/// Completes a post-copy migration whose orchestrator died after the VM had left and while its memory followed.
pub(crate) fn recover_post_copy(
    transfer: Transfer,
    watcher: &mut dyn Watcher,
) -> Result<(), Error> {
    Flow::new(transfer, watcher).recover_post_copy()
}

/// A failure before the source is known to have given up the adapter.
enum Failed {
    Before(Cause),
    /// Whether the source gave it up is unknown.
    Unsure(Cause),
}

impl From<Cause> for Failed {
    fn from(why: Cause) -> Self {
        Self::Before(why)
    }
}

/// What the destination has once the source has done its part.
enum Ready {
    /// Everything; nothing runs there yet.
    Whole(Carried),
    /// The devices; memory follows, and there is no way back.
    PostCopy(Vec<HandedOver>),
}

/// What was transferred, for the report.
struct Carried {
    adapters: Vec<HandedOver>,
    verified_bytes: Option<u64>,
    sent: MigrationInfo,
}

struct Flow<'a> {
    transfer: Transfer,
    watcher: &'a mut dyn Watcher,
    times: Times,
    phase: Phase,
    undo: Undo,
    /// When the source's VM stopped.
    stopped: Option<Instant>,
    /// Configuration that the destination's QEMU has already, of each adapter.
    configured: Vec<Option<ConfigSpace>>,
    /// When the source's QEMU began to send the rest, and when it had sent it, by its clock.
    sending_began: Option<Duration>,
    sending_ended: Option<Duration>,
    /// Whether the destination's QEMU has reported that it has everything.
    is_loaded: bool,
    /// Bytes that the adapters wrote and QEMU sent.
    resent_bytes: u64,
    /// Adapters that the source's daemon has not given up when the VM runs at the destination.
    unreleased: Vec<Unreleased>,
    /// Whether the migration goes on even if it is interrupted.
    is_final: bool,
}

impl<'a> Flow<'a> {
    fn new(transfer: Transfer, watcher: &'a mut dyn Watcher) -> Self {
        // The destination's daemon already expects contexts, if the other daemon is to bring them.
        let undo = Undo {
            context: !transfer.destinations.is_empty(),
            ..Undo::default()
        };
        Self {
            transfer,
            watcher,
            times: Times::new(),
            phase: Phase::Track,
            undo,
            stopped: None,
            configured: Vec::new(),
            sending_began: None,
            sending_ended: None,
            is_loaded: false,
            resent_bytes: 0,
            unreleased: Vec::new(),
            is_final: false,
        }
    }

    fn hosts(&mut self) -> &mut Hosts {
        &mut self.transfer.hosts
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.times.enter(phase);
        self.watcher.progress(&Progress::Phase(phase));
    }

    /// Begins a phase, unless the migration is to be given up.
    fn begin(&mut self, phase: Phase) -> Result<(), Cause> {
        self.enter(phase);
        self.check_interrupted()
    }

    fn check_interrupted(&self) -> Result<(), Cause> {
        if self.watcher.is_interrupted() && !self.is_final {
            return Err(Cause::new("it was interrupted"));
        }
        Ok(())
    }

    fn until_release(&mut self) -> Result<Ready, Failed> {
        let tracked = self.track()?;
        self.configure_ahead(tracked)?;
        self.copy()?;
        let adapters = match self.transfer.options.memory.post_copy {
            false => self.send_rest()?,
            true => match self.switch_to_post_copy()? {
                Switched::Whole(adapters) => adapters,
                Switched::DevicesOnly(adapters) => return Ok(Ready::PostCopy(adapters)),
            },
        };
        self.switch_over()?;
        self.configure(&adapters)?;
        self.begin(Phase::Restore)?;
        self.restore(&adapters, false)?;
        let verified_bytes = self.verify()?;
        Ok(Ready::Whole(Carried {
            adapters,
            verified_bytes,
            sent: self.hosts().source.machine.migration()?,
        }))
    }

    fn send_rest(&mut self) -> Result<Vec<HandedOver>, Cause> {
        self.begin(Phase::Freeze)?;
        let contexts = if self.have_written_much()? {
            let contexts = self.freeze_and_resend()?;
            self.continue_migration()?;
            contexts
        } else {
            // QEMU sends the rest of the memory while the adapter is frozen and handed over. Pages that the adapter
            // writes meanwhile are in its context, which is restored once QEMU has loaded everything.
            self.continue_migration()?;
            self.freeze()?
        };
        self.begin(Phase::HandOver)?;
        let adapters = self.hand_over(contexts)?;
        self.begin(Phase::SwitchOver)?;
        Ok(adapters)
    }

    /// Has the source's QEMU send the rest.
    fn continue_migration(&mut self) -> Result<(), Cause> {
        let next = json!({ "state": "pre-switchover" });
        let source = &mut self.hosts().source.machine;
        source.execute("migrate-continue", next).map(drop)
    }

    fn track(&mut self) -> Result<Vec<ConfigSpace>, Cause> {
        self.begin(Phase::Track)?;
        self.undo.tracked = true;
        let tracked = self.track_all()?;
        self.undo.capabilities = true;
        let copying = &self.transfer.options.memory;
        let Hosts {
            source,
            destination,
        } = &mut self.transfer.hosts;
        self.undo.parameters = Some(source.machine.set_up(copying)?);
        destination.machine.set_up(copying)?;
        Ok(tracked)
    }

    fn verify(&mut self) -> Result<Option<u64>, Cause> {
        if !self.transfer.options.verify {
            return Ok(None);
        }
        self.begin(Phase::Verify)?;
        verify(self.hosts()).map(Some)
    }

    fn release(&mut self, carried: Carried) -> Result<Carried, Failed> {
        self.begin(Phase::Release)?;
        // Last chance to notice that the other daemon was restarted or that its QEMU has ended: QEMU is asked itself,
        // too, since its daemon may hear of its end later than this program.
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
        self.cont().map_err(|why| {
            let state = "the destination has the adapter: let the VM run there with cont, and quit the source's QEMU, which must not run again";
            self.released(&why, state.to_owned())
        })?;
        let downtime = self.downtime();
        self.quit()?;
        Ok(self.report(&carried, downtime))
    }

    /// Lets the VM run at the destination.
    fn cont(&mut self) -> Result<(), Cause> {
        let destination = &mut self.hosts().destination.machine;
        destination.execute("cont", json!({})).map(drop)
    }

    fn quit(&mut self) -> Result<(), Error> {
        self.enter(Phase::Quit);
        if let Some(relay) = &self.transfer.relay {
            relay.finish();
        }
        let quit = self.hosts().source.machine.execute("quit", json!({}));
        quit.map_err(|why| {
            let state = "the VM runs at the destination: end the source's QEMU by hand, which must not run again";
            self.released(&why, state.to_owned())
        })?;
        self.check_released()
    }

    fn abort(&mut self, why: &Cause) -> Error {
        self.watcher.progress(&Progress::Aborting);
        if self.undo.file.is_some() {
            // QEMU cannot cancel a write into the file of a stuck relay: such a write is not interrupted.
            self.transfer.relay = None;
        }
        let undo = &self.undo;
        let Hosts {
            source,
            destination,
        } = &mut self.transfer.hosts;
        Error::Aborted {
            phase: self.phase,
            why: why.to_string(),
            left: undo.undo(source, &destination.adapters, &self.transfer.options.memory),
        }
    }

    /// Takes the migration back if the adapter can be thawed: then the daemon has not released it, whatever it did not
    /// say.
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
