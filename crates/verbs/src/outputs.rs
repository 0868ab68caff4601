//! Completions and events on their way out, in order.
//!
//! ```text
//!   next ──► [ qp 3 ][ qp 7 ][ cq 1 ][ qp 3 ]│[ qp 3 ] ◄── emit
//!                                            └─ recalled: what is said about qp 3 before here
//! ```
//!
//! An object that goes takes along what is said about it. Those entries stay where they are and are
//! skipped when their turn comes, so that recalling costs nothing for what is said about others, and
//! an object that gets the same number afterwards is heard.

use alloc::collections::{BTreeMap, VecDeque};

use crate::object::{CqId, QpId, SrqId};
use crate::work::{Event, Output};

/// What an output is about.
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

/// Bounded by the work that was posted and by one event for each change of a state.
#[derive(Default)]
pub(crate) struct Outputs {
    queue: VecDeque<Output>,
    /// Until which place of the queue a subject is skipped, counted from where the front was when there
    /// was no such subject. Bounded by the numbers of objects.
    recalled: BTreeMap<Subject, usize>,
    /// Entries that have left the front since then.
    passed: usize,
    /// The furthest of those places.
    end: usize,
}

impl Outputs {
    #[inline]
    pub(crate) fn push(&mut self, output: Output) {
        self.queue.push_back(output);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Output> {
        if self.recalled.is_empty() {
            return self.queue.pop_front();
        }
        self.pop_kept()
    }

    #[cold]
    fn pop_kept(&mut self) -> Option<Output> {
        while let Some(output) = self.queue.pop_front() {
            let skipped = self.is_recalled(self.passed, &output);
            self.passed += 1;
            debug_assert!(self.passed <= self.end, "nothing is recalled any more");
            if self.passed == self.end {
                self.recalled.clear();
            }
            if !skipped {
                return Some(output);
            }
            if self.recalled.is_empty() {
                return self.queue.pop_front();
            }
        }
        None
    }

    /// Whether an entry at a place is skipped.
    fn is_recalled(&self, place: usize, output: &Output) -> bool {
        let until = self.recalled.get(&output.subject());
        until.is_some_and(|until| place < *until)
    }

    /// Nothing that was said about an object so far comes out any more.
    pub(crate) fn recall(&mut self, subject: Subject) {
        if self.queue.is_empty() {
            return;
        }
        if self.recalled.is_empty() {
            self.passed = 0;
        }
        self.end = self.passed + self.queue.len();
        self.recalled.insert(subject, self.end);
    }

    /// Nothing will come out.
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
