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

    /// Now. 64 bits of nanoseconds last 584 years.
    pub(crate) fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }
}
