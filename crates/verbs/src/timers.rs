//! When to look at which queue pair again.
//!
//! Each QP has at most one entry in each queue. A deadline that moves away leaves its entry where it is: moving it
//! with every acknowledgement would cost more than the rest of the acknowledgement. So an entry may
//! be early; what is due is asked of the QP.

use alloc::collections::{BTreeSet, VecDeque};
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
    /// Its entry among the timers.
    pub(crate) timer: Option<Time>,
}

/// Which QPs have units to send, and which wait for a moment.
#[derive(Default)]
pub(crate) struct Schedule {
    ready: VecDeque<QpId>,
    answering: VecDeque<QpId>,
    held_up: Vec<QpId>,
    timers: BTreeSet<(Time, QpId)>,
}

impl Schedule {
    /// Queues a QP unless it is queued already.
    #[inline]
    pub(crate) fn make_ready(&mut self, qp: QpId, entry: &mut Scheduled) {
        if !core::mem::replace(&mut entry.ready, true) {
            self.ready.push_back(qp);
        }
    }

    pub(crate) fn pop_ready(&mut self) -> Option<QpId> {
        self.ready.pop_front()
    }

    /// Queues a QP that owes answers unless it is queued already.
    pub(crate) fn make_answering(&mut self, qp: QpId, entry: &mut Scheduled) {
        if !core::mem::replace(&mut entry.answering, true) {
            self.answering.push_back(qp);
        }
    }

    /// The caller clears the QP's `answering`.
    pub(crate) fn pop_answering(&mut self) -> Option<QpId> {
        self.answering.pop_front()
    }

    /// A QP has units for a wire that takes no more.
    pub(crate) fn hold_up(&mut self, qp: QpId, entry: &mut Scheduled) {
        if !core::mem::replace(&mut entry.held_up, true) {
            self.held_up.push(qp);
        }
    }

    /// All that wait for room. The caller clears the QPs' `held_up`.
    pub(crate) fn take_held_up(&mut self) -> Vec<QpId> {
        core::mem::take(&mut self.held_up)
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
        self.timers.insert((deadline, qp));
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
        if entry.ready {
            self.ready.retain(|queued| *queued != qp);
        }
        if entry.answering {
            self.answering.retain(|queued| *queued != qp);
        }
        if entry.held_up {
            self.held_up.retain(|queued| *queued != qp);
        }
        if let Some(at) = entry.timer {
            self.timers.remove(&(at, qp));
        }
    }
}
