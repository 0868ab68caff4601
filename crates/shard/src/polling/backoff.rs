//! How long a shard does not yield its core, after it had to wait to get it back.
//!
//! ```text
//!   yields ──the core came back late──► sleeps instead, for twice as long each time ──► yields
//! ```
//! Yielding pays only while the core comes back at once. Programs that poll memory keep their core until the next tick
//! of the scheduler, while a sleeper that is woken is put before them. So after one wait a shard expects the next yield
//! to wait, too.

use std::time::Duration;

use vrdma_verbs::Time;

/// A core that comes back after this is late. Less than a scheduler tick, more than what programs do between two polls.
pub(super) const CROWDED: Duration = Duration::from_millis(1);

/// Length of the first and of the longest backoff: at the longest, waiting for a tick (4 ms) after each costs about
/// 1 %, and programs come and go within a second.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(320);

/// The backoff; see the module.
#[derive(Debug)]
pub(super) struct Backoff {
    until: Time,
    /// Length of the next backoff.
    next: Duration,
    /// Time of yielding without a wait that gains more than a tick.
    worth: Duration,
}

impl Backoff {
    /// `worth`: how long the core must have come back at once before the next backoff is short again.
    pub(super) fn new(worth: Duration) -> Self {
        Self {
            until: Time(0),
            next: FIRST,
            worth,
        }
    }

    pub(super) fn allows(&self, now: Time) -> bool {
        now >= self.until
    }

    /// Notes that the core came back late.
    pub(super) fn came_late(&mut self, now: Time) {
        if now >= self.until + self.worth {
            self.next = FIRST;
        }
        self.until = now + self.next;
        self.next = (self.next * 2).min(LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const START: Time = Time(1_000_000_000);

    fn ms_until_allowed(backoff: &Backoff, now: Time) -> u32 {
        (0..).find(|ms| backoff.allows(now + MS * *ms)).unwrap()
    }

    #[test]
    fn who_waited_for_its_core_does_not_yield_for_longer_each_time() {
        let mut backoff = Backoff::new(LONGEST);
        let mut now = START;
        let lengths = [(); 7].map(|()| {
            assert!(backoff.allows(now));
            backoff.came_late(now);
            let length = ms_until_allowed(&backoff, now);
            now = now + MS * length;
            length
        });
        assert_eq!(lengths, [20, 40, 80, 160, 320, 320, 320]);
    }

    #[test]
    fn a_late_core_is_forgotten_when_the_core_came_back_at_once_for_long_enough() {
        let mut backoff = Backoff::new(MS * 100);
        let mut now = START;
        for (open, length) in [(0, 20), (99, 40), (99, 80), (100, 20), (0, 40)] {
            now = now + MS * open;
            backoff.came_late(now);
            assert_eq!(ms_until_allowed(&backoff, now), length, "after {open} ms");
            now = now + MS * length;
        }
    }
}
