//! Queues whose rings became unusable: what stops, and who is told.

use vrdma_verbs::object::{CqId, QpId, SrqId};

use crate::Sending;
use crate::front_end::{FrontEnd, Turn};

/// Stopping objects whose rings failed, for every front end.
pub trait Failing: FrontEnd {
    /// Stops a queue pair whose rings are unusable.
    fn fail_qp(&mut self, turn: Turn<'_, Self::Memory<'_>>, id: QpId, error: Self::Error) {
        if self.qp_failed(turn, id, error) {
            self.qp_stopped(id);
            // The engine and the front end know it by the same number, so this cannot miss.
            let _ = self.core_mut().hca.fail_qp(id);
        }
    }

    /// Stops the queue pairs of a completion queue whose ring overflowed or is unusable. The rest of their rings is
    /// flushed to the completion queues that still work. What was in the ring before it overflowed stays.
    fn fail_cq(&mut self, turn: Turn<'_, Self::Memory<'_>>, id: CqId, error: Self::Error) {
        if Self::is_overflow(error) {
            // If this fails too, the queue stops all the same.
            let _ = self.publish_written(turn, id);
        }
        if !self.cq_failed(turn, id, error) {
            return;
        }
        let attached = self.core().hca.qps_of_cq(id);
        let _ = self.core_mut().hca.fail_cq(id);
        attached.into_iter().for_each(|qp| self.wake(qp));
    }

    /// Stops the queue pairs of a shared receive queue whose ring is unusable.
    fn fail_srq(&mut self, turn: Turn<'_, Self::Memory<'_>>, id: SrqId, error: Self::Error) {
        if self.srq_failed(turn, id, error) {
            let _ = self.core_mut().hca.fail_srq(id);
        }
    }
}

impl<F: FrontEnd + ?Sized> Failing for F {}
