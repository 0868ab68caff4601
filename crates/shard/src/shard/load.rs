//! How busy a shard is: the part of the last second in which its turns found work.

use std::time::Duration;

use vrdma_verbs::Time;

/// Time that one figure covers.
const WINDOW: Duration = Duration::from_secs(1);

/// The load; see the module.
#[derive(Debug, Default)]
pub(super) struct Load {
    since: Time,
    busy: Duration,
    last: u8,
}

impl Load {
    /// Notes that a turn had work.
    pub(super) fn worked(&mut self, from: Time, until: Time) {
        self.busy += until.since(from);
        self.roll(until);
    }

    /// Returns the load of the last whole window in percent.
    pub(super) fn percent(&mut self, now: Time) -> u8 {
        self.roll(now);
        self.last
    }

    fn roll(&mut self, now: Time) {
        let passed = now.since(self.since);
        if passed >= WINDOW {
            let percent = self.busy.as_nanos() * 100 / passed.as_nanos();
            self.last = percent.min(100) as u8;
            self.busy = Duration::ZERO;
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time(ms * 1_000_000)
    }

    #[test]
    fn the_last_second_counts() {
        let mut load = Load::default();
        assert_eq!(load.percent(ms(500)), 0);
        load.worked(ms(600), ms(850));
        assert_eq!(load.percent(ms(999)), 0, "the second is not over");
        assert_eq!(load.percent(ms(1000)), 25);
        load.worked(ms(1000), ms(2000));
        assert_eq!(load.percent(ms(2500)), 100);
        assert_eq!(load.percent(ms(3500)), 0);
    }
}
