//! How much longer the turn of a member is that is the only one to send.
//!
//! ```text
//!   4 times ──took at most half of TURN_MAX──► 8 times ──► 16 times
//!      ^                                          │           │
//!      └───────────── took more than it ──────────┴───────────┘
//! ```
//! Several long units share what a turn costs besides copying: doorbells, completions, and state that copying has driven
//! out of the core's first cache. A unit counts so many times less until the turn ends. All is to be paid after it, as
//! ever. Who comes meanwhile waits for the end of it: for [`TURN_MAX`] where memory is as fast as it was in the turns
//! before, and for [`MOST`] quanta where it is not. The next turn is short then, but after two fast ones a member that
//! alternates between fast and slow memory has a slow one of that length again: some 0.2 ms of first touches.
//!
//! It does not know who is alone.

use core::time::Duration;

use crate::budget::Moved;

/// So many times longer, at first and where memory is slow. Who comes waits at most twice as long as for the longest unit.
pub(super) const LEAST: u64 = 4;

/// And so many times where it is fast.
pub(super) const MOST: u64 = 16;

/// What such a turn may take.
const TURN_MAX: Duration = Duration::from_micros(20);

/// What counts as long. A turn has as few short units and atomics as ever: after a crash those of one are asked for again.
const LONG: u64 = 32 << 10;

pub(super) struct LongTurn {
    times: u64,
    /// The last turn ended because its quantum was used up, so the time it took says something.
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
    /// What a unit counts until the turn ends.
    pub(super) fn cost(&self, moved: Moved) -> u64 {
        match moved.bytes >= LONG {
            true => moved.cost / self.times,
            false => moved.cost,
        }
    }

    /// One that was alone has used up its quantum.
    pub(super) fn used_up(&mut self) {
        self.was_used_up = true;
    }

    /// So much time has passed since the turn of the carrier began that had it.
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
