//! How long a process may adopt: the cost only pays off for memory that is used often.
//!
//! A region that was begun is adopted to its end, which may take more time than is left: the process is in debt then,
//! and adopts nothing until it is paid. So a program that registers once pays for that once, and a program that
//! registers fresh memory again and again pays a share of its time. The time is processor time: on a busy machine,
//! where a thread waits for its turn several times as long as it works, nothing is saved by adopting less.

use std::time::{Duration, Instant};

use vrdma_provider::message::Adoption;

use super::thread::processor_time;

/// Time that a process may spend at once.
const AT_ONCE: Duration = Duration::from_millis(200);
/// The time that passes, divided by this, is added to the budget.
const SHARE: u32 = 20;
/// Bytes of the longest region: adopting it takes about a second, as long as an adapter's driver takes to pin it.
const LONGEST: usize = 4 << 30;

/// A stopwatch for the processor time of the thread that began it.
pub(super) struct Stopwatch(Duration);

impl Stopwatch {
    pub(super) fn begin() -> Self {
        Self(processor_time())
    }

    pub(super) fn elapsed(&self) -> Duration {
        processor_time().saturating_sub(self.0)
    }
}

/// Time that is left, and time that is owed; one of them is zero.
pub(super) struct Budget {
    left: Duration,
    owed: Duration,
    filled: Option<Instant>,
}

impl Budget {
    pub(super) const fn new() -> Self {
        Self {
            left: AT_ONCE,
            owed: Duration::ZERO,
            filled: None,
        }
    }

    /// Tells whether a region of this many bytes may be begun.
    pub(super) fn allows(&mut self, bytes: usize, now: Instant) -> Result<(), Adoption> {
        self.fill(now);
        if bytes > LONGEST {
            Err(Adoption::TooLong)
        } else if self.left.is_zero() {
            Err(Adoption::Budget)
        } else {
            Ok(())
        }
    }

    fn fill(&mut self, now: Instant) {
        let filled = self.filled.replace(now).unwrap_or(now);
        let back = now.saturating_duration_since(filled) / SHARE;
        let rest = back.saturating_sub(self.owed);
        self.owed = self.owed.saturating_sub(back);
        self.left = AT_ONCE.min(self.left + rest);
    }

    /// Takes the time that something took off the budget.
    pub(super) fn spend(&mut self, time: Duration) {
        self.owed += time.saturating_sub(self.left);
        self.left = self.left.saturating_sub(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_time_comes_back() {
        let (mut budget, start) = (Budget::new(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(budget.allows(1, start), Ok(()));
        budget.spend(AT_ONCE * 3);
        assert_eq!(budget.allows(1, start), Err(Adoption::Budget));
        let paid = 400 * u64::from(SHARE);
        assert_eq!(budget.allows(1, after(paid)), Err(Adoption::Budget));
        assert_eq!(budget.allows(1, after(paid + 20)), Ok(()));
        budget.spend(Duration::from_millis(1));
        assert_eq!(budget.allows(1, after(paid + 20)), Err(Adoption::Budget));
        let later = after(3_600_000);
        assert_eq!(budget.allows(1, later), Ok(()));
        budget.spend(AT_ONCE);
        assert_eq!(
            budget.allows(1, later),
            Err(Adoption::Budget),
            "it does not pile up"
        );
    }

    #[test]
    fn what_takes_seconds_is_left_alone() {
        let (mut budget, now) = (Budget::new(), Instant::now());
        assert_eq!(budget.allows(LONGEST, now), Ok(()));
        assert_eq!(budget.allows(LONGEST + 1, now), Err(Adoption::TooLong));
    }

    #[test]
    fn who_waits_for_another_thread_spends_nothing() {
        const WORK: Duration = Duration::from_millis(20);
        let spent = Stopwatch::begin();
        let working = std::thread::spawn(|| {
            let spent = Stopwatch::begin();
            while spent.elapsed() < WORK {}
        });
        working.join().unwrap();
        let waited = spent.elapsed();
        assert!(waited < WORK / 2, "{waited:?}");
    }
}
