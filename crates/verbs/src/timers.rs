//! The times at which queue pairs have to be looked at again.
//!
//! Each QP has at most one entry in each queue. A deadline that moves away leaves its entry where it is: moving it with
//! every acknowledgement would cost more than the rest of the acknowledgement. So an entry may be early; only the QP
//! knows what is due.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::object::QpId;
use crate::time::Time;

/// State of one QP in the schedule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scheduled {
    /// Whether it is in the ready queue.
    pub(crate) ready: bool,
    /// Whether it is in the queue of those that owe answers.
    pub(crate) answering: bool,
    /// Whether it waits for room on the wire.
    pub(crate) held_up: bool,
    /// Whether it has units and no source address for them.
    pub(crate) unaddressed: bool,
    /// Time of its entry among the timers.
    pub(crate) timer: Option<Time>,
}

/// Queue pairs that wait for their turn. A queue pair that goes leaves its entry behind, which is skipped when it comes
/// to the front, so that the other entries need not be searched. Entries of a successor with the same number come after
/// it.
#[derive(Default)]
struct Line {
    entries: VecDeque<QpId>,
    /// Number of entries left behind, for each number.
    left: BTreeMap<QpId, usize>,
    /// Sum of `left`: at most half of the entries after each departure, so that they do not pile up.
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

    /// Notes that a queue pair with an entry goes.
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

    /// Removes entries left behind. It looks at no more than twice as many entries as were left since the last time.
    fn compact(&mut self) {
        let mut entries = core::mem::take(&mut self.entries);
        entries.retain(|qp| !self.was_left(*qp));
        self.entries = entries;
        debug_assert_eq!(self.dead, 0, "entries that were left behind are somewhere");
    }

    /// Whether the foremost entry of a number was left behind; it is counted no longer after this.
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

/// The QPs that have units to send, and those that wait for a time.
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

    /// Whether a QP may be queued.
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

    /// Holds up a QP that has units for a full wire.
    pub(crate) fn hold_up(&mut self, qp: QpId, entry: &mut Scheduled) {
        if !core::mem::replace(&mut entry.held_up, true) {
            self.held_up.push(qp);
        }
    }

    /// Takes all QPs that wait for room. The caller clears their `held_up`.
    pub(crate) fn take_held_up(&mut self) -> Vec<QpId> {
        core::iter::from_fn(|| self.held_up.pop()).collect()
    }

    /// Lets a QP wait that has units while its entry of the GID table is empty.
    pub(crate) fn await_gid(&mut self, qp: QpId, entry: &mut Scheduled) {
        if !core::mem::replace(&mut entry.unaddressed, true) {
            self.unaddressed.push(qp);
        }
    }

    /// Takes a QP that waits for an address. The caller clears its `unaddressed`.
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
