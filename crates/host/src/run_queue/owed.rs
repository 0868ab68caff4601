//! Members with a guarantee, and those that send to one with a guarantee of what arrives; and the turn that one of them
//! has because of it.
//!
//! A turn for a receiver ends with the first unit to somebody else, which is charged as in an ordinary turn. So a guarantee
//! of what arrives brings its senders nothing for what they send to others.

use std::collections::VecDeque;
use std::sync::Arc;

use vrdma_switch::{Limit, Policy, PortId};

use super::RunQueue;
use super::entry::{Claim, Entry, Listed, Waiting};
use crate::budget::{Budget, Moved, QUANTUM};

/// Forgets those of a list who are gone, once they are more than all members can be.
pub(super) fn tidy(list: &mut VecDeque<Listed>, entries: &[Option<Entry>]) {
    if list.len() > 2 * entries.len() {
        list.retain(|listed| listed.is_there(entries));
    }
}

/// How many are asked for a turn whether they are owed anything: as many as cost nothing beside it.
const ASKED_A_TURN: usize = 8;

/// A turn because of a guarantee.
struct OwedTurn {
    /// The budget of the member's ordinary turns.
    before: Budget,
    claim: Claim,
    /// What units had cost before the first one to anybody else than whom it is for.
    elsewhere: Option<u64>,
}

/// What is left of it.
pub(super) struct Ended {
    /// The budget of ordinary turns.
    pub(super) before: Budget,
    /// To be charged to that.
    pub(super) cost: u64,
}

/// Each member is in it once, and whoever is gone until it comes up or [`tidy`] forgets it.
#[derive(Default)]
pub(super) struct Owed {
    /// Those that wait in their groups, and some that wait no more.
    pub(super) members: VecDeque<Listed>,
    /// While one of them has such a turn.
    turn: Option<OwedTurn>,
    /// There was an ordinary turn since the last such one.
    pub(super) may_be_next: bool,
}

impl Owed {
    pub(super) fn push(&mut self, listed: Listed) {
        self.members.push_back(listed);
    }

    pub(super) fn pop(&mut self) -> Option<Listed> {
        self.members.pop_front()
    }

    /// A member is gone: all are forgotten that are, once they are most of the list.
    pub(super) fn tidy(&mut self, entries: &[Option<Entry>]) {
        tidy(&mut self.members, entries);
    }

    /// How many may be asked now.
    #[inline]
    pub(super) fn looks(&self) -> usize {
        match self.may_be_next {
            true => self.members.len().min(ASKED_A_TURN),
            false => 0,
        }
    }

    /// A member has such a turn; its ordinary budget is kept for it.
    fn begin(&mut self, before: Budget, claim: Claim) {
        self.turn = Some(OwedTurn {
            before,
            claim,
            elsewhere: None,
        });
        self.may_be_next = false;
    }

    /// The member sends to this one, after units of such a cost; `true` if it has a turn for another one.
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

    /// A turn has ended in which units cost so much: what is left of it, if it was such a one.
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
    /// Who is owed something and may have it now: it stays where it waits.
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

    /// A member whose turn it is sends its next unit to somebody: to one with this policy, if that one is guaranteed something
    /// of what arrives.
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

    /// What was moved to somebody counts for what that one is guaranteed.
    pub(crate) fn arrived(&self, receiver: &Policy, moved: Moved) {
        moved.note(receiver, Limit::IN, self.now);
    }

    /// What was moved for a member in this turn.
    pub(crate) fn moved(&self, port: PortId) -> Moved {
        let entry = self.entries.get(port.0 as usize).and_then(Option::as_ref);
        entry.map_or_else(Moved::default, |entry| entry.moved)
    }
}
