//! Members with a guarantee, and members that send to one with a guarantee for what arrives; and the turns that they
//! get because of it.
//!
//! A turn for a receiver ends with the first unit to somebody else, which is charged as in an ordinary turn. So a
//! receiver's guarantee gains its senders nothing for what they send to others.

use std::collections::VecDeque;
use std::sync::Arc;

use vrdma_switch::{Limit, Policy, PortId};

use super::RunQueue;
use super::entry::{Claim, Entry, Listed, Waiting};
use crate::budget::{Budget, Moved, QUANTUM};

/// Drops the members of a list that are gone, once the list is longer than twice the members' table.
pub(super) fn tidy(list: &mut VecDeque<Listed>, entries: &[Option<Entry>]) {
    if list.len() > 2 * entries.len() {
        list.retain(|listed| listed.is_there(entries));
    }
}

/// Number of members that are asked, for one turn, whether they are owed anything: few enough to cost nothing beside
/// it.
const ASKED_A_TURN: usize = 8;

/// A turn that a member has because of a guarantee.
struct OwedTurn {
    /// The budget of the member's ordinary turns.
    before: Budget,
    claim: Claim,
    /// Cost of the units before the first one to anybody but the receiver that the turn is for.
    elsewhere: Option<u64>,
}

/// What remains to be accounted for when such a turn ends.
pub(super) struct Ended {
    /// The budget of the member's ordinary turns.
    pub(super) before: Budget,
    /// Cost to be charged to that budget.
    pub(super) cost: u64,
}

/// The members that may be owed, each once. A member that is gone stays until it comes up or [`tidy`] drops it.
#[derive(Default)]
pub(super) struct Owed {
    /// Members that wait in their groups, and some that no longer wait.
    pub(super) members: VecDeque<Listed>,
    /// The turn that one of them has because of a guarantee.
    turn: Option<OwedTurn>,
    /// There was an ordinary turn since the last one because of a guarantee.
    pub(super) may_be_next: bool,
}

impl Owed {
    pub(super) fn push(&mut self, listed: Listed) {
        self.members.push_back(listed);
    }

    pub(super) fn pop(&mut self) -> Option<Listed> {
        self.members.pop_front()
    }

    /// Drops the members that are gone, once the list is too long.
    pub(super) fn tidy(&mut self, entries: &[Option<Entry>]) {
        tidy(&mut self.members, entries);
    }

    /// Returns how many members may be asked now.
    #[inline]
    pub(super) fn looks(&self) -> usize {
        match self.may_be_next {
            true => self.members.len().min(ASKED_A_TURN),
            false => 0,
        }
    }

    /// Begins such a turn for a member, and keeps its ordinary budget.
    fn begin(&mut self, before: Budget, claim: Claim) {
        self.turn = Some(OwedTurn {
            before,
            claim,
            elsewhere: None,
        });
        self.may_be_next = false;
    }

    /// Notes the receiver of the member's next unit, after units of cost `cost`; `true` if the turn is for another
    /// receiver.
    fn goes_elsewhere(&mut self, receiver: Option<&Arc<Policy>>, cost: u64) -> bool {
        let Some(turn) = &mut self.turn else {
            return false;
        };
        let Claim::Receiver(of) = &turn.claim else {
            return false;
        };
        let is_elsewhere = !receiver.is_some_and(|one| Arc::ptr_eq(one, of));
        if is_elsewhere {
            turn.elsewhere.get_or_insert(cost);
        }
        is_elsewhere
    }

    /// Ends a turn whose units cost `cost`; returns what remains if it was a turn because of a guarantee.
    #[inline]
    pub(super) fn end(&mut self, cost: u64) -> Option<Ended> {
        let turn = self.turn.take()?;
        Some(Ended {
            before: turn.before,
            cost: turn.elsewhere.map_or(0, |before| cost - before),
        })
    }
}

impl RunQueue {
    /// Returns a member that is owed something and may have it now: it stays where it waits.
    pub(super) fn next_owed(&mut self) -> Option<PortId> {
        for _ in 0..self.owed.looks() {
            let listed = self.owed.pop()?;
            let now = self.now;
            let Some(entry) = self.entry_of(listed) else {
                continue;
            };
            entry.guaranteed = entry.place == Waiting::Rounds && entry.is_guaranteed();
            if !entry.guaranteed {
                continue;
            }
            let claim = entry.owed(now);
            let is_owed = claim.is_some();
            if let Some(claim) = claim {
                let budget = Budget::of(QUANTUM);
                let before = std::mem::replace(&mut entry.budget, budget);
                self.owed.begin(before, claim);
            }
            self.owed.push(listed);
            if is_owed {
                return Some(listed.port);
            }
        }
        None
    }

    /// Notes the receiver of the next unit of the member whose turn it is, by the receiver's policy if it has a
    /// guarantee for what arrives.
    #[inline]
    pub(crate) fn sends_to(&mut self, port: PortId, receiver: Option<&Arc<Policy>>) {
        let Some(Some(entry)) = self.entries.get_mut(port.0 as usize) else {
            return;
        };
        let is_same = match (receiver, &entry.receiver) {
            (None, None) => true,
            (Some(one), Some(last)) => Arc::ptr_eq(one, last),
            _ => false,
        };
        if is_same {
            return;
        }
        entry.receiver = receiver.cloned();
        if self.owed.goes_elsewhere(receiver, entry.moved.cost) {
            entry.budget.charge(QUANTUM);
        }
        if entry.receiver.is_some()
            && entry.place == Waiting::Rounds
            && !std::mem::replace(&mut entry.guaranteed, true)
        {
            let id = entry.id;
            self.owed.push(Listed { port, id });
        }
    }

    /// Counts what was moved to a receiver towards its guarantee.
    pub(crate) fn arrived(&self, receiver: &Policy, moved: Moved) {
        moved.note(receiver, Limit::IN, self.now);
    }

    /// Returns what was moved for a member in this turn.
    pub(crate) fn moved(&self, port: PortId) -> Moved {
        let entry = self.entries.get(port.0 as usize).and_then(Option::as_ref);
        entry.map_or_else(Moved::default, |entry| entry.moved)
    }
}
