//! The shard's clock: nanoseconds since it started, as the engines want them.

use std::time::Instant;

use vrdma_verbs::Time;

/// A clock that counts from its creation.
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

    /// Returns the time of a moment that is not before the start.
    pub(crate) fn at(&self, moment: Instant) -> Time {
        Time(moment.saturating_duration_since(self.start).as_nanos() as u64)
    }

    /// Returns the time now. 64 bits of nanoseconds last 584 years.
    pub(crate) fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }
}
