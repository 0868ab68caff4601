//! What a member may send before the others have their turn: deficit round robin in bytes and
//! operations.
//!
//! Each round of turns ([`run_queue`](crate::run_queue)) gives every port group, and every member within its group, a
//! quantum by its weight. The heaviest of those that had more to send gets a whole quantum, so no turn is longer than
//! without weights. What a unit took beyond the budget is missing in the next turns; what was not used does not add up.
//! Messages within the host, frames for uplinks and answers to READs draw on the same account. Engines cut units, so a
//! message longer than the rest of the budget continues in the next turn.

use std::ops::AddAssign;

use vrdma_switch::{Limit, Policy};
use vrdma_verbs::unit::{Request, RequestOp};
use vrdma_verbs::{REPLAYS_MIN, Time};

/// Cost of a turn, in bytes: some ten microseconds of copying.
pub(crate) const QUANTUM: u64 = 64 << 10;

/// Cost of a unit besides its bytes: copying this many bytes takes about as long. It limits a turn to 64 units.
const UNIT_COST: u64 = 1 << 10;

/// Cost of an atomic besides its bytes: a turn has at most as many atomics as a responder can answer again. The
/// requester's progress is recorded at the end of its turn, and each atomic when it is executed; after a crash the
/// requester repeats all requests in between.
const ATOMIC_COST: u64 = QUANTUM / REPLAYS_MIN as u64;

/// A longer message counts as several towards a guarantee in messages a second.
const MESSAGE_BYTES: u64 = 4 << 10;

/// The budget of one member, or of one port group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Budget {
    /// Bytes left; below zero, the bytes taken beyond the budget.
    left: i64,
}

impl Budget {
    /// Returns the budget of a turn of its own.
    pub(crate) fn of(quantum: u64) -> Self {
        Self {
            left: quantum as i64,
        }
    }

    /// Begins a new turn.
    pub(crate) fn renew(&mut self, quantum: u64) {
        self.pay(quantum, quantum);
    }

    /// Adds bytes; at most one quantum is kept.
    pub(crate) fn pay(&mut self, bytes: u64, quantum: u64) {
        let left = self.left.saturating_add_unsigned(bytes);
        self.left = left.min(quantum as i64);
    }

    /// Returns the bytes that must be paid until something is left again.
    pub(crate) fn debt(self) -> Option<u64> {
        self.is_spent().then(|| self.left.unsigned_abs() + 1)
    }

    pub(crate) fn is_spent(self) -> bool {
        self.left <= 0
    }

    /// Subtracts bytes that were moved.
    pub(crate) fn charge(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub_unsigned(bytes);
    }
}

/// What was moved for a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Moved {
    /// What it costs.
    pub(crate) cost: u64,
    /// Bytes counted towards guarantees in bits.
    pub(crate) bytes: u64,
    /// Messages counted towards guarantees in messages.
    pub(crate) ops: u64,
}

impl Moved {
    /// Returns what a request moves. Even the shortest counts for a minimum of bytes, so it uses up its share of a
    /// guarantee in bits; a long message counts as several, so it uses up its share of one in messages.
    #[inline]
    pub(crate) fn by<R>(request: &Request<R>) -> Self {
        let bytes = moved(request);
        let own = match request.op {
            RequestOp::CompareSwap { .. } | RequestOp::FetchAdd { .. } => ATOMIC_COST,
            _ => UNIT_COST,
        };
        Self {
            cost: bytes.saturating_add(own),
            bytes: bytes.max(UNIT_COST),
            ops: bytes.div_ceil(MESSAGE_BYTES).max(request.first.into()),
        }
    }

    /// Returns what answer frames of this many bytes count.
    pub(crate) fn frames(bytes: u64) -> Self {
        Self {
            cost: bytes,
            bytes,
            ops: 0,
        }
    }

    /// Returns what was moved since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cost: self.cost - before.cost,
            bytes: self.bytes - before.bytes,
            ops: self.ops - before.ops,
        }
    }

    /// Counts it towards what is guaranteed to a member or a receiver.
    pub(crate) fn note(self, policy: &Policy, of: [Limit; 2], now: Time) {
        let [bits, ops] = of;
        policy.note_guaranteed(bits, self.bytes.saturating_mul(8), now.0);
        policy.note_guaranteed(ops, self.ops, now.0);
    }
}

impl AddAssign for Moved {
    fn add_assign(&mut self, more: Self) {
        self.cost += more.cost;
        self.bytes += more.bytes;
        self.ops += more.ops;
    }
}

/// Returns the quantum for a weight, beside others of which the heaviest has weight `heaviest`.
pub(crate) fn quantum(weight: u32, heaviest: u32) -> u64 {
    QUANTUM * u64::from(weight) / u64::from(heaviest.max(weight))
}

/// Returns the cost of a request.
pub(crate) fn cost<R>(request: &Request<R>) -> u64 {
    moved(request).saturating_add(UNIT_COST)
}

/// Returns the cost of anything else with this many bytes.
pub(crate) fn cost_of(bytes: usize) -> u64 {
    (bytes as u64).saturating_add(UNIT_COST)
}

/// Returns the bytes of payload that a request moves, in either direction.
fn moved<R>(request: &Request<R>) -> u64 {
    match request.op {
        RequestOp::Read { length, .. } => length.into(),
        _ => request.payload.length(),
    }
}

/// Returns the bytes of payload that a request takes to its destination.
pub(crate) fn given<R>(request: &Request<R>) -> u64 {
    match request.op {
        RequestOp::Read { .. } => 0,
        _ => request.payload.length(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_too_much_is_missing_later() {
        let mut budget = Budget::default();
        assert!(budget.is_spent(), "a member begins with its first turn");
        budget.renew(QUANTUM);
        budget.charge(QUANTUM * 5 / 2);
        budget.renew(QUANTUM);
        assert!(budget.is_spent(), "half a quantum is still owed");
        budget.renew(QUANTUM);
        assert!(!budget.is_spent());
    }

    #[test]
    fn a_debt_is_what_leaves_a_byte_when_it_is_paid() {
        let mut budget = Budget::of(QUANTUM);
        assert_eq!(budget.debt(), None);
        for (cost, debt) in [
            (QUANTUM - 1, None),
            (1, Some(1)),
            (QUANTUM, Some(QUANTUM + 1)),
        ] {
            budget.charge(cost);
            assert_eq!(budget.debt(), debt);
        }
        budget.pay(QUANTUM, QUANTUM);
        assert!(budget.is_spent());
        budget.pay(1, QUANTUM);
        assert_eq!(budget, Budget::of(1));
    }

    #[test]
    fn what_was_not_used_does_not_add_up() {
        let mut budget = Budget::default();
        (0..100).for_each(|_| budget.renew(QUANTUM));
        budget.charge(QUANTUM);
        assert!(budget.is_spent());
    }
}
