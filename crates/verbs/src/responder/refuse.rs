//! Refusal of a unit: the answer to the peer, the event for the owner, and whether the connection survives.
//!
//! | refusal       | NAK                  | receive  | event             | then |
//! |---------------|----------------------|----------|-------------------|------|
//! | not ready     | receiver not ready   | -        | -                 | waits|
//! | invalid       | invalid request      | flushed  | QpRequestError    | ERR  |
//! | access        | remote access        | flushed  | QpAccessError     | ERR  |
//! | own memory    | remote operational   | flushed  | QpFatal           | ERR  |
//! | too long      | invalid request      | LocLen   | -                 | ERR  |
//! | bad receive   | remote operational   | status   | -                 | ERR  |
//! | source fault  | (not a wire answer)  | kept     | -                 | waits|
//! | late          | receiver not ready   | kept     | -                 | waits|
//!
//! After IBTA 9.9.3 and 11.6.2. For late memory the answer is "receiver not ready" whatever the operation, so that the
//! peer sends again, as adapters with on-demand paging do.

use crate::memory::Memory;
use crate::responder::{Delivery, Message};
use crate::unit::{Nak, Response, ResponseBody};
use crate::work::{Event, Status};

/// Reason why a unit in its turn is not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// No receive posted.
    NotReady,
    /// Malformed, out of place, not allowed on this QP.
    Invalid,
    /// Key, bounds or right of the memory that the peer names.
    Access,
    /// The memory behind a good key is gone.
    OwnMemory,
    /// More bytes than the receive holds.
    TooLong,
    /// The receive itself is bad.
    Receive(Status),
    /// The sender's memory is gone.
    SourceFault,
    /// Memory of either side is not there yet.
    Late,
}

impl Refusal {
    fn nak(self, rnr_code: u8) -> Option<Nak> {
        match self {
            Self::NotReady => Some(Nak::ReceiverNotReady(rnr_code)),
            Self::Invalid | Self::TooLong => Some(Nak::InvalidRequest),
            Self::Access => Some(Nak::RemoteAccess),
            Self::OwnMemory | Self::Receive(_) => Some(Nak::RemoteOperational),
            Self::SourceFault => None,
            Self::Late => Some(Nak::LATE),
        }
    }

    /// Returns the status with which the receive in use completes, when it is not flushed.
    fn receive_status(self) -> Option<Status> {
        match self {
            Self::TooLong => Some(Status::LocLen),
            Self::Receive(status) => Some(status),
            _ => None,
        }
    }
}

impl<R: Clone, M: Memory<Region = R>> Delivery<'_, R, M> {
    pub(super) fn refuse(&mut self, refusal: Refusal) -> Option<Response<R>> {
        match refusal {
            Refusal::NotReady => {
                self.shared.counters.rnr_naks_sent += 1;
                self.qp.responder.told = true;
            }
            Refusal::Late => {
                self.shared.counters.rnr_naks_sent += 1;
                self.qp.responder.told = true;
                self.forget_first_unit();
            }
            Refusal::SourceFault => self.shared.counters.drops.source_fault += 1,
            _ => self.end_connection(refusal),
        }
        let code = self.qp.attr.min_rnr_timer;
        let body = refusal
            .nak(code)
            .map_or(ResponseBody::SourceFault, ResponseBody::Nak);
        Some(self.answer(self.request.psn, body))
    }

    /// Puts back the receive that the first unit of a SEND has taken: the unit will come again.
    fn forget_first_unit(&mut self) {
        if self.request.first
            && let Message::Send { receive, .. } = core::mem::take(&mut self.qp.responder.message)
        {
            self.return_receive(receive);
        }
    }

    fn end_connection(&mut self, refusal: Refusal) {
        self.shared.counters.naks_sent += 1;
        if let Some(status) = refusal.receive_status() {
            self.fail_receive(status);
        }
        let id = self.qp.id;
        match refusal {
            Refusal::Invalid => self.shared.event(Event::QpRequestError(id)),
            Refusal::Access => self.shared.event(Event::QpAccessError(id)),
            Refusal::OwnMemory => self.shared.event(Event::QpFatal(id)),
            _ => {}
        }
        self.qp.enter_error(self.shared);
    }

    pub(super) fn fail_receive(&mut self, status: Status) {
        if let Message::Send { receive, .. } = core::mem::take(&mut self.qp.responder.message) {
            self.qp.receive_failed(self.shared, &receive, status);
        }
    }
}
