//! Execution of a unit of an unreliable connection: in its turn, and never answered (IBTA 9.8.2).
//!
//! ```text
//!   first of a message ──► drop the message under way, if any ── execute
//!   not the first      ─┬─ in its turn ──────────────────────── execute
//!                       └─ otherwise: drop it and the message under way
//! ```
//!
//! A message with lost units is dropped whole, and its receive serves the next one. Data that a WRITE has stored before
//! stays stored.

use crate::memory::Memory;
use crate::responder::admit::Drop;
use crate::responder::refuse::Refusal;
use crate::responder::{Delivery, Message};
use crate::unit::RequestTail;
use crate::work::{Event, Status};

/// Number of messages without a right to the memory that they name, after which an unreliable connection ends. A peer
/// whose region went away sends a few before it learns of it; a peer that tries keys gets no further.
const RIGHTS_FAULTS_MAX: u32 = 32;

impl<R: Clone, M: Memory<Region = R>> Delivery<'_, R, M> {
    pub(super) fn take_unanswered(&mut self) {
        let under_way = self.qp.responder.message != Message::None;
        let in_turn = under_way && self.request.psn == self.qp.responder.expected;
        if self.request.first || !in_turn {
            self.abandon_message();
        }
        if !self.request.first && !in_turn {
            return self.drop_unit(Drop::OutOfSequence);
        }
        self.note_established();
        match self.check_unanswered().and_then(|()| self.execute()) {
            Ok(_) => self.advance(),
            Err(refusal) => self.give_up(refusal),
        }
    }

    /// Checks that a unit is of a SEND or WRITE, and carries no key to invalidate: no packet can.
    fn check_unanswered(&self) -> Result<(), Refusal> {
        let keyed = matches!(self.request.tail, Some(RequestTail::Invalidate(_)));
        (self.request.op.is_send_or_write() && !keyed)
            .then_some(())
            .ok_or(Refusal::Invalid)?;
        self.check_shape()
    }

    /// Drops a message that will not be complete; its receive is used again. A receive from a shared queue may have
    /// been overtaken there: it completes as aborted.
    fn abandon_message(&mut self) {
        let message = core::mem::take(&mut self.qp.responder.message);
        let Message::Send { receive, .. } = message else {
            return;
        };
        if self.qp.spec.srq.is_some() {
            self.qp
                .receive_failed(self.shared, &receive, Status::RemAbort);
        } else {
            self.return_receive(receive);
        }
    }

    /// Handles a refusal. An error of the peer drops its message, and after [`RIGHTS_FAULTS_MAX`] errors of rights the
    /// connection. An error of the owner ends the connection. So does a message longer than its receive, or the owner
    /// would wait for it in vain.
    fn give_up(&mut self, refusal: Refusal) {
        let reason = match refusal {
            Refusal::NotReady => Drop::NoReceive,
            Refusal::Access if self.guesses_too_often() => {
                self.shared.event(Event::QpAccessError(self.qp.id));
                self.drop_unit(Drop::NoAccess);
                self.abandon_message();
                return self.qp.enter_error(self.shared);
            }
            Refusal::Access => Drop::NoAccess,
            Refusal::SourceFault | Refusal::Late => Drop::SourceFault,
            Refusal::Invalid => Drop::Malformed,
            Refusal::TooLong => return self.end_unanswered(Status::LocLen),
            Refusal::Receive(status) => return self.end_unanswered(status),
            Refusal::OwnMemory => {
                self.shared.event(Event::QpFatal(self.qp.id));
                return self.qp.enter_error(self.shared);
            }
        };
        self.abandon_message();
        self.drop_unit(reason);
    }

    fn guesses_too_often(&mut self) -> bool {
        let faults = &mut self.qp.responder.rights_faults;
        *faults = faults.saturating_add(1);
        *faults >= RIGHTS_FAULTS_MAX
    }

    fn end_unanswered(&mut self, status: Status) {
        self.fail_receive(status);
        self.qp.enter_error(self.shared);
    }
}
