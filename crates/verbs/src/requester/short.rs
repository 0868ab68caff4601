//! The most common message: one packet of a reliable connection to an adapter of this host.
//!
//! [`transmit`](super::transmit) goes step by step to the next unit of any message. All steps for such a short message
//! are known at once, so it is numbered, looked up and sent in one step. Any other message, and any error, takes the
//! steps.

use vrdma_wire::Service;

use crate::attr::QpState;
use crate::counters::Traffic;
use crate::object::QpType;
use crate::path::{Known, Pace, Path, Paths};
use crate::qp::Qp;
use crate::requester::cut::PSN_WINDOW;
use crate::requester::transmit::Turn;
use crate::requester::{Pending, Phase};
use crate::shared::Shared;
use crate::unit::{Payload, Request, RequestOp, RequestTail};
use crate::work::{SendOp, SendWr};

impl<R: Clone> Qp<R> {
    /// Sends the message at the cursor, if it is such a short message; otherwise nothing changes.
    #[inline]
    pub(super) fn short_message<P: Paths>(
        &mut self,
        shared: &mut Shared<R>,
        turn: &mut Turn<'_, P>,
    ) -> Option<Request<R>> {
        let posted = self.requester.queue.get(self.requester.cursor)?;
        let length = u32::try_from(posted.wr.local_bytes()).ok()?;
        let (op, tail) = operation(&posted.wr, length)?;
        let path = self.short_path(turn.paths)?;
        let longest = self.attr.path_mtu.bytes().min(shared.limits.message_bytes);
        let requester = &mut self.requester;
        let pending = requester.queue.get_mut(requester.cursor)?;
        let Pending { wr, phase, .. } = &*pending;
        let fenced = wr.fence && !requester.awaiting.is_empty();
        if *phase != Phase::Posted || fenced || wr.inline.is_some() || length > longest {
            return None;
        }
        let route = shared.route(&self.attr.address)?;
        let mut payload = Payload::default();
        if let Payload::Memory(stretches) = &mut payload {
            shared.gather(self.spec.pd, &wr.sges, 0, length, stretches)?;
        }
        let solicited = wr.solicited;
        count(&mut shared.counters.sent, op, length);
        let psn = requester.next;
        pending.start(length, psn, 1);
        requester.cursor += 1;
        requester.next = psn.plus(1);
        if requester.sent.is_before(requester.next) {
            requester.sent = requester.next;
        }
        let starts_timer = requester.deadline.is_none();
        self.start_timer(turn.now);
        self.unit_is_out(turn, starts_timer);
        Some(Request {
            route,
            path: Some(path),
            service: Service::Rc,
            source: self.qpn,
            destination: self.attr.dest_qpn,
            psn,
            packets: 1,
            first: true,
            last: true,
            op,
            tail,
            solicited,
            ack_request: true,
            payload,
        })
    }

    /// Returns the path if the peer is an adapter of this host, nothing is in the way, and nothing is to be sent first.
    #[inline]
    fn short_path(&self, paths: &mut impl Paths) -> Option<Path> {
        let requester = &self.requester;
        let goes_on = self.spec.qp_type == QpType::Rc
            && self.attr.state == QpState::Rts
            && !requester.is_waiting()
            && !requester.awaiting.has_lost()
            && requester.wire.is_none()
            && requester.next.since(requester.settled) < PSN_WINDOW
            && !paths.is_any_full();
        let path = Known::in_epoch(requester.known, paths.epoch())?;
        (goes_on && path.pace() == Pace::Local).then_some(path)
    }
}

/// Returns the operation and the tail of a SEND or WRITE of `length` bytes.
#[inline]
fn operation<R>(wr: &SendWr<R>, length: u32) -> Option<(RequestOp, Option<RequestTail>)> {
    match wr.op {
        SendOp::Send => Some((RequestOp::Send, None)),
        SendOp::SendImm(imm) => Some((RequestOp::Send, Some(RequestTail::Imm(imm)))),
        SendOp::Write(remote) => Some((RequestOp::write(remote, length), None)),
        SendOp::WriteImm(remote, imm) => {
            let tail = RequestTail::Imm(imm);
            Some((RequestOp::write(remote, length), Some(tail)))
        }
        _ => None,
    }
}

#[inline]
fn count(sent: &mut Traffic, op: RequestOp, length: u32) {
    let kind = match op {
        RequestOp::Send => &mut sent.sends,
        _ => &mut sent.writes,
    };
    *kind += 1;
    sent.bytes += u64::from(length);
}
