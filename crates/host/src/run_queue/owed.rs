//! Members with a guarantee, and the turn that one of them has because of it.

use std::collections::VecDeque;

use vrdma_switch::PortId;

use crate::budget::Budget;

/// How many are asked for a turn whether they are owed anything: as many as cost nothing beside it.
const ASKED_A_TURN: usize = 8;

/// Each member is in it once.
#[derive(Default)]
pub(super) struct Owed {
    /// Those that wait in their groups, and some that wait no more.
    members: VecDeque<PortId>,
    /// While one of them has such a turn: the budget of its ordinary turns.
    before: Option<Budget>,
    /// There was an ordinary turn since the last such one.
    pub(super) may_be_next: bool,
}

impl Owed {
    pub(super) fn push(&mut self, port: PortId) {
        self.members.push_back(port);
    }

    pub(super) fn pop(&mut self) -> Option<PortId> {
        self.members.pop_front()
    }

    pub(super) fn remove(&mut self, port: PortId) {
        self.members.retain(|member| *member != port);
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
    pub(super) fn begin(&mut self, before: Budget) {
        self.before = Some(before);
        self.may_be_next = false;
    }

    /// A turn has ended: what was kept, if it was such a one.
    #[inline]
    pub(super) fn end(&mut self) -> Option<Budget> {
        self.before.take()
    }
}
