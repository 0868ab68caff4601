//! Post-copy: the VM runs at the destination before all of its memory is there, and the adapter goes on when it is.
//!
//! ```text
//!   freeze       VM and adapter stand still
//!   hand over    daemon ──────────── context ────────────► daemon keeps it
//!   switch over  QEMU ──── devices, no memory ───────────► QEMU, stopped       ◄── the point of no return
//!   restore                                                pages of the context where there are pages; MSI-X table
//!   resume                                                 VM runs, what it asks of the adapter waits
//!   page in      QEMU ◄─────── which page ──────────────── QEMU
//!                QEMU ──────────── memory ───────────────► QEMU, all of it
//!   release      daemon gives up the adapter
//!   activate                                               daemon makes the adapter, and goes on with it
//! ```
//! The daemon maps the guest's memory by itself and sees holes where pages are missing, so it leaves all of the memory
//! alone until it is complete. Peers wait, because the adapter at the source is frozen and says so.

use std::time::{Duration, Instant};

use serde_json::json;

use super::each::HandedOver;
use super::memory::{SWITCH_OVER_LIMIT, TELL_EVERY, check_in_time};
use super::{Carried, Failed, Flow};
use crate::error::{Cause, Error};
use crate::machine::MigrationInfo;
use crate::progress::{Phase, Progress, Report};
use crate::qmp::EventKind;

/// Interval of polling whether the destination's QEMU has loaded the devices, for which there is no event. The VM
/// stands still.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// QEMU's state while it waits for the VM's devices.
const WAITS: &str = "inmigrate";

/// QEMU's state once it has loaded them.
const PAUSED: &str = "paused";

/// What QEMU has sent when the VM leaves the source.
pub(super) enum Switched {
    /// Everything, because so little was left.
    Whole(Vec<HandedOver>),
    /// The devices; memory follows.
    DevicesOnly(Vec<HandedOver>),
}

impl Flow<'_> {
    /// After its first pass, tells QEMU to send the rest by post-copy.
    pub(super) fn start_post_copy(&mut self, pass: u64) -> Result<(), Cause> {
        if !self.transfer.options.memory.post_copy || pass != 2 {
            return Ok(());
        }
        let source = &mut self.hosts().source.machine;
        source
            .execute("migrate-start-postcopy", json!({}))
            .map(drop)
    }

    /// Does all that may be refused, and then has QEMU send the devices.
    pub(super) fn switch_to_post_copy(&mut self) -> Result<Switched, Failed> {
        self.begin(Phase::Freeze)?;
        let contexts = match self.have_written_much()? {
            true => self.freeze_and_resend()?,
            false => self.freeze()?,
        };
        self.begin(Phase::HandOver)?;
        let adapters = self.hand_over(contexts)?;
        self.begin(Phase::SwitchOver)?;
        self.continue_migration()?;
        let deadline = Instant::now() + SWITCH_OVER_LIMIT;
        loop {
            let event = self.hosts().source.machine.next_event(TELL_EVERY)?;
            if let Some(event) = event
                && let EventKind::Migration(status) = &event.kind
            {
                match status.as_str() {
                    "device" => self.sending_began = Some(event.timestamp),
                    "completed" => {
                        self.sending_ended = Some(event.timestamp);
                        return Ok(Switched::Whole(adapters));
                    }
                    "postcopy-active" => {
                        self.sending_ended = Some(event.timestamp);
                        return Ok(Switched::DevicesOnly(adapters));
                    }
                    status => self.check_source(status, "post-copy")?,
                }
            }
            self.watch_destination()?;
            check_in_time(deadline)?;
        }
    }

    /// Completes the migration; from here on nothing is taken back.
    pub(super) fn complete_post_copy(mut self, adapters: Vec<HandedOver>) -> Result<Report, Error> {
        self.is_final = true;
        self.watcher.progress(&Progress::PointOfNoReturn);
        self.resume_without_memory(&adapters).map_err(|why| {
            let state = "the VM stands still at the destination, and its memory is not all there: cont lets it run, its connections are lost; leave the source's QEMU until query-migrate says that it is done there, and then quit it";
            self.released(&why, state.to_owned())
        })?;
        let downtime = self.downtime();
        let carried = Carried {
            adapters,
            verified_bytes: None,
            sent: self.complete()?,
        };
        Ok(self.report(&carried, downtime))
    }

    /// Completes the migration of a VM that has left and whose orchestrator died.
    pub(super) fn recover_post_copy(mut self) -> Result<(), Error> {
        self.is_final = true;
        self.resume_after_another().map_err(|why| {
            Error::Unfit(format!(
                "the VM has gone to the destination by post-copy, and its adapter cannot go on there ({why}): let it run there with cont, and quit the source's QEMU when query-migrate says completed; its connections are lost"
            ))
        })?;
        self.complete().map(drop)
    }

    /// Lets the VM run and restores its adapters, as far as that is not done.
    fn resume_after_another(&mut self) -> Result<(), Cause> {
        let state = self.hosts().destination.machine.state()?;
        let waits = [PAUSED, WAITS].contains(&&*state);
        let restored = self.check_restored();
        if waits && restored.is_err() {
            let adapters = self.find_handed_over()?;
            self.configured = adapters.iter().map(|_| None).collect();
            return self.resume_without_memory(&adapters);
        }
        restored?;
        self.enter(Phase::Resume);
        match &*state {
            PAUSED => self.cont(),
            _ => Ok(()),
        }
    }

    /// Waits while the VM runs at the destination until it has all of its memory, and then moves the adapter.
    fn complete(&mut self) -> Result<MigrationInfo, Error> {
        let sent = self.page_in().map_err(|why| {
            let state = "the VM runs at the destination, and waits where its memory is missing: mend the connection by QEMU's migrate-recover, then use vrdma migrate --recover";
            self.released(&why, state.to_owned())
        })?;
        self.take_over().map_err(|why| {
            let state = "the VM runs at the destination, and its adapter does nothing: load its guest's driver anew there when its adapter is not away, and quit the source's QEMU, which must not run again";
            self.released(&why, state.to_owned())
        })?;
        self.quit()?;
        Ok(sent)
    }

    fn resume_without_memory(&mut self, adapters: &[HandedOver]) -> Result<(), Cause> {
        let deadline = Instant::now() + SWITCH_OVER_LIMIT;
        while self.hosts().destination.machine.state()? == WAITS {
            if let Some(event) = self.hosts().destination.machine.next_event(LOOK_EVERY)? {
                self.heed_destination(&event.kind)?;
            }
            self.watch_relay()?;
            check_in_time(deadline)?;
        }
        self.configure(adapters)?;
        self.enter(Phase::Restore);
        self.restore(adapters, true)?;
        self.enter(Phase::Resume);
        self.cont()
    }

    /// Waits until the source has sent all memory, and the destination has it.
    fn page_in(&mut self) -> Result<MigrationInfo, Cause> {
        self.enter(Phase::PageIn);
        loop {
            let info = self.hosts().source.machine.migration()?;
            match info.status.as_str() {
                "completed" => break,
                "failed" | "postcopy-paused" => return Err(self.stuck(&info)),
                _ => {}
            }
            match self.hosts().source.machine.next_event(TELL_EVERY)? {
                Some(_) => {}
                None => self.tell_memory()?,
            }
            self.watch_relay()?;
        }
        loop {
            let info = self.hosts().destination.machine.migration()?;
            match info.status.as_str() {
                "completed" => return self.hosts().source.machine.migration(),
                "failed" | "postcopy-paused" => return Err(self.stuck(&info)),
                _ => {}
            }
            self.hosts().destination.machine.next_event(TELL_EVERY)?;
        }
    }

    fn stuck(&self, info: &MigrationInfo) -> Cause {
        let known = self.watch_relay().err().map(|why| why.to_string());
        let said = known.or_else(|| info.error_desc.clone());
        Cause::new(format!(
            "the memory does not go on to the destination ({}): {}",
            info.status,
            said.as_deref().unwrap_or("see QEMU's log")
        ))
    }

    fn take_over(&mut self) -> Result<(), Cause> {
        self.enter(Phase::Release);
        self.check_restored()?;
        let released = self.release_all();
        self.unreleased = released.map_err(|failed| match failed {
            Failed::Before(why) | Failed::Unsure(why) => why,
        })?;
        self.enter(Phase::Activate);
        self.activate()
    }
}
