//! Congestion as packets report it: marks become notifications, and notifications slow a queue pair down (annex A17.9).

use vrdma_wire::Qpn;

use crate::hca::Hca;
use crate::packet::Reply;
use crate::qp::Qp;
use crate::shared::Shared;
use crate::time::Time;

impl<R: Clone> Hca<R> {
    /// Takes in a notification of a peer's adapter: packets of a local queue pair meet congestion.
    pub(super) fn take_notification(&mut self, qpn: Qpn, now: Time) {
        self.shared.counters.congestion_received += 1;
        let qp = self.qps.named_mut(qpn);
        if let Some(qp) = qp.filter(|qp| qp.is_connected() && qp.receives()) {
            qp.slow_down(now);
        }
    }

    /// Owes the peer of a queue pair a notification that its packets met congestion.
    pub(super) fn owe_mark(&mut self, qpn: Qpn, now: Time) {
        let qp = self.qps.named_mut(qpn);
        let Some(qp) = qp.filter(|qp| qp.is_connected() && qp.receives()) else {
            return;
        };
        if qp.responder.replies.note_mark(now) {
            self.schedule.make_answering(qp.id, &mut qp.scheduled);
        }
    }
}

impl<R: Clone> Qp<R> {
    pub(super) fn next_reply(
        &mut self,
        shared: &mut Shared<R>,
        train_bytes: u32,
        now: Time,
    ) -> Option<Reply<R>> {
        if core::mem::take(&mut self.responder.replies.congestion) {
            shared.counters.congestion_sent += 1;
            return Some(Reply::Congestion {
                route: shared.route(&self.attr.address)?,
                source: self.qpn,
                destination: self.attr.dest_qpn,
            });
        }
        if self.responder.replies.begins_with_data() && !self.pays_for_data(now) {
            return None;
        }
        let most = self.answer_packets(train_bytes);
        let piece = self.next_piece(shared, most)?;
        Some(Reply::Response {
            response: piece.response,
            packets: piece.packets,
            first: piece.first,
            last: piece.last,
        })
    }
}
