//! What comes out of the engine, on its way into the clients' rings.
//!
//! The order is fixed: payload (the engine has moved it), consumer indices of work queues, completion
//! entries, their producer index, notification. A program with a queue of one posts again right after
//! it polled, so the slot must be free before the completion can be seen.

use vrdma_provider::daemon::RingError;
use vrdma_provider::message::{AsyncEvent, element};
use vrdma_verbs::Time;
use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{CqId, QpId, SrqId};
use vrdma_verbs::work::{Completion, Event, Output, Status};

use super::{Process, completion};

/// Units handed out or taken in before the clients are shown what they did: a few us of work.
const UNITS_PER_BATCH: u32 = 64;

/// Objects with indices that the client was not shown yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    qps: Vec<QpId>,
    cqs: Vec<CqId>,
}

impl Process {
    /// A unit was taken in: the clients see what it did with the batch.
    pub(super) fn settle_soon(&mut self, now: Time) {
        self.unsettled += 1;
        if self.unsettled >= UNITS_PER_BATCH {
            self.settle(now);
        }
    }

    /// Ends a batch, if one has begun.
    pub(crate) fn end_batch(&mut self, now: Time) {
        if self.unsettled > 0 {
            self.settle(now);
        }
    }

    /// Takes everything that the engine has to say and shows it to the clients.
    pub(super) fn settle(&mut self, now: Time) {
        self.unsettled = 0;
        while self.take_outputs(now) {
            // A ring that turns out to be unusable makes the engine say more.
            self.publish(now);
        }
    }

    fn take_outputs(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(output) = self.hca.poll_output() {
            self.take_output(output, now);
            any = true;
        }
        any
    }

    fn take_output(&mut self, output: Output, now: Time) {
        match output {
            Output::SendDone { qp, cq, completion } => {
                self.release_send(qp);
                if let Some(completion) = completion {
                    self.complete(cq, &completion, now);
                }
            }
            Output::RecvDone { cq, completion } => {
                self.release_recv(completion.qp);
                self.complete(cq, &completion, now);
            }
            Output::Event(event) => self.announce(event),
        }
    }

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

    fn show_later(&mut self, id: QpId) {
        if let Some(qp) = self.qps.get_mut(id.0)
            && !std::mem::replace(&mut qp.unshown, true)
        {
            self.batch.qps.push(id);
        }
    }

    fn complete(&mut self, id: CqId, completion: &Completion, now: Time) {
        let Some(qp) = self.qps.get(completion.qp.0) else {
            return;
        };
        let entry = completion::encode(completion, qp.qpn, now);
        let failed = completion.status != Status::Success;
        if let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) {
            cq.urgent |= completion.solicited || failed;
            if !std::mem::replace(&mut cq.unpublished, true) {
                self.batch.cqs.push(id);
            }
            if let Err(error) = cq.ring.write(&entry) {
                self.fail_cq(id, error);
            }
        }
        if failed {
            self.flush_later(completion.qp);
        }
    }

    /// An error may have stopped the queue pair: what its rings hold has to be flushed.
    pub(super) fn flush_later(&mut self, id: QpId) {
        if let Some(QpState::Err | QpState::Sqe) = self.hca.qp_state(id) {
            self.concerned.forget_qp(id);
            self.wake(id);
        }
    }

    fn publish(&mut self, now: Time) {
        while let Some(id) = self.batch.qps.pop() {
            if let Some(qp) = self.qps.get_mut(id.0) {
                qp.unshown = false;
                qp.show_released();
            }
        }
        while let Some(id) = self.batch.cqs.pop() {
            self.show_entries(id, now);
        }
    }

    /// Stores the producer index, then looks whether the client wants to hear of it.
    fn show_entries(&mut self, id: CqId, now: Time) {
        let Some(cq) = self.cqs.get_mut(id.0) else {
            return;
        };
        let urgent = std::mem::take(&mut cq.urgent);
        if !std::mem::take(&mut cq.unpublished) {
            return;
        }
        cq.ring.publish();
        if cq.ring.take_armed(urgent) {
            self.notify(id, now);
        }
    }

    fn notify(&mut self, id: CqId, now: Time) {
        let Some(cq) = self.cqs.get(id.0) else { return };
        let (owner, channel, cookie) = (cq.owner, cq.channel, cq.cookie);
        let context = self.contexts.get_mut(owner.0);
        let channel = context.and_then(|context| context.channels.get_mut(channel?));
        if channel.is_some_and(|channel| !channel.notify(cookie)) {
            self.retry_channels(now);
        }
    }

    /// The queue pair's rings are unusable: it stops.
    pub(super) fn fail_qp(&mut self, id: QpId, error: RingError) {
        let Some(qp) = self.qps.get_mut(id.0).filter(|qp| !qp.dead) else {
            return;
        };
        qp.dead = true;
        tracing::warn!(adapter = %self.spec.name, qpn = qp.qpn.get(), %error, "a client's queue pair failed");
        self.concerned.forget_qp(id);
        // Known to both sides by the same number, so this cannot miss.
        let _ = self.hca.fail_qp(id);
    }

    /// The ring overflowed or is unusable: its queue pairs stop, and what is in it stays.
    fn fail_cq(&mut self, id: CqId, error: RingError) {
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return;
        };
        cq.dead = true;
        tracing::warn!(adapter = %self.spec.name, cq = id.0, %error, "a client's completion queue failed");
        let _ = self.hca.fail_cq(id);
        let attached = self
            .qps
            .iter()
            .filter(|(_, qp)| qp.send_cq == id || qp.recv_cq == id);
        let attached: Vec<_> = attached.map(|(index, _)| QpId(index)).collect();
        attached.into_iter().for_each(|qp| self.wake(qp));
    }

    pub(super) fn fail_srq(&mut self, id: SrqId, error: RingError) {
        let Some(srq) = self.srqs.get_mut(id.0).filter(|srq| !srq.dead) else {
            return;
        };
        srq.dead = true;
        tracing::warn!(adapter = %self.spec.name, srq = id.0, %error, "a client's shared receive queue failed");
        let _ = self.hca.fail_srq(id);
    }

    fn announce(&mut self, event: Event) {
        if let Event::SrqLimitReached(id) = event
            && let Some(srq) = self.srqs.get_mut(id.0)
        {
            srq.limit = 0;
        }
        if let Event::QpFatal(id) | Event::QpRequestError(id) | Event::QpAccessError(id) = event {
            self.flush_later(id);
        }
        let told = self.described_event(event);
        let context = told.and_then(|(owner, event)| Some((self.contexts.get(owner.0)?, event)));
        if let Some((context, event)) = context {
            context.announce(event);
        }
    }

    /// Whom an event concerns, and how the library is told.
    fn described_event(&self, event: Event) -> Option<(vrdma_verbs::object::Owner, AsyncEvent)> {
        let told = |event, element, cookie| AsyncEvent {
            event,
            element,
            cookie,
        };
        let (number, kind) = numbered(event);
        Some(match kind {
            Subject::Cq(id) => {
                let cq = self.cqs.get(id.0)?;
                (cq.owner, told(number, element::CQ, cq.cookie))
            }
            Subject::Qp(id) => {
                let qp = self.qps.get(id.0)?;
                (qp.owner, told(number, element::QP, qp.cookie))
            }
            Subject::Srq(id) => {
                let srq = self.srqs.get(id.0)?;
                (srq.owner, told(number, element::SRQ, srq.cookie))
            }
        })
    }
}

enum Subject {
    Cq(CqId),
    Qp(QpId),
    Srq(SrqId),
}

/// `enum ibv_event_type`.
fn numbered(event: Event) -> (u32, Subject) {
    match event {
        Event::CqError(id) => (0, Subject::Cq(id)),
        Event::QpFatal(id) => (1, Subject::Qp(id)),
        Event::QpRequestError(id) => (2, Subject::Qp(id)),
        Event::QpAccessError(id) => (3, Subject::Qp(id)),
        Event::CommEstablished(id) => (4, Subject::Qp(id)),
        Event::SqDrained(id) => (5, Subject::Qp(id)),
        Event::SrqError(id) => (14, Subject::Srq(id)),
        Event::SrqLimitReached(id) => (15, Subject::Srq(id)),
        Event::LastWqeReached(id) => (16, Subject::Qp(id)),
    }
}
