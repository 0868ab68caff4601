//! Queues that became unusable: what stops, and who is told.

use vrdma_verbs::object::{CqId, QpId, SrqId};

use super::{Adapter, Turn};
use crate::queue::RingError;

impl Adapter {
    /// Fails the queue pair if its rings turned out to be unusable.
    pub(super) fn qp_checked(
        &mut self,
        turn: Turn<'_, '_>,
        id: QpId,
        result: Result<(), RingError>,
    ) {
        if let Err(error) = result {
            self.fail_qp(turn, id, error);
        }
    }

    pub(super) fn fail_qp(&mut self, turn: Turn<'_, '_>, id: QpId, error: RingError) {
        let Some(qp) = self.qps.get_mut(id.0).filter(|qp| !qp.dead) else {
            return;
        };
        qp.dead = true;
        self.complain(turn, "queue pair", id.0, error);
        // Known to both sides by the same number, so this cannot miss.
        let _ = self.hca.fail_qp(id);
    }

    /// The ring overflowed or is unusable: its queue pairs stop, and the rest of their rings is
    /// flushed to where it still can be. What was in the ring before it overflowed stays.
    pub(super) fn fail_cq(&mut self, turn: Turn<'_, '_>, id: CqId, error: RingError) {
        if error == RingError::Full {
            let _ = self.show_entries(turn, id);
        }
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return;
        };
        cq.dead = true;
        self.complain(turn, "completion queue", id.0, error);
        let _ = self.hca.fail_cq(id);
        let attached = |qp: &crate::object::qp::Qp| qp.send_cq == id || qp.recv_cq == id;
        for qp in self.qps.numbers(attached) {
            self.wake(QpId(qp));
        }
    }

    pub(crate) fn fail_srq(&mut self, turn: Turn<'_, '_>, id: SrqId, error: RingError) {
        let Some(srq) = self.srqs.get_mut(id.0).filter(|srq| !srq.dead) else {
            return;
        };
        srq.dead = true;
        self.complain(turn, "shared receive queue", id.0, error);
        let _ = self.hca.fail_srq(id);
    }

    /// The guest destroys a queue that is still in use: that is refused, but it frees the pages all
    /// the same, so they are not touched any more.
    pub(crate) fn withdraw_cq(&mut self, turn: Turn<'_, '_>, id: CqId) {
        self.fail_cq(turn, id, RingError::Withdrawn);
    }

    /// As [`withdraw_cq`](Self::withdraw_cq).
    pub(crate) fn withdraw_srq(&mut self, turn: Turn<'_, '_>, id: SrqId) {
        self.fail_srq(turn, id, RingError::Withdrawn);
    }

    fn complain(&mut self, turn: Turn<'_, '_>, kind: &str, handle: u32, error: RingError) {
        self.oddities.queues += 1;
        if self.chatter.allows(turn.now) {
            tracing::warn!(handle, %error, "a guest's {kind} failed");
        }
    }
}
