//! The shard's clock: nanoseconds since it started, as the engines want them.

use std::time::Instant;

use vrdma_verbs::Time;

/// Counts from its creation.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// A moment that is not before the start.
    pub(crate) fn at(&self, moment: Instant) -> Time {
        Time(moment.saturating_duration_since(self.start).as_nanos() as u64)
    }

    /// Now. 64 bits of nanoseconds last 584 years.
    pub(crate) fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }
}
