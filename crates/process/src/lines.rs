//! The number of log lines that one source may cause: some at once, then one a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines that may come at once.
const BURST: u32 = 8;

/// Time until the next line is allowed after that.
const PAUSE: Duration = Duration::from_secs(1);

/// The log lines of one source.
#[derive(Debug, Default)]
pub struct Lines(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    used: u32,
    /// Time as of which `used` holds.
    since: Option<Instant>,
    left_out: u64,
}

impl Lines {
    /// Whether a line may be written now; if so, it counts.
    pub fn allow(&self, now: Instant) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *state.since.get_or_insert(now);
        let regained = now.saturating_duration_since(since).as_secs() / PAUSE.as_secs();
        if regained > 0 {
            let regained = u32::try_from(regained).unwrap_or(u32::MAX);
            state.used = state.used.saturating_sub(regained);
            state.since = Some(now);
        }
        let allowed = state.used < BURST;
        state.used += u32::from(allowed);
        state.left_out += u64::from(!allowed);
        allowed
    }

    /// Number of lines that were not allowed.
    pub fn left_out(&self) -> u64 {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_at_once_and_then_one_a_second() {
        let lines = Lines::default();
        let start = Instant::now();
        let allowed = |now, tries: u32| (0..tries).filter(|_| lines.allow(now)).count();
        assert_eq!(allowed(start, 1000), BURST as usize);
        assert_eq!(allowed(start + PAUSE, 1000), 1);
        assert_eq!(allowed(start + PAUSE * 4, 1000), 3);
        assert_eq!(allowed(start + PAUSE * 1000, 1000), BURST as usize);
        assert_eq!(lines.left_out(), 4000 - 2 * u64::from(BURST) - 4);
    }
}
