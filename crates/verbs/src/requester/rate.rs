//! The rate of a queue pair whose packets meet congestion: the reaction point of DCQCN (Zhu et al.,
//! SIGCOMM 2015, section 3), driven by the congestion notifications of annex A17.9.
//!
//! ```text
//!   notification   target = current, current -= current * alpha / 2, alpha grows
//!   55 us without  alpha shrinks
//!   1.5 ms, 10 MB  recovery: current goes half-way to target, five times
//!                  then target grows by a step, by larger ones when both clocks agree
//! ```
//!
//! There is no timer: the effect of time is computed when the next packet wants to go. A queue pair that has become as
//! fast as before the first notification is not held any more.

use core::time::Duration;

use crate::time::Time;

/// `alpha` of 1, and its share in one update: g = 1/256.
const ALPHA_ONE: u64 = 1 << 16;
const ALPHA_SHIFT: u32 = 8;
const ALPHA_PERIOD: Duration = Duration::from_micros(55);

/// Notifications closer together count as one: it is the receiver's limit, too.
const CUT_PAUSE: Duration = Duration::from_micros(50);

const RAISE_PERIOD: Duration = Duration::from_micros(1500);
const RAISE_BYTES: u64 = 10_000_000;
/// Steps of fast recovery.
const RECOVERY_STEPS: u32 = 5;
/// Additive and hyper increase, 40 and 400 Mbit/s.
const ADDITIVE: u64 = 5_000_000;
const HYPER: u64 = 50_000_000;

/// Rate of a queue pair that nobody answers, so that no window limits it: that of a link of 10 Gbit/s.
const LINK: u64 = 1_250_000_000;

/// Slowest rate, 10 Mbit/s: a queue pair never stops.
const SLOWEST: u64 = 1_250_000;

/// Time at the rate that may be used up at once after a pause.
const BURST: Duration = Duration::from_micros(100);

/// Most updates computed at a time; a pause that takes more, a tenth of a second, ends the limit.
const CATCH_UP: u32 = 64;

/// A rate that is in force, in bytes a second.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    current: u64,
    target: u64,
    /// Rate before the first notification.
    free: u64,
    alpha: u64,
    alpha_at: Time,
    raise_at: Time,
    bytes: u64,
    time_steps: u32,
    byte_steps: u32,
    cut_at: Option<Time>,
    /// Time at which everything sent so far would be out at the rate.
    next_at: Time,
    /// Whether the rate holds without notifications, too.
    lasts: bool,
}

impl Rate {
    /// Makes the rate of a queue pair that has been sending at `free` bytes a second.
    pub(crate) fn new(free: u64, now: Time) -> Self {
        let free = free.max(SLOWEST);
        Self {
            current: free,
            target: free,
            free,
            alpha: ALPHA_ONE,
            alpha_at: now,
            raise_at: now,
            bytes: 0,
            time_steps: 0,
            byte_steps: 0,
            cut_at: None,
            next_at: now,
            lasts: false,
        }
    }

    /// Makes the rate of a queue pair that nobody answers.
    pub(crate) fn of_a_link(now: Time) -> Self {
        Self {
            lasts: true,
            ..Self::new(LINK, now)
        }
    }

    /// Takes in a notification.
    pub(crate) fn notify(&mut self, now: Time) {
        if self.cut_at.is_some_and(|at| now.since(at) < CUT_PAUSE) {
            return;
        }
        self.catch_up(now);
        self.cut_at = Some(now);
        self.target = self.current;
        self.current -= self.current * self.alpha / (2 * ALPHA_ONE);
        self.current = self.current.max(SLOWEST);
        self.alpha = self.alpha - (self.alpha >> ALPHA_SHIFT) + (ALPHA_ONE >> ALPHA_SHIFT);
        (self.alpha_at, self.raise_at) = (now, now);
        (self.bytes, self.time_steps, self.byte_steps) = (0, 0, 0);
        self.assert_bounds();
    }

    fn assert_bounds(&self) {
        debug_assert!(self.current >= SLOWEST, "a queue pair never stops");
        debug_assert!(self.alpha <= ALPHA_ONE, "alpha is a share");
    }

    /// Whether a packet may go now; otherwise see [`Rate::opens_at`].
    pub(crate) fn is_open(&mut self, now: Time) -> bool {
        self.catch_up(now);
        self.next_at <= now + BURST
    }

    /// Returns the time at which the next packet may go.
    pub(crate) fn opens_at(&self) -> Time {
        Time(self.next_at.0.saturating_sub(BURST.as_nanos() as u64))
    }

    /// Charges for a packet that goes.
    pub(crate) fn spend(&mut self, bytes: u64, now: Time) {
        let cost = bytes.saturating_mul(1_000_000_000) / self.current;
        self.next_at = self.next_at.max(now) + Duration::from_nanos(cost);
        self.bytes += bytes;
        if self.bytes >= RAISE_BYTES {
            self.bytes = 0;
            self.byte_steps += 1;
            self.raise();
        }
    }

    /// Whether the rate is back to what it was before the first notification.
    pub(crate) fn is_over(&self) -> bool {
        !self.lasts && self.current >= self.free
    }

    fn catch_up(&mut self, now: Time) {
        for _ in 0..CATCH_UP {
            if now.since(self.alpha_at) < ALPHA_PERIOD {
                break;
            }
            self.alpha_at = self.alpha_at + ALPHA_PERIOD;
            self.alpha -= self.alpha >> ALPHA_SHIFT;
        }
        for _ in 0..CATCH_UP {
            if now.since(self.raise_at) < RAISE_PERIOD {
                return;
            }
            self.raise_at = self.raise_at + RAISE_PERIOD;
            self.time_steps += 1;
            self.raise();
        }
        (self.alpha_at, self.raise_at) = (now, now);
        (self.current, self.alpha) = (self.free, ALPHA_ONE);
    }

    fn raise(&mut self) {
        let (fewest, most) = (
            self.time_steps.min(self.byte_steps),
            self.time_steps.max(self.byte_steps),
        );
        if fewest > RECOVERY_STEPS {
            self.target += HYPER * u64::from(fewest - RECOVERY_STEPS);
        } else if most > RECOVERY_STEPS {
            self.target += ADDITIVE;
        }
        self.target = self.target.min(2 * self.free);
        self.current = self.current.midpoint(self.target);
        self.assert_bounds();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: u64 = 1_000_000_000;

    fn at(us: u64) -> Time {
        Time(us * 1000)
    }

    #[test]
    fn the_first_notification_halves_the_rate() {
        let mut rate = Rate::new(FREE, at(0));
        rate.notify(at(0));
        assert_eq!(rate.current, FREE / 2);
        rate.notify(at(49));
        assert_eq!(rate.current, FREE / 2);
        rate.notify(at(100));
        assert!(rate.current < FREE / 3 && rate.current > FREE / 5);
    }

    #[test]
    fn packets_are_spaced_by_the_rate() {
        let mut rate = Rate::new(FREE, at(1000));
        rate.notify(at(1000));
        while rate.is_open(at(1000)) {
            rate.spend(1000, at(1000));
        }
        let before = rate.next_at;
        rate.spend(5000, at(1000));
        assert_eq!(rate.next_at.since(before), Duration::from_micros(10));
    }

    #[test]
    fn it_recovers_and_never_stops() {
        let mut rate = Rate::new(FREE, at(0));
        for step in 0..100_000 {
            rate.notify(at(step * 60));
        }
        assert_eq!(rate.current, SLOWEST);
        let mut now = 100_000 * 60;
        while !rate.is_over() {
            now += 1500;
            rate.is_open(at(now));
            assert!(now < 10_000_000_000, "{}", rate.current);
        }
    }
}
