//! Limit of what one client's migrations may cost. Writing down a device of many objects, and making one, takes
//! milliseconds in which the shard serves nobody else, and a client may ask for it as often as it likes.

use std::time::Duration;

use vrdma_verbs::Time;

/// Time that may be spent at once: many times what one migration takes.
const MOST: Duration = Duration::from_millis(500);

/// One part in this many of the time may be spent.
const SHARE: u32 = 10;

/// Time that is left, in nanoseconds; work that was begun may exceed it.
#[derive(Debug)]
pub(super) struct Allowance {
    left: i64,
    at: Time,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            left: MOST.as_nanos() as i64,
            at: Time(0),
        }
    }
}

impl Allowance {
    /// Whether work may be begun now.
    pub(super) fn allows(&mut self, now: Time) -> bool {
        let passed = now.0.saturating_sub(self.at.0) / u64::from(SHARE);
        let left = self.left.saturating_add_unsigned(passed);
        self.left = left.min(MOST.as_nanos() as i64);
        self.at = now;
        self.left > 0
    }

    /// Subtracts the time that work took.
    pub(super) fn spend(&mut self, began: Time, ended: Time) {
        let spent = ended.0.saturating_sub(began.0);
        self.left = self.left.saturating_sub_unsigned(spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Time {
        Time(milliseconds * 1_000_000)
    }

    #[test]
    fn who_has_spent_it_waits_ten_times_as_long() {
        let mut allowance = Allowance::default();
        assert!(allowance.allows(ms(0)));
        allowance.spend(ms(0), ms(499));
        assert!(allowance.allows(ms(0)));
        allowance.spend(ms(0), ms(101));
        assert!(!allowance.allows(ms(1000)));
        assert!(allowance.allows(ms(1001)));
    }

    #[test]
    fn a_long_rest_gives_no_more_than_that() {
        let mut allowance = Allowance::default();
        assert!(allowance.allows(Time(u64::MAX)));
        allowance.spend(ms(0), ms(500));
        assert!(!allowance.allows(Time(u64::MAX)));
    }
}
