//! Results of a completed migration.

use std::time::{Duration, Instant};

use super::memory::AT_ONCE;
use super::{Carried, Flow};
use crate::error::Error;
use crate::progress::{Phase, Report, milliseconds};
use crate::qmp::EventKind;

impl Flow<'_> {
    /// Returns the time from STOP to RESUME. RESUME comes before the answer to `cont`.
    pub(super) fn downtime(&mut self) -> Duration {
        let mut resumed = Instant::now();
        while let Ok(Some(event)) = self.hosts().destination.machine.next_event(AT_ONCE) {
            if event.kind == EventKind::Resume {
                resumed = event.at;
            }
        }
        let stopped = self.stopped.unwrap_or(resumed);
        resumed.saturating_duration_since(stopped)
    }

    /// Reports adapters that the source's daemon did not give up, though it gave up others. The VM runs all the same.
    pub(super) fn check_released(&self) -> Result<(), Error> {
        let Some(first) = self.unreleased.first() else {
            return Ok(());
        };
        let names: Vec<_> = self.unreleased.iter().map(|it| &*it.name).collect();
        Err(Error::Released {
            phase: Phase::Release,
            why: first.why.to_string(),
            state: format!(
                "the VM runs at the destination with all its adapters, but the source's daemon has not given up {0}: remove it there (vrdma adapter remove), and add it with --away",
                names.join(" and ")
            ),
        })
    }

    pub(super) fn report(self, carried: &Carried, downtime: Duration) -> Report {
        let sending = self.sending_began.zip(self.sending_ended);
        let sending = sending.map(|(began, ended)| ended.saturating_sub(began));
        let phases = self.times.finish();
        let ram = &carried.sent.ram;
        let adapters = carried.adapters.iter();
        Report {
            total_ms: phases.iter().map(|phase| phase.ms).sum(),
            phases,
            downtime_ms: milliseconds(downtime),
            qemu_ms: sending.map(milliseconds),
            rounds: ram.dirty_sync_count,
            pages: ram.normal + ram.duplicate,
            transferred_bytes: ram.transferred,
            verified_bytes: carried.verified_bytes,
            daemon_to_daemon: !self.transfer.destinations.is_empty(),
            context_bytes: adapters.clone().map(|it| it.bytes).sum(),
            context_records: adapters.clone().map(|it| it.arrived.records).sum(),
            context_pages: adapters.map(|it| it.arrived.pages).sum(),
            resent_bytes: self.resent_bytes,
        }
    }
}
