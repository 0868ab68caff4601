//! The unit of a cut: its headers, its payload, and what the requester remembers of it.

use vrdma_wire::Qkey;

use crate::path::Paths;
use crate::qp::Qp;
use crate::requester::Pending;
use crate::requester::cut::Cut;
use crate::requester::transmit::Turn;
use crate::shared::Shared;
use crate::time::Time;
use crate::unit::{InlinePart, Payload, Request, RequestOp, RequestTail, bytes_of};
use crate::work::{Remote, SendOp, SendWr, Status};

impl<R: Clone> Qp<R> {
    /// Sends a unit.
    #[inline]
    pub(super) fn unit<P: Paths>(
        &mut self,
        cut: Cut,
        shared: &mut Shared<R>,
        mut turn: Turn<'_, P>,
        payload: Payload<R>,
    ) -> Option<Request<R>> {
        let Pending { wr, length, .. } = &self.requester.queue[cut.index];
        let answered = wr.op.is_read_or_atomic();
        let datagram = self.datagram(wr);
        let op = match datagram {
            Some(datagram) => RequestOp::Datagram {
                qkey: self.effective_qkey(datagram.qkey),
            },
            None => request_op(wr, cut, *length),
        };
        let destination = datagram.map_or(self.attr.dest_qpn, |datagram| datagram.qpn);
        let address = datagram.map_or(&self.attr.address, |datagram| &datagram.address);
        let route = shared.route(address)?;
        let tail = if cut.last { tail(&wr.op) } else { None };
        let solicited = wr.solicited && cut.last && !answered;
        let ack_request = cut.ack && self.is_reliable();
        let deadline = self.requester.deadline;
        self.note_sent(cut, answered, shared, turn.now);
        // Only these change a time that the queue pair waits for.
        let moves_timer =
            answered || self.requester.deadline != deadline || self.requester.wire.is_some();
        self.unit_is_out(&mut turn, moves_timer);
        Some(Request {
            route,
            path: cut.path,
            service: self.spec.qp_type.service(),
            source: self.qpn,
            destination,
            psn: cut.psn,
            packets: cut.packets,
            first: cut.first || answered,
            last: cut.last || answered,
            op,
            tail,
            solicited,
            ack_request,
            payload,
        })
    }

    /// Ends the sending of a unit: due answers may go along with it, and the next unit may follow.
    #[inline]
    pub(super) fn unit_is_out<P: Paths>(&mut self, turn: &mut Turn<'_, P>, moves_timer: bool) {
        if self.responder.replies.go_along(turn.now) {
            turn.schedule.make_answering(self.id, &mut self.scheduled);
        }
        self.requester.assert_order();
        self.make_ready(turn.schedule);
        if moves_timer {
            self.reschedule_timer(turn.schedule);
        }
    }

    /// Puts the data of a unit into an empty payload.
    #[inline]
    pub(super) fn fill(
        &self,
        payload: &mut Payload<R>,
        shared: &Shared<R>,
        cut: Cut,
    ) -> Result<(), Status> {
        let wr = &self.requester.queue[cut.index].wr;
        if wr.op.is_read_or_atomic() {
            return Ok(());
        }
        if let Some(inline) = &wr.inline {
            let part = InlinePart::new(inline, cut.offset, cut.length);
            *payload = Payload::Inline(part);
        } else if let Payload::Memory(stretches) = payload {
            let (pd, sges) = (self.spec.pd, &wr.sges);
            let found = shared.gather(pd, sges, cut.offset, cut.length, stretches);
            debug_assert!(
                found.is_none() || bytes_of(stretches) == u64::from(cut.length),
                "all of a unit's payload is found, or none"
            );
            return found.ok_or(Status::LocProt);
        }
        Ok(())
    }

    /// Returns the Q_Key of a datagram: with bit 31 set it is the QP's own key (IBTA 3.5.3).
    fn effective_qkey(&self, qkey: Qkey) -> Qkey {
        if qkey.is_privileged() {
            self.attr.qkey
        } else {
            qkey
        }
    }

    /// Moves the cursor past a unit. Without answers, the unit is then done.
    #[inline]
    fn note_sent(&mut self, cut: Cut, answered: bool, shared: &mut Shared<R>, now: Time) {
        let end = cut.psn.plus(cut.packets);
        debug_assert!(cut.packets > 0, "each unit takes PSNs");
        let reliable = self.is_reliable();
        let requester = &mut self.requester;
        if cut.psn != requester.next {
            requester.awaiting.asked_again(cut.psn, requester.next);
            return;
        }
        let pending = &requester.queue[requester.cursor];
        debug_assert_eq!(cut.index, requester.cursor, "the unit is the cursor's");
        debug_assert!(
            end.since(pending.first) <= pending.packets,
            "the unit is in its message"
        );
        requester.next = end;
        requester.cursor += usize::from(end.since(pending.first) >= pending.packets);
        if answered {
            requester.awaiting.push(cut.psn, end);
        }
        requester.note_on_wire(end, cut.packets, cut.ack && reliable, now);
        if requester.sent.is_before(end) {
            requester.sent = end;
        }
        match reliable {
            true => self.start_timer(now),
            false => self.note_unanswered(cut, shared),
        }
    }

    // A call of its own, so that the code that few units need does not slow down all others.
    #[inline(never)]
    fn note_unanswered(&mut self, cut: Cut, shared: &mut Shared<R>) {
        self.requester.unacked = self.requester.next;
        if !self.is_connected() {
            self.count_datagram(shared, cut.index);
        }
        self.complete_finished(shared);
    }
}

#[inline]
fn request_op<R>(wr: &SendWr<R>, cut: Cut, length: u32) -> RequestOp {
    match wr.op {
        SendOp::Write(remote) | SendOp::WriteImm(remote, _) => RequestOp::Write {
            target: cut.first.then_some((remote, length)),
        },
        SendOp::Read(remote) => RequestOp::Read {
            remote: Remote {
                addr: remote.addr.wrapping_add(u64::from(cut.offset)),
                ..remote
            },
            length: cut.length,
        },
        SendOp::CompareSwap {
            remote,
            compare,
            swap,
        } => RequestOp::CompareSwap {
            remote,
            compare,
            swap,
        },
        SendOp::FetchAdd { remote, add } => RequestOp::FetchAdd { remote, add },
        _ => RequestOp::Send,
    }
}

fn tail<R>(op: &SendOp<R>) -> Option<RequestTail> {
    match op {
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => Some(RequestTail::Imm(*imm)),
        SendOp::SendInvalidate(key) => Some(RequestTail::Invalidate(*key)),
        _ => None,
    }
}
