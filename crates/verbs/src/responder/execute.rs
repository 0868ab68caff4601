//! Execution of a unit of a connection: in its turn, again, or too early (IBTA 9.7.1).

use vrdma_wire::Psn;

use crate::attr::QpState;
use crate::memory::Memory;
use crate::responder::refuse::Refusal;
use crate::responder::{Delivery, Message};
use crate::unit::{Nak, RequestOp, RequestTail, Response, ResponseBody};
use crate::work::Event;

impl<R: Clone, M: Memory<Region = R>> Delivery<'_, R, M> {
    pub(super) fn take_in(&mut self) -> Option<Response<R>> {
        let expected = self.qp.responder.expected;
        let psn = self.request.psn;
        if psn == expected {
            self.take_in_turn()
        } else if psn.is_before(expected) {
            self.repeat()
        } else {
            self.report_gap()
        }
    }

    #[inline]
    fn take_in_turn(&mut self) -> Option<Response<R>> {
        self.note_established();
        match self.check_shape().and_then(|()| self.execute()) {
            Ok(body) => self.accept(body),
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// Tells the owner at the first message that the peer is there (IBTA 11.6.3).
    pub(super) fn note_established(&mut self) {
        let seen = core::mem::replace(&mut self.qp.responder.established, true);
        if !seen && self.qp.state() == QpState::Rtr {
            self.shared.event(Event::CommEstablished(self.qp.id));
        }
    }

    // Inlined into its two callers, since its result is large.
    #[inline(always)]
    pub(super) fn execute(&mut self) -> Result<ResponseBody<R>, Refusal> {
        match self.request.op {
            RequestOp::Send => self.send().map(|()| ResponseBody::Ack),
            RequestOp::Write { target } => self.write(target).map(|()| ResponseBody::Ack),
            RequestOp::Read { remote, length } => self.read(remote, length),
            RequestOp::CompareSwap {
                remote,
                compare,
                swap,
            } => self.atomic(remote, &|old| if old == compare { swap } else { old }),
            RequestOp::FetchAdd { remote, add } => {
                self.atomic(remote, &|old| old.wrapping_add(add))
            }
            RequestOp::Datagram { .. } => Err(Refusal::Invalid),
        }
    }

    /// Moves on to the next unit, after one was executed.
    pub(super) fn advance(&mut self) {
        let responder = &self.qp.responder;
        debug_assert!(
            !self.qp.is_reliable() || self.goes_beyond(),
            "where nothing is lost each unit has its turn"
        );
        debug_assert!(
            !self.request.last || responder.message == Message::None,
            "the message is over with its last unit"
        );
        let responder = &mut self.qp.responder;
        responder.expected = self.request.psn.plus(self.request.packets);
        responder.told = false;
        if self.request.last {
            responder.msn = responder.msn.wrapping_add(1) & 0xff_ffff;
            debug_assert!(responder.msn < 1 << 24, "24 bits on the wire");
            self.count();
        }
    }

    /// Accepts an executed unit. A peer that did not ask for an acknowledgement gets it with a later one (IBTA 9.7.5).
    fn accept(&mut self, body: ResponseBody<R>) -> Option<Response<R>> {
        self.advance();
        if matches!(body, ResponseBody::Ack) && !self.request.ack_request {
            return None;
        }
        let responder = &mut self.qp.responder;
        let psn = match body {
            ResponseBody::Read(_) => self.request.psn,
            _ => responder.expected.plus(u32::MAX),
        };
        if !matches!(body, ResponseBody::Ack) {
            responder.newest_data = Some(self.request.psn);
        }
        if matches!(body, ResponseBody::Ack) && self.is_said_by_unheard(psn) {
            return None;
        }
        Some(self.answer(psn, body))
    }

    /// Merges an acknowledgement into the unsent one before it, if possible.
    #[inline]
    fn is_said_by_unheard(&mut self, psn: Psn) -> bool {
        let (source, destination) = (self.qp.qpn, self.request.source);
        let unheard = self.unheard.as_mut().filter(|unheard| {
            unheard.is_ack() && (unheard.source, unheard.destination) == (source, destination)
        });
        let Some(unheard) = unheard else {
            return false;
        };
        debug_assert!(
            unheard.psn.is_before(psn),
            "the unheard one came before this one"
        );
        (unheard.psn, unheard.msn) = (psn, self.qp.responder.msn);
        true
    }

    /// Checks that first and last, lengths and PSNs fit the message under way (IBTA 9.7.4).
    #[inline]
    pub(super) fn check_shape(&self) -> Result<(), Refusal> {
        let request = self.request;
        let continues = match (&self.qp.responder.message, &request.op) {
            (Message::None, _) => request.first,
            (Message::Send { .. }, RequestOp::Send) => !request.first,
            (Message::Write { .. }, RequestOp::Write { target }) => {
                !request.first && target.is_none()
            }
            _ => false,
        };
        let ended = request.last || request.tail.is_none();
        (continues && ended && self.length_is_valid() && self.tail_is_valid())
            .then_some(())
            .ok_or(Refusal::Invalid)
    }

    /// Whether the PSNs taken fit this end's path MTU. Only the last unit of a message may end inside a packet.
    fn length_is_valid(&self) -> bool {
        let request = self.request;
        let mtu = self.qp.attr.path_mtu;
        let Ok(bytes) = u32::try_from(self.bytes) else {
            return false;
        };
        let whole = bytes > 0 && bytes % mtu.bytes() == 0;
        match request.op {
            RequestOp::Send | RequestOp::Write { .. } => {
                (request.last || whole) && request.packets == mtu.packets(bytes)
            }
            RequestOp::Read { length, .. } => {
                request.last && bytes == 0 && request.packets == mtu.packets(length)
            }
            _ => request.last && bytes == 0 && request.packets == 1,
        }
    }

    fn tail_is_valid(&self) -> bool {
        match self.request.tail {
            None => true,
            Some(RequestTail::Imm(_)) => self.request.op.is_send_or_write(),
            Some(RequestTail::Invalidate(_)) => matches!(self.request.op, RequestOp::Send),
        }
    }

    /// Handles a request seen before: its effects stand, but its answer may have been lost (IBTA 9.7.5). READs are done
    /// again, atomics are answered with the remembered word.
    fn repeat(&mut self) -> Option<Response<R>> {
        if self.goes_beyond() {
            return self.take_in_longer();
        }
        self.shared.counters.duplicates += 1;
        // The peer has gone back, so another gap has to be reported.
        self.qp.responder.told = false;
        let psn = self.request.psn;
        match self.request.op {
            RequestOp::Read { remote, length } => {
                let body = self
                    .check_repeated_read(length)
                    .and_then(|()| self.read(remote, length));
                body.ok().map(|body| self.answer(psn, body))
            }
            RequestOp::CompareSwap { .. } | RequestOp::FetchAdd { .. } => {
                let old = self.replayed(psn)?;
                Some(self.answer(psn, ResponseBody::Atomic(old)))
            }
            _ if !self.request.ack_request => None,
            _ => {
                let last = self.last_psn_repeated();
                Some(self.answer(last, ResponseBody::Ack))
            }
        }
    }

    /// Whether the unit begins at the expected PSN or before it, and ends after it.
    fn goes_beyond(&self) -> bool {
        let behind = self.qp.responder.expected.since(self.request.psn);
        self.request.packets > behind
    }

    /// Handles a unit whose begin was done as a shorter unit, before the connection changed from a wire to memory copy
    /// or back: the lengths of units differ between them. A READ is done as a whole; for other operations, the peer
    /// sends what is missing.
    fn take_in_longer(&mut self) -> Option<Response<R>> {
        self.qp.responder.told = false;
        match self.request.op {
            RequestOp::Read { .. } => self.take_in_turn(),
            _ => self.report_gap(),
        }
    }

    /// Returns the PSN that acknowledges a repeated unit. The newest PSN covers everything that the peer may be about
    /// to repeat. Where READs or atomics have been answered since, only the repeated unit is acknowledged: a peer that
    /// has gone back would take more as the loss of data that it has just asked for again (IBTA 9.7.3).
    fn last_psn_repeated(&self) -> Psn {
        let responder = &self.qp.responder;
        let end = self.request.psn.plus(self.request.packets);
        let data_since = responder
            .newest_data
            .is_some_and(|psn| !psn.is_before(self.request.psn));
        let end = if data_since && !responder.expected.is_before(end) {
            end
        } else {
            responder.expected
        };
        end.plus(u32::MAX)
    }

    /// Checks that a repeated READ takes the PSNs of its answer, all of them old ones.
    fn check_repeated_read(&self, length: u32) -> Result<(), Refusal> {
        let behind = self.qp.responder.expected.since(self.request.psn);
        let packets = self.qp.attr.path_mtu.packets(length);
        (packets == self.request.packets && packets <= behind)
            .then_some(())
            .ok_or(Refusal::Invalid)
    }

    /// Reports a gap once. The peer goes back, and until then everything is too early (IBTA 9.7.5.2).
    fn report_gap(&mut self) -> Option<Response<R>> {
        if core::mem::replace(&mut self.qp.responder.told, true) {
            self.shared.counters.drops.out_of_sequence += 1;
            return None;
        }
        self.shared.counters.sequence_naks_sent += 1;
        let expected = self.qp.responder.expected;
        Some(self.answer(expected, ResponseBody::Nak(Nak::Sequence)))
    }

    pub(super) fn answer(&self, psn: Psn, body: ResponseBody<R>) -> Response<R> {
        let address = &self.qp.attr.address;
        let mut route = self.request.route;
        core::mem::swap(&mut route.sgid, &mut route.dgid);
        route.traffic_class = address.traffic_class;
        route.flow_label = address.flow_label;
        route.hop_limit = address.hop_limit;
        route.dmac = address.dmac();
        Response {
            route,
            source: self.qp.qpn,
            destination: self.request.source,
            psn,
            msn: self.qp.responder.msn,
            body,
        }
    }

    fn count(&mut self) {
        let received = &mut self.shared.counters.received;
        *match self.request.op {
            RequestOp::Send => &mut received.sends,
            RequestOp::Write { .. } => &mut received.writes,
            RequestOp::Read { .. } => &mut received.reads,
            RequestOp::CompareSwap { .. } | RequestOp::FetchAdd { .. } => &mut received.atomics,
            RequestOp::Datagram { .. } => &mut received.datagrams,
        } += 1;
    }
}

impl RequestOp {
    pub(super) fn is_send_or_write(&self) -> bool {
        matches!(self, Self::Send | Self::Write { .. })
    }
}
