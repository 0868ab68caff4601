//! The requester: send work requests become units, responses become completions.
//!
//! ```text
//!   queue    oldest ──────────────────────────────────────► newest
//!            [ answered in part ][ sent ][ cursor ][ sent before ][ posted ]
//!   PSNs        ▲        ▲                 ▲                     ▲
//!            settled  unacked             next                  sent
//! ```
//!
//! Requests complete strictly in order, up to `settled`. The peer has executed everything before `unacked`, but data of
//! READs and atomics may be missing: [`Awaiting`] has those. Going back sets `next` to `unacked` and the cursor to the
//! request there; a unit's place in its message follows from its PSN. Answers are accepted for PSNs in `settled..sent`;
//! an answer to a unit that is about to be sent again makes that unnecessary.

mod answer;
mod awaited;
mod complete;
mod credit;
mod cut;
mod emit;
mod on_wire;
mod order;
mod post;
mod rate;
mod retry;
mod short;
mod start;
mod starving;
mod transmit;
mod wire;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use vrdma_wire::Psn;

pub(crate) use awaited::Awaiting;
pub use post::SEND_WINDOW;
pub(crate) use starving::Peer;
pub(crate) use wire::Wire;

use crate::attr::QpState;
use crate::path::Known;
use crate::qp::Qp;
use crate::shared::Shared;
use crate::time::Time;
use crate::timers::Schedule;
use crate::work::{Event, SendWr, Status};

/// Progress of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Not looked at yet.
    Posted,
    /// Checked and numbered; units of it may have gone out.
    Started,
    /// Finished, but older requests are not.
    Done,
    /// Failed on this side; older requests complete first.
    Failed(Status),
}

/// A send work request and its place among the PSNs.
pub(crate) struct Pending<R> {
    pub(crate) wr: SendWr<R>,
    pub(crate) phase: Phase,
    /// Bytes of the message, once started.
    pub(crate) length: u32,
    /// First PSN, once started.
    pub(crate) first: Psn,
    /// PSNs taken, once started.
    pub(crate) packets: u32,
}

impl<R> Pending<R> {
    /// Starts a message that was checked, with its PSNs.
    #[inline]
    fn start(&mut self, length: u32, first: Psn, packets: u32) {
        debug_assert_eq!(self.phase, Phase::Posted, "a message starts once");
        self.phase = Phase::Started;
        self.length = length;
        self.first = first;
        self.packets = packets;
    }
}

/// Whether somebody waits for the send queue to drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Drain {
    /// Nobody waits.
    #[default]
    Quiet,
    /// An event is due.
    Notify,
}

pub(crate) struct Requester<R> {
    pub(crate) queue: VecDeque<Pending<R>>,
    /// Index in the queue of the request whose unit is next.
    pub(crate) cursor: usize,
    /// PSN of the next unit.
    pub(crate) next: Psn,
    /// First PSN that the peer is not known to have executed.
    pub(crate) unacked: Psn,
    /// One after the newest PSN that was ever sent, as far as this process knows.
    pub(crate) sent: Psn,
    /// Whether it goes on for another process or host, which may have sent more.
    pub(crate) resumed: bool,
    /// First PSN whose request was not finished at the last look.
    pub(crate) settled: Psn,
    /// READs and atomics from the oldest one that lacks data; bounded by `max_rd_atomic`.
    pub(crate) awaiting: Awaiting,
    /// Whether the peer stands still, so that nothing is sent and no time-out ends.
    pub(crate) paused: bool,
    /// Number of times gone back since the last progress.
    pub(crate) retries: u8,
    /// Whether it went back because of an answer and has made no progress since.
    pub(crate) gone_back: bool,
    /// Refusals of unready receivers since the last progress.
    pub(crate) rnr_retries: u8,
    /// Time until which nothing is sent.
    pub(crate) rnr_until: Option<Time>,
    /// Time at which the oldest unanswered unit counts as lost.
    pub(crate) deadline: Option<Time>,
    pub(crate) drain: Drain,
    /// Number of requests that are finished though older ones are not.
    pub(crate) done_early: u32,
    /// After a restart: which of the requests that are posted next were finished before, a bit each.
    pub(crate) done_before: u64,
    /// Place of the peer.
    pub(crate) known: Option<Known>,
    /// State of the wire, once the peer has been behind one.
    pub(crate) wire: Option<Box<Wire>>,
}

impl<R> Default for Requester<R> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            cursor: 0,
            next: Psn::default(),
            unacked: Psn::default(),
            sent: Psn::default(),
            resumed: false,
            settled: Psn::default(),
            awaiting: Awaiting::default(),
            paused: false,
            retries: 0,
            gone_back: false,
            rnr_retries: 0,
            rnr_until: None,
            deadline: None,
            drain: Drain::Quiet,
            done_early: 0,
            done_before: 0,
            known: None,
            wire: None,
        }
    }
}

impl<R> Requester<R> {
    /// Starts in RTS: the first PSN is known.
    pub(crate) fn start(&mut self, psn: Psn) {
        self.next = psn;
        self.unacked = psn;
        self.sent = psn;
        self.settled = psn;
        self.resumed = false;
    }

    /// Sets in SQD whether an event is wanted.
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

    /// Puts everything to rest: nothing is outstanding any more.
    pub(crate) fn rest(&mut self) {
        self.cursor = 0;
        self.next = self.sent;
        self.unacked = self.sent;
        self.settled = self.sent;
        self.awaiting.clear();
        self.wire = None;
        debug_assert!(self.queue.is_empty(), "requests are given back first");
        (self.done_early, self.done_before) = (0, 0);
        self.forget_troubles();
    }

    /// Whether every unit that was sent since going back has been answered.
    #[inline]
    pub(crate) fn is_answered(&self) -> bool {
        self.unacked == self.next && self.awaiting.is_empty()
    }

    /// Returns the time at which something is due by itself.
    #[inline]
    fn wake_at(&self) -> Option<Time> {
        if self.paused {
            return None;
        }
        let due = match self.rnr_until {
            None => Time::first(self.deadline, self.probe_at()),
            waits => waits,
        };
        Time::first(due, self.held_until())
    }

    /// Whether no message is under way; posted requests may wait.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_answered() && !self.queue.iter().any(|p| p.phase == Phase::Started)
    }

    /// Whether it waits for its peer to go on, or to be ready.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.paused || self.rnr_until.is_some()
    }

    fn wants_to_send(&self) -> bool {
        !self.is_waiting() && (self.cursor < self.queue.len() || self.awaiting.has_lost())
    }

    /// Forgets all failures so far, which do not count any more.
    pub(crate) fn forget_troubles(&mut self) {
        self.retries = 0;
        self.gone_back = false;
        self.rnr_retries = 0;
        self.rnr_until = None;
        self.deadline = None;
        if let Some(wire) = &mut self.wire {
            wire.forget_silence();
        }
    }

    /// Gives back memory that a burst left behind.
    pub(crate) fn trim(&mut self) {
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
            self.awaiting.clear();
        }
    }
}

impl<R> Qp<R> {
    #[inline]
    pub(crate) fn sends(&self) -> bool {
        matches!(self.attr.state, QpState::Rts | QpState::Sqd)
    }

    /// Whether SQD waits for the end of messages that have begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.attr.state == QpState::Sqd && !self.requester.is_drained()
    }

    /// Raises the event that SQD promised, once nothing is under way (IBTA 11.6.3).
    pub(crate) fn note_drained(&mut self, shared: &mut Shared<R>) {
        let due = self.attr.state == QpState::Sqd && self.requester.drain == Drain::Notify;
        if due && self.requester.is_drained() {
            self.requester.drain = Drain::Quiet;
            shared.event(Event::SqDrained(self.id));
        }
    }

    /// Puts the QP where the caller finds it again: into the ready queue, or among the timers.
    #[inline]
    pub(crate) fn reschedule(&mut self, schedule: &mut Schedule) {
        self.requester.assert_order();
        self.make_ready(schedule);
        self.reschedule_timer(schedule);
    }

    /// Does the first half of [`reschedule`](Self::reschedule), where no time has changed that it waits for.
    #[inline]
    pub(crate) fn make_ready(&mut self, schedule: &mut Schedule) {
        if !self.scheduled.ready && self.sends() && self.requester.wants_to_send() {
            schedule.make_ready(self.id, &mut self.scheduled);
        }
    }

    #[inline(never)]
    pub(crate) fn reschedule_timer(&mut self, schedule: &mut Schedule) {
        let answer = self.responder.replies.wait_until();
        if let Some(deadline) = Time::first(self.requester.wake_at(), answer) {
            schedule.wake_by(self.id, &mut self.scheduled, deadline);
        }
    }
}
