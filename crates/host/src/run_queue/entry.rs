//! The run queue's entry of a member.

use std::sync::Arc;

use vrdma_switch::{GroupId, Limit, Policy, PortId};
use vrdma_verbs::Time;

use super::rounds::Ticket;
use crate::budget::{Budget, Moved};

/// A member.
pub(super) struct Entry {
    /// Unique: no other member has had it, not even one with the same port.
    pub(super) id: u64,
    pub(super) group: GroupId,
    /// The same for as long as it is a member.
    pub(super) policy: Option<Arc<Policy>>,
    pub(super) place: Waiting,
    /// Its ticket in its group's rounds.
    pub(super) ticket: Ticket,
    /// The weight that its ticket was issued for.
    pub(super) weighed: u32,
    /// What it may send in this turn.
    pub(super) budget: Budget,
    /// What was moved for it in this turn.
    pub(super) moved: Moved,
    /// The part of `moved` that is paid when the turn ends.
    pub(super) unpaid: u64,
    /// The carrier's turn in which it had its last one.
    pub(super) turn: u64,
    /// The carrier's turn in which, or after which, it began to wait.
    pub(super) since: u64,
    /// It is among the unseen.
    pub(super) listed: bool,
    /// It is among the polled.
    pub(super) polled: bool,
    /// It is among those with a guarantee.
    pub(super) guaranteed: bool,
    /// Policy of the member that it sent to last, if that one has a guarantee for what arrives.
    pub(super) receiver: Option<Arc<Policy>>,
}

/// A member in a list. A member that is gone stays in the list and is skipped when it comes up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) port: PortId,
    pub(super) id: u64,
}

impl Listed {
    /// Whether it is the member that has the port now.
    pub(super) fn is_there(&self, entries: &[Option<Entry>]) -> bool {
        self.entry(entries).is_some()
    }

    /// Returns the member's entry, if it is.
    pub(super) fn entry<'a>(&self, entries: &'a [Option<Entry>]) -> Option<&'a Entry> {
        let entry = entries.get(self.port.0 as usize)?.as_ref();
        entry.filter(|entry| entry.id == self.id)
    }
}

/// Whose guarantee a turn out of the order is for.
pub(super) enum Claim {
    /// The member's own.
    Own,
    /// The guarantee of the receiver.
    Receiver(Arc<Policy>),
}

/// Where a member waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    Nowhere,
    /// In its group.
    Rounds,
    /// Until a doorbell has rung; each turn of the carrier looks.
    ToRing,
}

impl Entry {
    pub(super) fn new(id: u64, group: GroupId, policy: Option<Arc<Policy>>, turn: u64) -> Self {
        Self {
            id,
            group,
            policy,
            place: Waiting::Nowhere,
            ticket: Ticket::default(),
            weighed: 1,
            budget: Budget::default(),
            moved: Moved::default(),
            unpaid: 0,
            turn,
            since: turn,
            listed: false,
            polled: false,
            guaranteed: false,
            receiver: None,
        }
    }

    pub(super) fn weight(&self) -> u32 {
        weight(self.policy.as_ref())
    }

    /// Whether it has a guarantee, or the member that it sent to last has one.
    pub(super) fn is_guaranteed(&self) -> bool {
        let own = self.policy.as_ref();
        own.is_some_and(|own| own.is_guaranteed(Limit::OUT)) || self.receiver.is_some()
    }

    /// Returns the guarantee for which it may have a turn out of the order.
    pub(super) fn owed(&self, now: Time) -> Option<Claim> {
        let is_owed = |policy: &Option<Arc<Policy>>, of| {
            let policy = policy.as_ref();
            policy.is_some_and(|policy| policy.is_owed(of, now.0))
        };
        if is_owed(&self.policy, Limit::OUT) {
            Some(Claim::Own)
        } else if is_owed(&self.receiver, Limit::IN) {
            self.receiver.clone().map(Claim::Receiver)
        } else {
            None
        }
    }

    /// Counts what a turn moved towards its guarantee.
    pub(super) fn note(&self, moved: Moved, now: Time) {
        if self.guaranteed
            && let Some(policy) = &self.policy
        {
            moved.note(policy, Limit::OUT, now);
        }
    }

    pub(super) fn group_weight(&self) -> u32 {
        weight(self.policy.as_ref().and_then(|policy| policy.group()))
    }
}

fn weight(policy: Option<&Arc<Policy>>) -> u32 {
    policy.map_or(1, |policy| policy.weight().get())
}
