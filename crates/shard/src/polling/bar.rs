//! For how long a shard does not give its core away, after it had to wait to get it back.
//!
//! ```text
//!   open ──the core came back late──► barred: sleeps instead, for twice as long each time ──► open
//! ```
//! Giving the core away pays only while it comes back at once. Programs that poll memory keep theirs until the next tick of the
//! scheduler, while a sleeper that is woken is put before them. So a shard that had to wait once believes that it would again.

use std::time::Duration;

use vrdma_verbs::Time;

/// Less than a scheduler tick, more than what programs do between two polls.
pub(super) const CROWDED: Duration = Duration::from_millis(1);

/// The bar at first and at last: to wait for a tick (4 ms) as often as that costs about 1 % in the end, and programs come and go
/// within a second.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(320);

/// See the module.
#[derive(Debug)]
pub(super) struct Bar {
    until: Time,
    /// The next one.
    next: Duration,
    /// Who gave its core away for so long without having to wait has gained more than a tick.
    worth: Duration,
}

impl Bar {
    /// With how long the core must have come back at once before the next bar is short again.
    pub(super) fn new(worth: Duration) -> Self {
        Self {
            until: Time(0),
            next: FIRST,
            worth,
        }
    }

    pub(super) fn is_open(&self, now: Time) -> bool {
        now >= self.until
    }

    /// The core came back late.
    pub(super) fn waited(&mut self, now: Time) {
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

    fn ms_until_open(bar: &Bar, now: Time) -> u32 {
        (0..).find(|ms| bar.is_open(now + MS * *ms)).unwrap()
    }

    #[test]
    fn who_waited_for_its_core_is_barred_for_longer_each_time() {
        let mut bar = Bar::new(LONGEST);
        let mut now = START;
        let bars = [(); 7].map(|()| {
            assert!(bar.is_open(now));
            bar.waited(now);
            let barred = ms_until_open(&bar, now);
            now = now + MS * barred;
            barred
        });
        assert_eq!(bars, [20, 40, 80, 160, 320, 320, 320]);
    }

    #[test]
    fn a_bar_is_forgotten_when_the_core_came_back_at_once_for_long_enough() {
        let mut bar = Bar::new(MS * 100);
        let mut now = START;
        for (open, barred) in [(0, 20), (99, 40), (99, 80), (100, 20), (0, 40)] {
            now = now + MS * open;
            bar.waited(now);
            assert_eq!(ms_until_open(&bar, now), barred, "after {open} ms");
            now = now + MS * barred;
        }
    }
}
