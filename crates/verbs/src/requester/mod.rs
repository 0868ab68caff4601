//! The requester: send work requests become units, responses become completions.
//!
//! ```text
//!   queue    oldest ──────────────────────────────► newest
//!            [ answered in part ][ sent ][ cursor ][ posted ]
//!   PSNs            ▲                     ▲
//!                unacked                 next
//! ```
//!
//! Requests complete strictly in order. Going back sets `next` to `unacked` and the cursor to the
//! oldest request; a unit's place in its message follows from its PSN. Answers are believed for
//! PSNs in `unacked..next` only, so an answer to a unit that is about to be sent again is ignored,
//! and the responder answers the copy.

mod answer;
mod complete;
mod post;
mod retry;
mod start;
mod transmit;
mod wire;

use alloc::collections::VecDeque;

use vrdma_wire::Psn;

pub use post::SEND_WINDOW;

use crate::attr::QpState;
use crate::path::Known;
use crate::qp::Qp;
use crate::shared::Shared;
use crate::time::Time;
use crate::timers::Schedule;
use crate::work::{Event, SendWr, Status};

/// How far a request has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Not looked at.
    Posted,
    /// Checked and numbered; units of it may have gone out.
    Started,
    /// Finished, but older ones are not.
    Done,
    /// Failed on our side; older ones come first.
    Failed(Status),
}

/// A send work request and its place among the PSNs.
pub(crate) struct Pending<R> {
    pub(crate) wr: SendWr<R>,
    pub(crate) phase: Phase,
    /// Bytes of the message; once started.
    pub(crate) length: u32,
    /// First PSN; once started.
    pub(crate) first: Psn,
    /// PSNs taken; once started.
    pub(crate) packets: u32,
}

/// PSNs of a READ or atomic request that waits for its response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Awaited {
    /// Next PSN to come.
    pub(crate) begin: Psn,
    /// One after the last.
    pub(crate) end: Psn,
}

/// Whether somebody waits for the send queue to drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Drain {
    /// Nobody.
    #[default]
    Quiet,
    /// An event is due.
    Notify,
}

pub(crate) struct Requester<R> {
    pub(crate) queue: VecDeque<Pending<R>>,
    /// The request whose unit is next, by index into the queue.
    pub(crate) cursor: usize,
    /// PSN of the next unit.
    pub(crate) next: Psn,
    /// First PSN without an answer.
    pub(crate) unacked: Psn,
    /// Bounded by `max_rd_atomic`.
    pub(crate) awaited: VecDeque<Awaited>,
    /// Times gone back since the last progress.
    pub(crate) retries: u8,
    /// Went back because of an answer, and nothing has come of it yet.
    pub(crate) gone_back: bool,
    /// Unready receivers met since the last progress.
    pub(crate) rnr_retries: u8,
    /// Nothing is sent until then.
    pub(crate) rnr_until: Option<Time>,
    /// When the oldest unanswered unit counts as lost.
    pub(crate) deadline: Option<Time>,
    pub(crate) drain: Drain,
    /// Where the peer is.
    pub(crate) known: Option<Known>,
}

impl<R> Default for Requester<R> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            cursor: 0,
            next: Psn::default(),
            unacked: Psn::default(),
            awaited: VecDeque::new(),
            retries: 0,
            gone_back: false,
            rnr_retries: 0,
            rnr_until: None,
            deadline: None,
            drain: Drain::Quiet,
            known: None,
        }
    }
}

impl<R> Requester<R> {
    /// RTS: the first PSN is known.
    pub(crate) fn start(&mut self, psn: Psn) {
        self.next = psn;
        self.unacked = psn;
    }

    /// SQD: an event is wanted, or not.
    pub(crate) fn ask_drained(&mut self, event: bool) {
        self.drain = if event { Drain::Notify } else { Drain::Quiet };
    }

    pub(crate) fn next_psn(&self) -> Psn {
        self.next
    }

    pub(crate) fn take_oldest(&mut self) -> Option<SendWr<R>> {
        self.cursor = self.cursor.saturating_sub(1);
        self.queue.pop_front().map(|pending| pending.wr)
    }

    /// Nothing is outstanding any more.
    pub(crate) fn rest(&mut self) {
        self.cursor = 0;
        self.unacked = self.next;
        self.awaited.clear();
        self.retries = 0;
        self.gone_back = false;
        self.rnr_retries = 0;
        self.rnr_until = None;
        self.deadline = None;
    }

    /// Every unit sent has been answered.
    #[inline]
    pub(crate) fn is_answered(&self) -> bool {
        self.unacked == self.next
    }

    /// No message is under way; posted ones may wait.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_answered() && !self.queue.iter().any(|p| p.phase == Phase::Started)
    }

    fn wants_to_send(&self) -> bool {
        self.rnr_until.is_none() && self.cursor < self.queue.len()
    }

    /// Gives back memory that a burst left behind.
    pub(crate) fn trim(&mut self) {
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
            self.awaited = VecDeque::new();
        }
    }
}

impl<R> Qp<R> {
    #[inline]
    pub(crate) fn sends(&self) -> bool {
        matches!(self.attr.state, QpState::Rts | QpState::Sqd)
    }

    /// SQD lets what has begun end first.
    pub(crate) fn is_draining(&self) -> bool {
        self.attr.state == QpState::Sqd && !self.requester.is_drained()
    }

    /// Raises the event that SQD promised, once nothing is under way (IBTA 11.6.3.1).
    pub(crate) fn note_drained(&mut self, shared: &mut Shared<R>) {
        let due = self.attr.state == QpState::Sqd && self.requester.drain == Drain::Notify;
        if due && self.requester.is_drained() {
            self.requester.drain = Drain::Quiet;
            shared.event(Event::SqDrained(self.id));
        }
    }

    /// Puts the QP where the caller finds it again: ready to send, or waiting for a moment.
    #[inline]
    pub(crate) fn reschedule(&mut self, schedule: &mut Schedule) {
        if self.sends() && self.requester.wants_to_send() {
            schedule.make_ready(self.id, &mut self.scheduled);
        }
        self.reschedule_timer(schedule);
    }

    #[inline]
    pub(crate) fn reschedule_timer(&mut self, schedule: &mut Schedule) {
        let requester = &self.requester;
        if let Some(deadline) = requester.rnr_until.or(requester.deadline) {
            schedule.wake_by(self.id, &mut self.scheduled, deadline);
        }
    }
}
