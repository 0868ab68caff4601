//! Points in time of the caller's clock.

use core::ops::Add;
use core::time::Duration;

/// Nanoseconds since an arbitrary start that stays the same for the life of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(pub u64);

impl Time {
    /// Returns how long ago `earlier` was; zero when it is still to come.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the earlier one of two times, of which either may be missing.
    #[inline]
    pub(crate) fn first(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            _ => a.or(b),
        }
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay.as_nanos() as u64))
    }
}
