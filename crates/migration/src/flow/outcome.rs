//! What a migration that is done tells of itself.

use std::time::{Duration, Instant};

use super::{AT_ONCE, Carried, Flow};
use crate::progress::{Report, milliseconds};
use crate::qmp::EventKind;

impl Flow<'_> {
    /// From STOP to RESUME. That event comes before the answer to `cont`.
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

    pub(super) fn report(self, carried: &Carried, downtime: Duration) -> Report {
        let sending = self.sending_began.zip(self.sending_ended);
        let sending = sending.map(|(began, ended)| ended.saturating_sub(began));
        let phases = self.times.finish();
        let ram = &carried.sent.ram;
        Report {
            total_ms: phases.iter().map(|phase| phase.ms).sum(),
            phases,
            downtime_ms: milliseconds(downtime),
            qemu_ms: sending.map(milliseconds),
            rounds: ram.dirty_sync_count,
            pages: ram.normal + ram.duplicate,
            transferred_bytes: ram.transferred,
            verified_bytes: carried.verified_bytes,
            context_bytes: carried.context_bytes,
            context_records: carried.context.records,
            context_pages: carried.context.pages,
        }
    }
}
