//! Members with a guarantee, and the turn that one of them has because of it.

use std::collections::VecDeque;

use super::entry::{Entry, Listed};
use crate::budget::Budget;

/// Forgets those of a list who are gone, once they are more than all members can be.
pub(super) fn tidy(list: &mut VecDeque<Listed>, entries: &[Option<Entry>]) {
    if list.len() > 2 * entries.len() {
        list.retain(|listed| listed.is_there(entries));
    }
}

/// How many are asked for a turn whether they are owed anything: as many as cost nothing beside it.
const ASKED_A_TURN: usize = 8;

/// Each member is in it once, and whoever is gone until it comes up or [`tidy`] forgets it.
#[derive(Default)]
pub(super) struct Owed {
    /// Those that wait in their groups, and some that wait no more.
    pub(super) members: VecDeque<Listed>,
    /// While one of them has such a turn: the budget of its ordinary turns.
    before: Option<Budget>,
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
