//! Whose turn it is among the members that wait: first by port group, then by member of the group.
//!
//! ```text
//!   groups    ──► A ──► B ──► C ──►     a visit goes on until A has used up its quantum, or none of its members waits
//!                 │
//!   of A      ──► 1 ──► 4 ──► 7 ──►     each has its turn with a quantum of its own
//! ```
//! Both are rounds of deficit round robin. A member's turn is whole, however little its group has left: what it takes
//! beyond that is its group's debt. A member or a group in debt is not visited before rounds have paid the debt, and
//! costs none of them anything ([`rounds`]). So groups share a shard by their weights, whatever the number and the
//! weights of their members are, and a member waits for the turns of its own group's members and for one visit of each
//! other group.
//!
//! A member with a guarantee that lately has had less than it guarantees is *owed*, and so is a member that sent last
//! to a receiver that is owed arrivals: every second turn goes to such a member, out of the order ([`owed`]). Such a
//! turn is charged to the guarantee only, and ordinary turns are charged to it, too. So weights share what guarantees
//! leave, and a member that has more by its weight has no more by its guarantee.
//!
//! A member that is the only one to send has several long units in a turn ([`long_turn`]).
//!
//! No member has two ordinary turns within one turn of the carrier, which ends instead: what all members share
//! (uplinks, timers, commands) waits no longer because a group is heavy. Each turn of the carrier also looks at a few
//! members that wait without a turn: debts and weights hold up what a member sends, but not for long its doorbells,
//! timers and answers to peers.
//!
//! A member that had nothing to do, and whose doorbells wake nobody, is *polled*: each turn of the carrier asks whether
//! it has rung, and only then gives it a turn.

mod entry;
mod long_turn;
mod owed;
mod rounds;

use std::collections::VecDeque;
use std::sync::Arc;

use vrdma_switch::{GroupId, Policy, PortId};
use vrdma_verbs::Time;

use crate::budget::{Budget, Moved};
use entry::{Entry, Listed, Waiting};
use long_turn::LongTurn;
use owed::Owed;
use rounds::{Rounds, Ticket};

/// How many members are looked at in a turn of the carrier without having one: a microsecond's worth.
const LOOKS_A_TURN: usize = 8;

#[derive(Default)]
struct Group {
    members: Rounds<PortId>,
    budget: Budget,
    weight: u32,
    /// Its ticket in the rounds of groups.
    ticket: Ticket,
    /// It is visited, or waits for a visit.
    queued: bool,
}

/// The run queue; see the module. Each member is in a list at most once. One that is gone stays there until it comes
/// up, or until most of the list is gone: no list is longer than twice the members' table.
#[derive(Default)]
pub(crate) struct RunQueue {
    /// By port number; a removed member leaves a gap.
    entries: Vec<Option<Entry>>,
    /// How many members have come so far.
    came: u64,
    /// By group number.
    groups: Vec<Group>,
    /// The groups with members that wait, or with debts.
    rounds: Rounds<GroupId>,
    /// The group whose visit is not over.
    visited: Option<GroupId>,
    /// Members that wait in their groups.
    waiting: usize,
    /// Members that had nothing to do and whose doorbells each turn polls; and some that wait for a turn by now.
    polled: Vec<Listed>,
    /// Members that wait in their groups, the one looked at longest ago first; and some that no longer wait.
    unseen: VecDeque<Listed>,
    owed: Owed,
    turn: u64,
    /// When the carrier's turn began.
    now: Time,
    /// Number of members' turns that this one may still have.
    turns_left: usize,
    /// Number of unseen members that may still be looked at.
    looks_left: usize,
    /// A member that had a turn in this one has sent something.
    moved: bool,
    /// The current turn belongs to the only sender: nobody has sent anything before it in this turn of the carrier, and
    /// nobody comes after it.
    is_alone: bool,
    /// How much longer its turn is in that case.
    long_turn: LongTurn,
}

impl RunQueue {
    pub(crate) fn insert(&mut self, port: PortId, group: GroupId, policy: Option<Arc<Policy>>) {
        let (number, of) = (port.0 as usize, group.0 as usize);
        if self.entries.len() <= number {
            self.entries.resize_with(number + 1, || None);
        }
        if self.groups.len() <= of {
            self.groups.resize_with(of + 1, Group::default);
        }
        self.came += 1;
        self.entries[number] = Some(Entry::new(self.came, group, policy, self.turn));
    }

    pub(crate) fn remove(&mut self, port: PortId) {
        let entry = self.entries.get_mut(port.0 as usize);
        let Some(entry) = entry.and_then(Option::take) else {
            return;
        };
        if entry.place == Waiting::Rounds {
            let group = &mut self.groups[entry.group.0 as usize];
            group.members.remove(port, entry.ticket);
            self.waiting -= 1;
        }
        owed::tidy(&mut self.unseen, &self.entries);
        self.owed.tidy(&self.entries);
    }

    fn entry_of(&mut self, listed: Listed) -> Option<&mut Entry> {
        let entry = self.entry(listed.port);
        entry.filter(|entry| entry.id == listed.id)
    }

    fn entry(&mut self, port: PortId) -> Option<&mut Entry> {
        self.entries.get_mut(port.0 as usize)?.as_mut()
    }

    /// Makes a member wait for a turn.
    #[inline]
    pub(crate) fn wake(&mut self, port: PortId) {
        let turn = self.turn;
        if let Some(Some(entry)) = self.entries.get_mut(port.0 as usize)
            && entry.place != Waiting::Rounds
        {
            entry.place = Waiting::Rounds;
            entry.since = turn;
            let (number, id) = (entry.group, entry.id);
            if !std::mem::replace(&mut entry.listed, true) {
                self.unseen.push_back(Listed { port, id });
            }
            if entry.is_guaranteed() && !std::mem::replace(&mut entry.guaranteed, true) {
                self.owed.push(Listed { port, id });
            }
            self.waiting += 1;
            entry.weighed = entry.weight();
            let group = &mut self.groups[number.0 as usize];
            entry.ticket = group.members.push(port, entry.budget, entry.weighed);
            if !std::mem::replace(&mut group.queued, true) {
                group.weight = entry.group_weight();
                group.ticket = self.rounds.push(number, group.budget, group.weight);
            }
        }
    }

    /// Begins a turn of the carrier, for the members that wait by now and for [polled](Self::had_turn) members that
    /// have rung.
    pub(crate) fn begin_turn(&mut self, now: Time, has_rung: impl Fn(PortId) -> bool) {
        self.turn += 1;
        self.long_turn.took(now.since(self.now));
        self.now = now;
        let mut polled = std::mem::take(&mut self.polled);
        polled.retain(|listed| self.stays_polled(*listed, &has_rung));
        // No member was added to `self.polled` meanwhile.
        self.polled = polled;
        self.turns_left = self.waiting;
        self.moved = false;
        self.is_alone = false;
        self.looks_left = LOOKS_A_TURN.min(self.unseen.len());
    }

    /// Whether a polled member stays polled for the next turn: it has not rung and does not wait by now.
    fn stays_polled(&mut self, listed: Listed, has_rung: impl Fn(PortId) -> bool) -> bool {
        let port = listed.port;
        let Some(entry) = self.entry_of(listed) else {
            return false;
        };
        let waits = entry.place == Waiting::ToRing;
        if waits && !has_rung(port) {
            return true;
        }
        entry.polled = false;
        if waits {
            self.wake(port);
        }
        false
    }

    /// Returns all members that wait, the polled included.
    pub(crate) fn ports(&self) -> impl Iterator<Item = PortId> {
        let groups = self.visited.into_iter().chain(self.rounds.iter());
        let of_groups = groups.flat_map(|group| self.groups[group.0 as usize].members.iter());
        let entries = &self.entries;
        let is_polled = |listed: &&Listed| {
            let entry = listed.entry(entries);
            entry.is_some_and(|entry| entry.place == Waiting::ToRing)
        };
        let polled = self.polled.iter().filter(is_polled);
        of_groups.chain(polled.map(|listed| listed.port))
    }

    /// Returns the next member that gets its turn, and after these the members that are only looked at.
    pub(crate) fn next(&mut self) -> Option<PortId> {
        if self.turns_left > 0 {
            self.turns_left -= 1;
            if let Some(port) = self.next_owed().or_else(|| self.next_turn()) {
                return Some(port);
            }
            self.turns_left = 0;
        }
        self.next_look()
    }

    /// Returns the member whose turn is next, with a new quantum. `None` if nobody waits, or if that member has had a
    /// turn in this turn of the carrier.
    fn next_turn(&mut self) -> Option<PortId> {
        while self.waiting > 0 {
            let number = self.visit()?;
            let group = &mut self.groups[number.0 as usize];
            let Some(port) = group.members.front().filter(|_| !group.budget.is_spent()) else {
                self.end_visit(number);
                continue;
            };
            let entry = self.entries.get_mut(port.0 as usize)?.as_mut()?;
            let weight = entry.weight();
            let Some(budget) = group.members.allows(entry.budget, weight) else {
                entry.ticket = group.members.defer(entry.budget, weight);
                continue;
            };
            if entry.turn == self.turn {
                return None;
            }
            entry.budget = budget;
            self.is_alone = self.turns_left == 0 && !self.moved;
            group.members.pop();
            self.owed.may_be_next = true;
            entry.turn = self.turn;
            entry.place = Waiting::Nowhere;
            self.waiting -= 1;
            return Some(port);
        }
        None
    }

    /// Returns the group whose visit goes on, or the next one with a new quantum.
    fn visit(&mut self) -> Option<GroupId> {
        while self.visited.is_none() {
            let number = self.rounds.front()?;
            let group = &mut self.groups[number.0 as usize];
            let first = group.members.any();
            let first = first.and_then(|port| self.entries.get(port.0 as usize)?.as_ref());
            group.weight = first.map_or(group.weight, Entry::group_weight);
            let Some(budget) = self.rounds.allows(group.budget, group.weight) else {
                group.ticket = self.rounds.defer(group.budget, group.weight);
                continue;
            };
            group.budget = budget;
            self.rounds.pop();
            self.visited = Some(number);
        }
        self.visited
    }

    /// Ends a group's visit. A group in debt stays in the rounds, even if none of its members waits.
    fn end_visit(&mut self, number: GroupId) {
        self.visited = None;
        let group = &mut self.groups[number.0 as usize];
        group.queued = group.budget.is_spent();
        if group.queued {
            self.rounds.wants_more(group.weight);
            group.ticket = self.rounds.push(number, group.budget, group.weight);
        }
    }

    /// Returns the next member to be looked at: it has waited since before this turn of the carrier and has had no turn
    /// in it. It sends only from what is left of its last budget.
    fn next_look(&mut self) -> Option<PortId> {
        while self.looks_left > 0 {
            self.looks_left -= 1;
            let listed = self.unseen.pop_front()?;
            let turn = self.turn;
            let Some(entry) = self.entry_of(listed) else {
                continue;
            };
            entry.listed = entry.place == Waiting::Rounds;
            if !entry.listed {
                continue;
            }
            let is_fresh = entry.turn.max(entry.since) == turn;
            self.unseen.push_back(listed);
            self.reweigh(listed.port);
            if is_fresh {
                // Those behind it in the list may have waited since long before it had its turn.
                continue;
            }
            return Some(listed.port);
        }
        None
    }

    /// Adjusts the debts of a member and its group to their weights, which may have changed meanwhile.
    fn reweigh(&mut self, port: PortId) {
        let Some(Some(entry)) = self.entries.get_mut(port.0 as usize) else {
            return;
        };
        let group = &mut self.groups[entry.group.0 as usize];
        let weight = entry.weight();
        if std::mem::replace(&mut entry.weighed, weight) != weight {
            let (ticket, budget) = (entry.ticket, entry.budget);
            entry.ticket = group.members.reweigh(port, ticket, budget, weight);
        }
        let weight = entry.group_weight();
        if std::mem::replace(&mut group.weight, weight) != weight {
            let (ticket, budget) = (group.ticket, group.budget);
            group.ticket = self.rounds.reweigh(entry.group, ticket, budget, weight);
        }
    }

    /// Whether a member has used up what it may send in this turn.
    #[inline]
    pub(crate) fn is_spent(&self, port: PortId) -> bool {
        let entry = self.entries.get(port.0 as usize).and_then(Option::as_ref);
        entry.is_some_and(|entry| entry.budget.is_spent())
    }

    /// Charges a member for something moved.
    #[inline]
    pub(crate) fn charge(&mut self, port: PortId, moved: Moved) {
        let cost = match self.is_alone {
            true => self.long_turn.cost(moved),
            false => moved.cost,
        };
        if let Some(entry) = self.entry(port) {
            entry.budget.charge(cost);
            entry.unpaid += moved.cost - cost;
            entry.moved += moved;
        }
    }

    /// Ends a member's turn. It gets one `again`, or else is `polled`.
    pub(crate) fn had_turn(&mut self, port: PortId, again: bool, polled: bool) {
        let Some(Some(entry)) = self.entries.get_mut(port.0 as usize) else {
            return;
        };
        let moved = std::mem::take(&mut entry.moved);
        if self.is_alone && entry.budget.is_spent() {
            self.long_turn.used_up();
        }
        entry.budget.charge(std::mem::take(&mut entry.unpaid));
        self.moved |= moved.cost > 0;
        self.is_alone = false;
        entry.note(moved, self.now);
        let group = &mut self.groups[entry.group.0 as usize];
        match self.owed.end(moved.cost) {
            Some(owed) => {
                entry.budget = owed.before;
                entry.budget.charge(owed.cost);
                group.budget.charge(owed.cost);
            }
            None => group.budget.charge(moved.cost),
        }
        if entry.budget.is_spent() {
            group.members.wants_more(entry.weight());
        }
        if again {
            self.wake(port);
        } else if polled && entry.place == Waiting::Nowhere {
            entry.place = Waiting::ToRing;
            let id = entry.id;
            if !std::mem::replace(&mut entry.polled, true) {
                self.polled.push(Listed { port, id });
            }
        }
        if self.waiting == 0 {
            self.forgive();
        }
    }

    /// Forgives all debts, since everybody was served: a debt would only be paid when others come again, by waiting for
    /// them.
    fn forgive(&mut self) {
        let queued = self.rounds.take_all();
        for number in self.visited.take().into_iter().chain(queued) {
            let group = &mut self.groups[number.0 as usize];
            group.budget = Budget::default();
            group.queued = false;
        }
    }
}

#[cfg(test)]
mod tests;
