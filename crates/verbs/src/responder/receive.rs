//! Receives: posting them, knowing when one is needed, taking one, completing it.

use crate::attr::QpState;
use crate::error::Error;
use crate::hca::Hca;
use crate::object::{QpId, QpType, SrqId};
use crate::qp::Qp;
use crate::responder::admit::admit;
use crate::responder::{Delivery, Message};
use crate::shared::Shared;
use crate::srq::RECEIVE_WINDOW;
use crate::unit::{Request, RequestOp, RequestTail};
use crate::work::{Completion, Output, RecvWr, Status, Tail, WcOp};

/// Queue that has the receive for a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveQueue {
    /// The QP's own receive queue.
    Own(QpId),
    /// A shared receive queue.
    Shared(SrqId),
}

impl<R: Clone> Hca<R> {
    /// Returns how many receives the QP's own queue takes now; zero in RESET and with a shared queue.
    pub fn receive_room(&self, id: QpId) -> u32 {
        match self.qps.get(id.0) {
            Some(qp) if qp.takes_receives() => (RECEIVE_WINDOW - qp.responder.queue.len()) as u32,
            _ => 0,
        }
    }

    /// Appends a receive to the QP's own queue. In ERR it comes back flushed at once.
    ///
    /// Errors: `InvalidHandle`, `InvalidState` (in RESET, or the QP has a shared queue), `Exhausted`
    /// ([`RECEIVE_WINDOW`] are staged).
    pub fn post_recv(&mut self, id: QpId, wr: RecvWr) -> Result<(), Error> {
        let qp = self.qps.get_mut(id.0).ok_or(Error::InvalidHandle)?;
        if !qp.takes_receives() {
            return Err(Error::InvalidState);
        }
        if qp.state() == QpState::Err {
            qp.receive_failed(&mut self.shared, &wr, Status::WrFlush);
            return Ok(());
        }
        if qp.responder.queue.len() >= RECEIVE_WINDOW {
            return Err(Error::Exhausted);
        }
        debug_assert!(qp.spec.srq.is_none(), "its receives come from elsewhere");
        qp.responder.queue.push_back(wr);
        Ok(())
    }

    /// Returns the queue from which `request` takes a receive, if it takes one and none is staged. The front end then
    /// fetches one and posts it before [`Hca::deliver`], or delivers without one when it has none.
    #[inline]
    pub fn wants_receive(&self, request: &Request<R>) -> Option<ReceiveQueue> {
        if !request.takes_receive() {
            return None;
        }
        let qp = self.qps.named(request.destination)?;
        admit(qp, &self.shared, request).ok()?;
        let due = qp.is_due(request) && !qp.has_receive(&self.shared);
        due.then(|| qp.receive_queue())
    }
}

impl<R> Request<R> {
    /// Whether the unit takes a receive: the first unit of a SEND does, and the last one of a WRITE with immediate data
    /// (IBTA 9.7.5).
    pub(crate) fn takes_receive(&self) -> bool {
        match self.op {
            RequestOp::Send => self.first,
            RequestOp::Write { .. } => matches!(self.tail, Some(RequestTail::Imm(_))),
            RequestOp::Datagram { .. } => true,
            RequestOp::Read { .. } | RequestOp::CompareSwap { .. } | RequestOp::FetchAdd { .. } => {
                false
            }
        }
    }
}

impl<R> Qp<R> {
    fn takes_receives(&self) -> bool {
        self.attr.state != QpState::Reset && self.spec.srq.is_none()
    }

    /// Whether the unit would be executed now.
    fn is_due(&self, request: &Request<R>) -> bool {
        let idle = !matches!(self.responder.message, Message::Send { .. });
        let in_turn = request.psn == self.responder.expected;
        match self.spec.qp_type {
            QpType::Rc => in_turn && idle,
            QpType::Uc => in_turn || request.first,
            QpType::Ud | QpType::Gsi => true,
        }
    }

    fn receive_queue(&self) -> ReceiveQueue {
        match self.spec.srq {
            Some(srq) => ReceiveQueue::Shared(srq),
            None => ReceiveQueue::Own(self.id),
        }
    }

    pub(super) fn has_receive(&self, shared: &Shared<R>) -> bool {
        match self.spec.srq {
            Some(srq) => shared.srq(srq).is_ok_and(|srq| !srq.receives.is_empty()),
            None => !self.responder.queue.is_empty(),
        }
    }
}

impl<R, M> Delivery<'_, R, M> {
    pub(super) fn take_receive(&mut self) -> Option<RecvWr> {
        match self.qp.spec.srq {
            Some(srq) => self.shared.srq_mut(srq).ok()?.receives.pop_front(),
            None => self.qp.responder.queue.pop_front(),
        }
    }

    /// Puts back a receive whose message was not received after all.
    pub(super) fn return_receive(&mut self, receive: RecvWr) {
        match self.qp.spec.srq.map(|srq| self.shared.srq_mut(srq)) {
            Some(Ok(srq)) => srq.receives.push_front(receive),
            Some(Err(_)) => {}
            None => self.qp.responder.queue.push_front(receive),
        }
    }

    /// Makes the completion of a received message.
    pub(super) fn received(&self, wr_id: u64, op: WcOp, bytes: u32) -> Completion {
        let mut completion = self.qp.completion(wr_id, op, Status::Success);
        completion.byte_len = bytes;
        completion.src_qp = self.request.source;
        completion.solicited = self.request.solicited;
        completion.tail = self.request.tail.map(|tail| match tail {
            RequestTail::Imm(imm) => Tail::Imm(imm),
            RequestTail::Invalidate(key) => Tail::Invalidated(key),
        });
        completion
    }

    pub(super) fn complete(&mut self, completion: Completion) {
        let cq = self.qp.spec.recv_cq;
        self.shared.emit(Output::RecvDone { cq, completion });
    }
}
