//! How long a process may adopt: what it costs comes back only where memory is used often.

use std::time::{Duration, Instant};

/// What a process may spend at once.
const AT_ONCE: Duration = Duration::from_millis(200);
/// One part in so many of the time that passes comes back.
const SHARE: u32 = 20;

/// Time that is left.
pub(super) struct Budget {
    left: Duration,
    filled: Option<Instant>,
}

impl Budget {
    pub(super) const fn new() -> Self {
        Self {
            left: AT_ONCE,
            filled: None,
        }
    }

    /// Whether anything is left.
    pub(super) fn has_some(&mut self, now: Instant) -> bool {
        if let Some(filled) = self.filled {
            let passed = now.saturating_duration_since(filled);
            self.left = AT_ONCE.min(self.left + passed / SHARE);
        }
        self.filled = Some(now);
        !self.left.is_zero()
    }

    /// Takes away what something took.
    pub(super) fn spend(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_time_comes_back() {
        let (mut budget, start) = (Budget::new(), Instant::now());
        assert!(budget.has_some(start));
        budget.spend(AT_ONCE * 3);
        assert!(!budget.has_some(start));
        assert!(budget.has_some(start + Duration::from_millis(20)));
        budget.spend(Duration::from_millis(1));
        assert!(!budget.has_some(start + Duration::from_millis(20)));
        let later = start + Duration::from_secs(3600);
        assert!(budget.has_some(later));
        budget.spend(AT_ONCE);
        assert!(!budget.has_some(later), "it does not pile up");
    }
}
