//! A token bucket that limits how many log lines the owner of an adapter may cause (rule 69).

use core::time::Duration;

use vrdma_verbs::Time;

/// Most lines at once.
const BURST: u32 = 8;
/// Time after which one more line is allowed.
const REFILL: Duration = Duration::from_secs(1);

/// The limit that decides whether a line may be written.
#[derive(Clone, Copy, Debug)]
pub struct LogLimit {
    tokens: u32,
    refilled: Time,
    left_out: u64,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self::new()
    }
}

impl LogLimit {
    /// Makes a full bucket.
    pub const fn new() -> Self {
        Self {
            tokens: BURST,
            refilled: Time(0),
            left_out: 0,
        }
    }

    /// Takes a token, and returns whether there was one.
    pub fn allows(&mut self, now: Time) -> bool {
        self.refill(now);
        let allowed = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        self.left_out += u64::from(!allowed);
        allowed
    }

    /// Returns how many lines were not written.
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    fn refill(&mut self, now: Time) {
        let earned = now.since(self.refilled).as_nanos() / REFILL.as_nanos();
        if earned > 0 {
            self.tokens = BURST.min(
                self.tokens
                    .saturating_add(earned.min(u128::from(BURST)) as u32),
            );
            self.refilled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_line_a_second() {
        let mut log_limit = LogLimit::new();
        let start = Time(1 << 40);
        let burst = (0..100).filter(|_| log_limit.allows(start)).count();
        assert_eq!(burst, BURST as usize);
        assert!(!log_limit.allows(start + REFILL / 2));
        assert!(log_limit.allows(start + REFILL));
        assert!(!log_limit.allows(start + REFILL));
        assert_eq!(log_limit.left_out(), 100 - u64::from(BURST) + 2);
    }
}
