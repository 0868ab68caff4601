//! What comes out of the engine, on its way into the guest's rings.
//!
//! Answers are taken in batches: with the guest's cache lines on another core, showing it every
//! completion on its own would cost more than all the rest.

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{CqId, QpId};
use vrdma_verbs::work::{Completion, Event, Output, Status};

use super::{Adapter, Turn, completion};

/// Units handed out or taken in before the guest is shown what they did: a few us of work.
const UNITS_PER_BATCH: u32 = 64;

impl Adapter {
    /// A unit was taken in: the guest sees what it did with the batch.
    pub(super) fn settle_soon(&mut self, turn: Turn<'_, '_>) {
        self.unsettled += 1;
        if self.unsettled >= UNITS_PER_BATCH {
            self.settle(turn);
        }
    }

    /// Whether a batch has begun.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled > 0
    }

    /// Takes everything that the engine has to say and shows it to the guest.
    pub(crate) fn settle(&mut self, turn: Turn<'_, '_>) {
        self.unsettled = 0;
        while self.take_outputs(turn) {
            // A ring that turns out to be unusable makes the engine say more.
            self.publish(turn);
        }
    }

    fn take_outputs(&mut self, turn: Turn<'_, '_>) -> bool {
        let mut any = false;
        while let Some(output) = self.hca.poll_output() {
            self.take_output(turn, output);
            any = true;
        }
        any
    }

    fn take_output(&mut self, turn: Turn<'_, '_>, output: Output) {
        match output {
            Output::SendDone { qp, cq, completion } => {
                self.release_send(qp);
                if let Some(completion) = completion {
                    self.complete(turn, cq, &completion);
                }
            }
            Output::RecvDone { cq, completion } => {
                self.release_recv(completion.qp);
                self.complete(turn, cq, &completion);
            }
            Output::Event(event) => self.announce(turn, event),
        }
    }

    /// The slot of the oldest send request is free, and the engine has room for another.
    fn release_send(&mut self, id: QpId) {
        let Some(qp) = self.qps.get_mut(id.0) else {
            return;
        };
        qp.send.release();
        if std::mem::take(&mut qp.starved) {
            self.wake(id);
        }
        self.show_later(id);
    }

    /// Slots of a shared queue were free as soon as they were copied.
    fn release_recv(&mut self, id: QpId) {
        let recv = self.qps.get_mut(id.0).and_then(|qp| qp.recv.as_mut());
        if let Some(recv) = recv {
            recv.release();
            self.show_later(id);
        }
    }

    fn complete(&mut self, turn: Turn<'_, '_>, id: CqId, completion: &Completion) {
        // A queue pair that is gone must not complete: one entry with a handle that the guest does
        // not know stops it from polling that ring for ever.
        let Some(qp) = self.qps.get(completion.qp.0) else {
            return;
        };
        let entry = completion::encode(completion, &qp.rules);
        let failed = completion.status != Status::Success;
        if let Err(error) = self.write_entry(turn, id, &entry, completion.solicited || failed) {
            self.fail_cq(turn, id, error);
        }
        if failed {
            self.flush_later(completion.qp);
        }
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
}
