//! When to look at which queue pair again.
//!
//! Each QP has at most one entry in each queue. A deadline that moves away leaves its entry where it is: moving it
//! with every acknowledgement would cost more than the rest of the acknowledgement. So an entry may
//! be early; what is due is asked of the QP.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::object::QpId;
use crate::time::Time;

/// What one QP has in the schedule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scheduled {
    /// It is in the ready queue.
    pub(crate) ready: bool,
    /// It is in the queue of those that owe answers.
    pub(crate) answering: bool,
    /// It waits for room on the wire.
    pub(crate) held_up: bool,
    /// It has units and no source address for them.
    pub(crate) unaddressed: bool,
    /// Its entry among the timers.
    pub(crate) timer: Option<Time>,
}

/// Queue pairs that wait for their turn. One that goes leaves its entry behind, which is skipped when
/// it comes to the front: the others' entries are not searched for it. Entries of a successor with the
/// same number come after it.
#[derive(Default)]
struct Line {
    entries: VecDeque<QpId>,
    /// How many entries were left behind, for each number.
    left: BTreeMap<QpId, usize>,
    /// Sum of these: at most half of the entries whenever one has left, so that they do not pile up.
    dead: usize,
}

impl Line {
    #[inline]
    fn push(&mut self, qp: QpId) {
        self.entries.push_back(qp);
    }

    #[inline]
    fn pop(&mut self) -> Option<QpId> {
        if self.left.is_empty() {
            return self.entries.pop_front();
        }
        self.pop_waiting()
    }

    #[cold]
    fn pop_waiting(&mut self) -> Option<QpId> {
        while let Some(qp) = self.entries.pop_front() {
            if !self.was_left(qp) {
                return Some(qp);
            }
        }
        None
    }

    /// A queue pair with an entry goes.
    fn leave(&mut self, qp: QpId) {
        *self.left.entry(qp).or_default() += 1;
        self.dead += 1;
        if self.dead > self.entries.len() / 2 {
            self.compact();
        }
        debug_assert!(
            self.dead <= self.entries.len() / 2,
            "dead entries do not pile up"
        );
    }

    /// No longer than what was left behind since the last time, twice over.
    fn compact(&mut self) {
        let mut entries = core::mem::take(&mut self.entries);
        entries.retain(|qp| !self.was_left(*qp));
        self.entries = entries;
        debug_assert_eq!(self.dead, 0, "entries that were left behind are somewhere");
    }

    /// Whether the foremost entry of a number was left behind; it is no more after this.
    fn was_left(&mut self, qp: QpId) -> bool {
        let Some(count) = self.left.get_mut(&qp) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.left.remove(&qp);
        }
        self.dead -= 1;
        true
    }
}

/// Which QPs have units to send, and which wait for a moment.
#[derive(Default)]
pub(crate) struct Schedule {
    ready: Line,
    answering: Line,
    held_up: Line,
    unaddressed: Line,
    timers: BTreeSet<(Time, QpId)>,
}

impl Schedule {
    /// Queues a QP unless it is queued already.
    #[inline]
    pub(crate) fn make_ready(&mut self, qp: QpId, entry: &mut Scheduled) {
        if !core::mem::replace(&mut entry.ready, true) {
            self.ready.push(qp);
        }
    }

    pub(crate) fn pop_ready(&mut self) -> Option<QpId> {
        self.ready.pop()
    }

    /// Whether one may be queued.
    #[inline]
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.entries.is_empty()
    }

    /// Queues a QP that owes answers unless it is queued already.
    pub(crate) fn make_answering(&mut self, qp: QpId, entry: &mut Scheduled) {
        if !core::mem::replace(&mut entry.answering, true) {
            self.answering.push(qp);
        }
    }

    /// The caller clears the QP's `answering`.
    pub(crate) fn pop_answering(&mut self) -> Option<QpId> {
        self.answering.pop()
    }

    /// A QP has units for a wire that takes no more.
    pub(crate) fn hold_up(&mut self, qp: QpId, entry: &mut Scheduled) {
        if !core::mem::replace(&mut entry.held_up, true) {
            self.held_up.push(qp);
        }
    }

    /// All that wait for room. The caller clears the QPs' `held_up`.
    pub(crate) fn take_held_up(&mut self) -> Vec<QpId> {
        core::iter::from_fn(|| self.held_up.pop()).collect()
    }

    /// A QP has units, and its entry of the GID table is empty.
    pub(crate) fn await_gid(&mut self, qp: QpId, entry: &mut Scheduled) {
        if !core::mem::replace(&mut entry.unaddressed, true) {
            self.unaddressed.push(qp);
        }
    }

    /// One that waits for an address. The caller clears the QP's `unaddressed`.
    pub(crate) fn pop_unaddressed(&mut self) -> Option<QpId> {
        self.unaddressed.pop()
    }

    /// Makes sure that the QP is looked at by `deadline`.
    #[inline]
    pub(crate) fn wake_by(&mut self, qp: QpId, entry: &mut Scheduled, deadline: Time) {
        match entry.timer {
            Some(at) if at <= deadline => return,
            Some(at) => {
                self.timers.remove(&(at, qp));
            }
            None => {}
        }
        entry.timer = Some(deadline);
        let is_new = self.timers.insert((deadline, qp));
        debug_assert!(is_new, "a queue pair has one timer");
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Takes the oldest entry that is due; the caller clears the QP's `timer`.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<QpId> {
        self.next_deadline().filter(|at| *at <= now)?;
        self.timers.pop_first().map(|(_, qp)| qp)
    }

    /// Forgets a QP that is about to be destroyed.
    pub(crate) fn forget(&mut self, qp: QpId, entry: &Scheduled) {
        let lines = [
            (entry.ready, &mut self.ready),
            (entry.answering, &mut self.answering),
            (entry.held_up, &mut self.held_up),
            (entry.unaddressed, &mut self.unaddressed),
        ];
        for (_, line) in lines.into_iter().filter(|(waits, _)| *waits) {
            line.leave(qp);
        }
        if let Some(at) = entry.timer {
            let was_there = self.timers.remove(&(at, qp));
            debug_assert!(was_there, "its entry is where it says");
        }
    }
}

#[cfg(test)]
mod tests;
