//! The error state: everything posted comes back, in order.

use crate::attr::QpState;
use crate::outputs::Subject;
use crate::qp::Qp;
use crate::shared::Shared;
use crate::work::{Completion, Event, Output, RecvWr, SendWr, Status, WcOp};

impl<R> Qp<R> {
    /// Enters ERR and gives back all posted requests, sends first (IBTA 10.3.1). A QP in RESET has nothing to fail, and
    /// one in ERR has failed already.
    pub(crate) fn enter_error(&mut self, shared: &mut Shared<R>) {
        if matches!(self.attr.state, QpState::Reset | QpState::Err) {
            return;
        }
        self.attr.state = QpState::Err;
        self.flush_sends(shared);
        self.flush_receives(shared);
    }

    /// Gives back every send request.
    pub(crate) fn flush_sends(&mut self, shared: &mut Shared<R>) {
        while let Some(wr) = self.requester.take_oldest() {
            self.send_failed(shared, &wr, Status::WrFlush);
        }
        self.requester.rest();
    }

    fn flush_receives(&mut self, shared: &mut Shared<R>) {
        while let Some(wr) = self.responder.take_oldest() {
            self.receive_failed(shared, &wr, Status::WrFlush);
        }
        debug_assert!(self.responder.queue.is_empty(), "every receive came back");
        if self.spec.srq.is_some() {
            shared.event(Event::LastWqeReached(self.id));
        }
    }

    /// Completes a send request with an error: signalled or not, it has a completion.
    pub(crate) fn send_failed(&self, shared: &mut Shared<R>, wr: &SendWr<R>, status: Status) {
        debug_assert_ne!(status, Status::Success);
        let completion = self.completion(wr.id, wr.op.completes_as(), status);
        (shared.outputs).push_send(self.id, self.spec.send_cq, Some(completion));
    }

    /// Completes a receive with an error.
    pub(crate) fn receive_failed(&self, shared: &mut Shared<R>, wr: &RecvWr, status: Status) {
        shared.emit(Output::RecvDone {
            cq: self.spec.recv_cq,
            completion: self.completion(wr.id, WcOp::Recv, status),
        });
    }

    /// Makes a completion that carries only its outcome.
    pub(crate) fn completion(&self, wr_id: u64, op: WcOp, status: Status) -> Completion {
        Completion {
            wr_id,
            qp: self.id,
            op,
            status,
            byte_len: 0,
            tail: None,
            src_qp: Default::default(),
            grh: None,
            solicited: false,
            enclosed: None,
        }
    }

    /// Drops up to `most` posted requests without completions, newest first; returns how many. For a QP that nobody can
    /// reach any more.
    pub(crate) fn drop_work(&mut self, most: u32) -> u32 {
        let (sends, receives) = (&mut self.requester.queue, &mut self.responder.queue);
        let before = sends.len() + receives.len();
        let kept = before.saturating_sub(most as usize);
        receives.truncate(kept.saturating_sub(sends.len()));
        sends.truncate(kept);
        (before - kept) as u32
    }

    /// Forgets all work in RESET: all queues become empty, and outputs that were not handed out are dropped, too.
    pub(crate) fn forget_work(&mut self, shared: &mut Shared<R>) {
        self.requester = Default::default();
        self.responder = Default::default();
        shared.outputs.recall(Subject::Qp(self.id));
    }
}
