//! How long tenants have kept the data path waiting lately, each by itself and all together.
//!
//! ```text
//!   a job took longer than its bytes need ──► debt ── a hundredth of the time that passes ──► none
//!                                               └── MOST or more: refused, until nothing is owed
//! ```
//! So what one tenant costs the others stays at 1 % of the time, whether it hangs once or is a little late each time. A
//! refused tenant's greetings and files are refused; its copies are waited for no longer than the tenant may owe. All
//! tenants together have a debt, too: without it, somebody with many users, none of which has a debt yet, could make
//! the data path wait without end. While that debt is high, nobody is waited for long.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long the data path waits for the answer to a question, which is asked once.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// How long the data path waits for one copy, which may be late: a page from a fast disk is there by then.
pub(crate) const COPY_PATIENCE: Duration = Duration::from_millis(10);

/// The shortest wait that makes sense: a thread's turn and some pages.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);

/// The most that the data path waits while the debt of all tenants is high.
const LITTLE_PATIENCE: Duration = Duration::from_millis(1);

/// The debt at which a tenant is refused: that of a tenant that hung once.
const MOST: Duration = PATIENCE;

/// The debt of all tenants from which on [`LITTLE_PATIENCE`] applies.
const MOST_OF_ALL: Duration = Duration::from_millis(200);

/// Divisor of the time that passes: the quotient is forgiven.
const FORGIVEN: u32 = 100;

/// Time that any job may take: a thread's turn, and a page that has to be cleared.
const ALLOWED: Duration = Duration::from_micros(200);

/// Time that each byte may take beyond that: pages that have to be mapped.
const ALLOWED_A_BYTE: Duration = Duration::from_nanos(2);

/// Returns a job's time beyond what its bytes need.
pub(crate) fn excess(took: Duration, bytes: usize) -> Duration {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    took.saturating_sub(ALLOWED + ALLOWED_A_BYTE.saturating_mul(bytes))
}

/// A debt that is forgiven little by little.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Debt {
    owed: Duration,
    /// Time at which that was owed.
    at: Option<Instant>,
    /// Set when the debt was too high, until all of it is forgiven.
    refused: bool,
}

impl Debt {
    pub(crate) fn add(&mut self, waited: Duration, now: Instant) {
        self.forgive(now);
        self.owed = self.owed.saturating_add(waited);
        self.refused |= self.owed >= MOST;
    }

    /// Whether a tenant with this debt is refused.
    pub(crate) fn is_refused(&mut self, now: Instant) -> bool {
        self.forgive(now);
        self.refused &= !self.owed.is_zero();
        self.refused
    }

    /// Returns how long a copy may be waited for now. `None`: not at all.
    pub(crate) fn patience(&mut self, now: Instant) -> Option<Duration> {
        self.forgive(now);
        let left = MOST.saturating_sub(self.owed);
        (left >= LEAST_PATIENCE).then_some(left.min(COPY_PATIENCE))
    }

    fn forgive(&mut self, now: Instant) {
        let since = self.at.replace(now).unwrap_or(now);
        let forgiven = now.saturating_duration_since(since) / FORGIVEN;
        self.owed = self.owed.saturating_sub(forgiven);
    }
}

/// The debt of all tenants together.
#[derive(Default, Debug)]
pub struct AllTenants(Mutex<Debt>);

impl AllTenants {
    pub(crate) fn add(&self, waited: Duration, now: Instant) {
        self.0.lock().add(waited, now);
    }

    /// Returns how long one job is waited for now.
    pub(crate) fn patience(&self, now: Instant) -> Duration {
        let mut debt = self.0.lock();
        debt.forgive(now);
        match debt.owed >= MOST_OF_ALL {
            true => LITTLE_PATIENCE,
            false => PATIENCE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_is_late_each_time_costs_a_hundredth_of_the_time() {
        let mut debt = Debt::default();
        let start = Instant::now();
        let (mut now, mut waited) = (start, Duration::ZERO);
        for _ in 0..100_000 {
            now += MS;
            if !debt.is_refused(now) {
                let late = excess(45 * MS, 4096);
                debt.add(late, now);
                (now, waited) = (now + late, waited + late);
            }
        }
        let part = waited.as_secs_f64() / now.duration_since(start).as_secs_f64();
        assert!((0.009..0.012).contains(&part), "{part}");
    }

    #[test]
    fn who_hangs_once_is_refused_for_five_seconds() {
        let mut debt = Debt::default();
        let start = Instant::now();
        debt.add(PATIENCE, start);
        assert!(debt.is_refused(start + MS) && debt.is_refused(start + 4900 * MS));
        assert!(!debt.is_refused(start + 5000 * MS));
    }

    #[test]
    fn copies_are_waited_for_as_long_as_may_be_owed() {
        let mut debt = Debt::default();
        let start = Instant::now();
        assert_eq!(debt.patience(start), Some(COPY_PATIENCE));
        debt.add(MOST - 3 * MS, start);
        assert_eq!(debt.patience(start), Some(3 * MS));
        debt.add(3 * MS, start);
        assert_eq!(debt.patience(start), None);
        assert_eq!(debt.patience(start + 99 * MS), None);
        assert_eq!(debt.patience(start + 100 * MS), Some(MS));
        assert!(debt.is_refused(start + 4900 * MS));
        assert_eq!(debt.patience(start + 4900 * MS), Some(COPY_PATIENCE));
    }

    #[test]
    fn jobs_in_time_owe_nothing() {
        assert_eq!(excess(150 * MS / 1000, 8), Duration::ZERO);
        assert_eq!(excess(400 * MS / 1000, 128 << 10), Duration::ZERO);
        assert_eq!(excess(2 * MS, 0), 2 * MS - ALLOWED);
    }

    #[test]
    fn many_who_are_new_find_little_patience() {
        let all = AllTenants::default();
        let now = Instant::now();
        assert_eq!(all.patience(now), PATIENCE);
        for _ in 0..4 {
            all.add(PATIENCE, now);
        }
        assert_eq!(all.patience(now), LITTLE_PATIENCE);
        assert_eq!(all.patience(now + Duration::from_secs(1)), PATIENCE);
    }
}
