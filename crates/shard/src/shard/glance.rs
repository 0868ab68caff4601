//! When a shard looks at its uplinks. A look where nothing waits is a system call for nothing.
//!
//! ```text
//!   epoll was asked ──► the next turn looks if it named an uplink, or if it is late
//!   busy turns, between which nobody asks ──► one of them looks, after a while
//! ```

use std::time::Duration;

use vrdma_verbs::Time;

/// How often busy turns look: a short turn takes a microsecond or two, and a look half of one.
const AFTER: Duration = Duration::from_micros(10);

/// The time for a look; see the module.
#[derive(Debug, Default)]
pub(super) struct Glance {
    /// Whether epoll named an uplink since the last turn, and when.
    told: Option<(bool, Time)>,
    last: Time,
}

impl Glance {
    /// Notes that epoll was asked, and whether it named an uplink.
    pub(super) fn told(&mut self, named: bool, now: Time) {
        self.told = Some((named, now));
    }

    /// Whether this turn looks. Packets that came while the thread was late, since others had its core or a socket took
    /// long, are taken before any time-out is judged: they may be the answer.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        if let Some((named, at)) = self.told.take() {
            self.last = at;
            if named {
                self.last = now;
                return true;
            }
        }
        let due = now >= self.last + AFTER;
        if due {
            self.last = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const START: Time = Time(1_000_000_000);

    #[test]
    fn epoll_says_where_it_was_asked() {
        let mut glance = Glance::default();
        for named in [true, false, true] {
            glance.told(named, START);
            assert_eq!(glance.is_due(START), named);
        }
    }

    #[test]
    fn a_turn_that_comes_late_looks_whatever_epoll_said() {
        let mut glance = Glance::default();
        glance.told(false, START);
        assert!(glance.is_due(START + AFTER));
        glance.told(false, START + US * 20);
        assert!(!glance.is_due(START + US * 29));
    }

    #[test]
    fn busy_turns_look_now_and_then() {
        let mut glance = Glance::default();
        assert!(glance.is_due(START));
        let looks = (1..=100).filter(|turn| glance.is_due(START + US * *turn));
        assert_eq!(looks.count(), 10);
    }

    #[test]
    fn what_epoll_said_counts_as_a_look() {
        let mut glance = Glance::default();
        glance.told(false, START);
        assert!(!glance.is_due(START));
        assert!(!glance.is_due(START + US * 9));
        assert!(glance.is_due(START + AFTER));
    }
}
