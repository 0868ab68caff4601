//! How the time that a run was given is divided.
//!
//! ```text
//!   |-- s0 send latency --|-- s0 read latency --|- ... -|-- s4 --|   each group by its weight beside those to come;
//!   |  A B   A B          |  A B (A B)          |                |   what one leaves over is the next ones'
//! ```
//!
//! The first turn of a cell is begun as long as there is any time, further ones only inside the group's share: a slow
//! machine measures everything once before it measures anything twice.

use std::time::{Duration, Instant};

/// Of a run; without a limit nothing is ever over.
pub(super) struct Budget {
    end: Option<Instant>,
    /// Of the groups that have not begun.
    weight: u64,
    share_end: Option<Instant>,
}

impl Budget {
    /// `weight` is what all groups need, in seconds, about.
    pub(super) fn new(time: Option<Duration>, weight: u64) -> Self {
        Self {
            end: time.map(|time| Instant::now() + time),
            weight,
            share_end: None,
        }
    }

    /// A group of this weight begins.
    pub(super) fn begin(&mut self, weight: u64) {
        let now = Instant::now();
        let left = self.end.map(|end| end.saturating_duration_since(now));
        self.share_end = left.map(|left| now + share(left, weight, self.weight));
        self.weight = self.weight.saturating_sub(weight);
    }

    pub(super) fn share_is_over(&self) -> bool {
        self.share_end.is_some_and(|end| Instant::now() >= end)
    }

    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }
}

/// Of `left`, for one of several.
fn share(left: Duration, weight: u64, of_all: u64) -> Duration {
    match of_all {
        0 => left,
        all => left.mul_f64(weight.min(all) as f64 / all as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_group_leaves_over_is_the_next_ones() {
        let minute = Duration::from_secs(60);
        assert_eq!(share(minute, 10, 30), Duration::from_secs(20));
        assert_eq!(share(minute, 10, 20), Duration::from_secs(30));
        assert_eq!(share(minute, 10, 10), minute);
        assert_eq!(share(minute, 1, 0), minute);
    }

    #[test]
    fn without_a_limit_nothing_is_over() {
        let mut budget = Budget::new(None, 10);
        budget.begin(10);
        assert!(!budget.is_over() && !budget.share_is_over());
        let mut budget = Budget::new(Some(Duration::ZERO), 10);
        budget.begin(10);
        assert!(budget.is_over() && budget.share_is_over());
    }

    #[test]
    fn a_group_without_weight_has_no_share() {
        let mut budget = Budget::new(Some(Duration::from_secs(3600)), 10);
        budget.begin(0);
        assert!(budget.share_is_over() && !budget.is_over());
    }
}
