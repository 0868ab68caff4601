//! Completions and events on their way out, in order.
//!
//! ```text
//!   next ──► [ qp 3 ][ qp 7 ][ cq 1 ][ qp 3 ]│[ qp 3 ] ◄── emit
//!                                            └─ recalled: what is said about qp 3 before here
//! ```
//!
//! When an object goes, the entries about it are recalled. They stay where they are and are skipped when their turn
//! comes, so that recalling does not look at other entries, and later entries about a new object with the same number
//! come out. While an owner leaves, all entries about its objects are skipped.

use alloc::collections::{BTreeMap, VecDeque};

use crate::object::{CqId, QpId, SrqId};
use crate::work::{Completion, Event, Output};

/// Object that an output is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Subject {
    Qp(QpId),
    Cq(CqId),
    Srq(SrqId),
}

impl Output {
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Self::SendDone { qp, .. } => Subject::Qp(*qp),
            Self::RecvDone { completion, .. } => Subject::Qp(completion.qp),
            Self::Event(event) => match event {
                Event::QpFatal(qp)
                | Event::QpRequestError(qp)
                | Event::QpAccessError(qp)
                | Event::CommEstablished(qp)
                | Event::SqDrained(qp)
                | Event::LastWqeReached(qp) => Subject::Qp(*qp),
                Event::CqError(cq) => Subject::Cq(*cq),
                Event::SrqError(srq) | Event::SrqLimitReached(srq) => Subject::Srq(*srq),
            },
        }
    }
}

/// The queue of outputs. It is bounded by the posted work and by one event for each change of a state.
#[derive(Default)]
pub(crate) struct Outputs {
    queue: VecDeque<Output>,
    /// For each recalled object, the place in the queue up to which its entries are skipped, counted from the front at
    /// the time when no object was recalled. Bounded by the numbers of objects.
    recalled: BTreeMap<Subject, usize>,
    /// Entries that have left the front since then.
    passed: usize,
    /// The furthest of the places in `recalled`.
    end: usize,
    /// Whether owners are leaving.
    muted: bool,
    /// Whether some entry may have to be skipped.
    selective: bool,
}

impl Outputs {
    #[inline]
    pub(crate) fn push(&mut self, output: Output) {
        self.queue.push_back(output);
    }

    /// Adds the end of a queue pair's oldest send request. Successive successes without completions are merged with the
    /// entry behind them, unless some entries have to be skipped: those are told apart by their places.
    #[inline]
    pub(crate) fn push_send(&mut self, qp: QpId, cq: CqId, completion: Option<Completion>) {
        if let Some(Output::SendDone {
            qp: last,
            count,
            completion: none @ None,
            ..
        }) = self.queue.back_mut()
            && *last == qp
            && !self.selective
        {
            *count += 1;
            *none = completion;
            return;
        }
        self.push(Output::SendDone {
            qp,
            count: 1,
            cq,
            completion,
        });
    }

    /// Whether there are entries, to be skipped or not.
    #[inline]
    pub(crate) fn has_entries(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether an entry may have to be skipped, so that [`Outputs::pop_kept`] has to be used.
    #[inline]
    pub(crate) fn is_selective(&self) -> bool {
        self.selective
    }

    /// Takes the next entry, while none may have to be skipped.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Output> {
        debug_assert!(!self.selective, "entries have to be skipped");
        self.queue.pop_front()
    }

    /// Takes the next entry that is not skipped.
    pub(crate) fn pop_kept(&mut self, is_muted: impl Fn(Subject) -> bool) -> Option<Output> {
        while let Some(output) = self.queue.pop_front() {
            let recalled = self.is_recalled(self.passed, &output);
            self.pass();
            let skipped = recalled || self.muted && is_muted(output.subject());
            if !skipped {
                return Some(output);
            }
        }
        None
    }

    /// Counts an entry that has left the front.
    fn pass(&mut self) {
        self.passed += 1;
        if self.passed >= self.end {
            self.recalled.clear();
            self.selective = self.muted;
        }
    }

    /// Sets whether owners are leaving, so that each entry has to be checked.
    pub(crate) fn mute(&mut self, muted: bool) {
        self.muted = muted;
        self.selective = muted || !self.recalled.is_empty();
    }

    /// Whether the entry at a place is skipped.
    fn is_recalled(&self, place: usize, output: &Output) -> bool {
        let until = self.recalled.get(&output.subject());
        until.is_some_and(|until| place < *until)
    }

    /// Recalls all entries about an object so far.
    pub(crate) fn recall(&mut self, subject: Subject) {
        if self.queue.is_empty() {
            return;
        }
        if self.recalled.is_empty() {
            self.passed = 0;
        }
        self.end = self.passed + self.queue.len();
        debug_assert!(self.end > self.passed, "entries are to be skipped");
        self.recalled.insert(subject, self.end);
        self.selective = true;
    }

    /// Whether nothing will come out, while no owner is leaving.
    pub(crate) fn is_empty(&self) -> bool {
        let mut entries = (self.passed..).zip(&self.queue);
        match self.recalled.is_empty() {
            true => self.queue.is_empty(),
            false => entries.all(|(place, output)| self.is_recalled(place, output)),
        }
    }
}

#[cfg(test)]
mod tests;
