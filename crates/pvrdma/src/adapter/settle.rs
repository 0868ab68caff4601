//! What comes out of the engine, into the guest's rings.
//!
//! The order of one completion is fixed: payload (the engine has moved it), work queue's consumer
//! index, completion entry, completion producer index, notification, interrupt. A program with a
//! queue of one posts again right after it polled, so the slot must be free before.

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{CqId, QpId, SrqId};
use vrdma_verbs::work::{Completion, Event, Output, Status};

use super::{Adapter, Turn, completion};
use crate::abi::completion::CompletionEntry;
use crate::arming::{Sight, Touches};
use crate::queue::RingError;

impl Adapter {
    /// Takes everything that the engine has to say.
    pub(crate) fn settle(&mut self, turn: Turn<'_, '_>) {
        while let Some(output) = self.hca.poll_output() {
            self.settle_one(turn, output);
        }
    }

    fn settle_one(&mut self, turn: Turn<'_, '_>, output: Output) {
        match output {
            Output::SendDone { qp, cq, completion } => {
                self.release_send(turn, qp);
                if let Some(completion) = completion {
                    self.publish(turn, cq, &completion);
                }
            }
            Output::RecvDone { cq, completion } => {
                self.release_recv(turn, completion.qp);
                self.publish(turn, cq, &completion);
            }
            Output::Event(event) => self.announce(turn, event),
        }
    }

    fn release_send(&mut self, turn: Turn<'_, '_>, id: QpId) {
        let Some(qp) = self.qps.get_mut(id.0) else {
            return;
        };
        let released = qp.release_send(turn.memory);
        if std::mem::take(&mut qp.starved) {
            self.wake(id);
        }
        self.qp_checked(turn, id, released);
    }

    fn release_recv(&mut self, turn: Turn<'_, '_>, id: QpId) {
        if let Some(qp) = self.qps.get_mut(id.0) {
            let released = qp.release_recv(turn.memory);
            self.qp_checked(turn, id, released);
        }
    }

    /// Puts a completion into its ring and notifies who asked for it.
    fn publish(&mut self, turn: Turn<'_, '_>, id: CqId, completion: &Completion) {
        // A queue pair that is gone must not complete: one entry with a handle that the guest does
        // not know stops it from polling that ring for ever.
        let Some(qp) = self.qps.get(completion.qp.0) else {
            return;
        };
        let entry = completion::encode(completion, &qp.rules);
        let failed = completion.status != Status::Success;
        if let Err(error) = self.push(turn, id, &entry, completion.solicited || failed) {
            self.fail_cq(turn, id, error);
        }
        if failed {
            self.flush_later(completion.qp);
        }
    }

    fn push(
        &mut self,
        turn: Turn<'_, '_>,
        id: CqId,
        entry: &CompletionEntry,
        urgent: bool,
    ) -> Result<(), RingError> {
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return Ok(());
        };
        let before = cq.sight(turn.memory, Touches::default())?;
        cq.ring.push(turn.memory, entry)?;
        // The page is looked at when the entry can be seen: a program that found the ring empty
        // before that has rung already.
        let owner = cq.owner;
        let touches = self.hear(turn, owner);
        if let Some(cq) = self.cqs.get_mut(id.0) {
            let before = Sight { touches, ..before };
            let verdict = cq.arming.published(before, urgent, turn.now);
            self.obey(turn, id, verdict);
        }
        Ok(())
    }

    /// An error may have stopped the queue pair: what its rings hold has to be flushed.
    fn flush_later(&mut self, id: QpId) {
        if let Some(QpState::Err | QpState::Sqe) = self.hca.qp_state(id) {
            self.wake(id);
        }
    }

    fn announce(&mut self, turn: Turn<'_, '_>, event: Event) {
        if let Event::SrqLimitReached(id) = event
            && let Some(srq) = self.srqs.get_mut(id.0)
        {
            srq.limit = 0;
        }
        if let Event::QpFatal(id) | Event::QpRequestError(id) | Event::QpAccessError(id) = event {
            self.flush_later(id);
        }
        self.post_event(turn, event);
    }

    /// Fails the queue pair if its rings turned out to be unusable.
    pub(crate) fn qp_checked(
        &mut self,
        turn: Turn<'_, '_>,
        id: QpId,
        result: Result<(), RingError>,
    ) {
        if let Err(error) = result {
            self.fail_qp(turn, id, error);
        }
    }

    pub(crate) fn fail_qp(&mut self, turn: Turn<'_, '_>, id: QpId, error: RingError) {
        let Some(qp) = self.qps.get_mut(id.0).filter(|qp| !qp.dead) else {
            return;
        };
        qp.dead = true;
        self.complain(turn, "queue pair", id.0, error);
        // Known to both sides by the same number, so this cannot miss.
        let _ = self.hca.fail_qp(id);
    }

    /// The ring overflowed or is unusable: its queue pairs stop, and the rest of their rings is
    /// flushed to where it still can be.
    pub(crate) fn fail_cq(&mut self, turn: Turn<'_, '_>, id: CqId, error: RingError) {
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return;
        };
        cq.dead = true;
        self.complain(turn, "completion queue", id.0, error);
        let _ = self.hca.fail_cq(id);
        let attached = self.qps.numbers(|qp| qp.send_cq == id || qp.recv_cq == id);
        attached.into_iter().for_each(|qp| self.wake(QpId(qp)));
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
