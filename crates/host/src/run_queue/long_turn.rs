//! The longer turn of a member that is the only one to send.
//!
//! ```text
//!   4 times ──took at most half of TURN_MAX──► 8 times ──► 16 times
//!      ^                                          │           │
//!      └───────────── took more than it ──────────┴───────────┘
//! ```
//! Several long units share the fixed costs of a turn: doorbells, completions, and state that copying has driven out of
//! the core's first-level cache. Until the turn ends, a long unit is charged only a fraction of its cost; the rest is
//! paid after it. A member that comes meanwhile waits for the end of the turn: for [`TURN_MAX`] if memory is as fast as
//! in the turns before, and for [`MOST`] quanta if it is not. The next turn is short then, but after two fast turns a
//! member that alternates between fast and slow memory has a slow one of that length again: some 0.2 ms of first
//! touches.
//!
//! This module does not know which member is alone.

use core::time::Duration;

use crate::budget::Moved;

/// Length of the turn in quanta, at first and where memory is slow. Others wait at most twice as long as for the
/// longest unit.
pub(super) const LEAST: u64 = 4;

/// Length of the turn in quanta where memory is fast.
pub(super) const MOST: u64 = 16;

/// The time that such a turn may take.
const TURN_MAX: Duration = Duration::from_micros(20);

/// Bytes that make a unit long. Short units and atomics are not discounted: after a crash all of one turn are repeated.
const LONG: u64 = 32 << 10;

pub(super) struct LongTurn {
    times: u64,
    /// The last turn ended because its quantum was used up, so its duration is meaningful.
    was_used_up: bool,
}

impl Default for LongTurn {
    fn default() -> Self {
        Self {
            times: LEAST,
            was_used_up: false,
        }
    }
}

impl LongTurn {
    /// Returns what a unit is charged until the turn ends.
    pub(super) fn cost(&self, moved: Moved) -> u64 {
        match moved.bytes >= LONG {
            true => moved.cost / self.times,
            false => moved.cost,
        }
    }

    /// Notes that a member that was alone has used up its quantum.
    pub(super) fn used_up(&mut self) {
        self.was_used_up = true;
    }

    /// Takes the time since the beginning of the carrier's turn that contained it.
    pub(super) fn took(&mut self, time: Duration) {
        if !core::mem::take(&mut self.was_used_up) {
            return;
        }
        if time > TURN_MAX {
            self.times = LEAST;
        } else if time <= TURN_MAX / 2 {
            self.times = MOST.min(2 * self.times);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(turn: &LongTurn) -> u64 {
        let cost = LONG * MOST;
        let moved = Moved {
            cost,
            bytes: LONG,
            ops: 1,
        };
        cost / turn.cost(moved)
    }

    #[test]
    fn it_is_longer_while_it_takes_little_time() {
        let mut turn = LongTurn::default();
        for (us, then) in [
            (10, 8),
            (5, 16),
            (5, 16),
            (20, 16),
            (21, 4),
            (15, 4),
            (9, 8),
        ] {
            turn.used_up();
            turn.took(Duration::from_micros(us));
            assert_eq!(times(&turn), then, "{us} us");
        }
        turn.took(Duration::from_millis(1));
        assert_eq!(times(&turn), 8, "nobody used that time up");
    }
}
