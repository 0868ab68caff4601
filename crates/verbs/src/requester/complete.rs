//! Acknowledgements, and the completions that follow from them, strictly in order.

use vrdma_wire::Psn;

use crate::attr::QpState;
use crate::qp::Qp;
use crate::requester::{Pending, Phase, Requester};
use crate::shared::Shared;
use crate::time::Time;
use crate::work::{SendWr, Status};

impl<R> Requester<R> {
    /// Notes that the peer has executed everything before `limit`, as any later answer implies (IBTA 9.7.3).
    #[inline]
    pub(super) fn advance(&mut self, limit: Psn, now: Time) {
        let limit = if self.next.is_before(limit) {
            self.up_to_data(limit)
        } else {
            limit
        };
        if !self.unacked.is_before(limit) {
            return;
        }
        debug_assert!(
            !self.sent.is_before(limit),
            "nobody has executed what was not sent"
        );
        let packets = limit.since(self.unacked);
        self.unacked = limit;
        self.gone_back = false;
        // The peer makes progress, so no retry was in vain, though data of an older READ may be missing.
        self.retries = 0;
        if self.next.is_before(limit) {
            self.next = limit;
            self.find_cursor();
        }
        self.wire_answered(packets, now);
    }

    /// Returns the PSN up to which nothing has to be sent again. Answers to what was sent before going back cover SENDs
    /// and WRITEs, but not READs and atomics, whose data is missing: the PSN is `limit`, or the begin of the first READ
    /// or atomic.
    fn up_to_data(&self, limit: Psn) -> Psn {
        let again = self.queue.iter().skip(self.cursor);
        let data = again
            .filter(|pending| pending.phase == Phase::Started)
            .take_while(|pending| pending.first.is_before(limit))
            .find(|pending| pending.wr.op.is_read_or_atomic());
        match data {
            Some(pending) if self.next.is_before(pending.first) => pending.first,
            Some(_) => self.next,
            None => limit,
        }
    }

    /// Compares what is finished with the last time: progress resets all counts of retries.
    pub(super) fn note_settled(&mut self) {
        let missing = self.awaiting.first_missing();
        let settled = match missing.filter(|psn| psn.is_before(self.unacked)) {
            Some(psn) => psn,
            None => self.unacked,
        };
        debug_assert!(
            !settled.is_before(self.settled),
            "what is finished stays so"
        );
        if settled != self.settled {
            self.settled = settled;
            self.retries = 0;
            self.rnr_retries = 0;
            self.deadline = None;
        }
    }

    /// Moves the cursor to the request that `next` lies in, or behind all that were sent.
    pub(super) fn find_cursor(&mut self) {
        let next = self.next;
        let passed = self.queue.iter().take_while(|pending| match pending.phase {
            Phase::Started => next.since(pending.first) >= pending.packets,
            Phase::Done => true,
            Phase::Posted | Phase::Failed(_) => false,
        });
        self.cursor = passed.count();
    }

    /// Returns the index of the started request that holds a PSN.
    pub(super) fn holding(&self, psn: Psn) -> Option<usize> {
        self.queue.iter().position(|pending| {
            pending.phase == Phase::Started && psn.since(pending.first) < pending.packets
        })
    }

    /// Returns the outcome of the oldest request, once it is known.
    pub(super) fn oldest_outcome(&self) -> Option<Result<(), Status>> {
        let oldest = self.queue.front()?;
        match oldest.phase {
            Phase::Posted => None,
            Phase::Started => {
                (self.settled.since(oldest.first) >= oldest.packets).then_some(Ok(()))
            }
            Phase::Done => Some(Ok(())),
            Phase::Failed(status) => Some(Err(status)),
        }
    }
}

impl<R> Qp<R> {
    /// Completes finished requests, oldest first.
    pub(crate) fn complete_finished(&mut self, shared: &mut Shared<R>) {
        self.requester.note_settled();
        while let Some(outcome) = self.requester.oldest_outcome() {
            match outcome {
                Ok(()) => self.succeed_oldest(shared),
                Err(status) => return self.fail_oldest(status, shared),
            }
        }
        self.assert_completed();
        self.note_drained(shared);
    }

    fn succeed_oldest(&mut self, shared: &mut Shared<R>) {
        let Some(Pending {
            wr, length, phase, ..
        }) = self.requester.queue.pop_front()
        else {
            return;
        };
        debug_assert!(
            matches!(phase, Phase::Started | Phase::Done),
            "it succeeds in its turn"
        );
        if phase == Phase::Done {
            self.requester.done_early = self.requester.done_early.saturating_sub(1);
        }
        // Taken field by field: most of a request is not needed any more, and so is not moved.
        let SendWr {
            id,
            op,
            signaled,
            sges: _sges,
            inline: _inline,
            ..
        } = wr;
        let wanted = signaled || self.spec.signal_all;
        let completion = wanted.then(|| {
            let mut completion = self.completion(id, op.completes_as(), Status::Success);
            completion.byte_len = length;
            completion
        });
        self.requester.cursor = self.requester.cursor.saturating_sub(1);
        (shared.outputs).push_send(self.id, self.spec.send_cq, completion);
    }

    /// Fails the oldest request and flushes everything behind it: a reliable connection ends, a QP of an unreliable
    /// service stops sending (IBTA 10.3.1).
    pub(crate) fn fail_oldest(&mut self, status: Status, shared: &mut Shared<R>) {
        if let Some(wr) = self.requester.take_oldest() {
            self.send_failed(shared, &wr, status);
        }
        if self.is_reliable() {
            self.enter_error(shared);
        } else {
            self.attr.state = QpState::Sqe;
            self.flush_sends(shared);
        }
    }

    /// Fails the request at the cursor in its turn: older ones may still succeed.
    #[cold]
    pub(crate) fn fail_at_cursor(&mut self, status: Status, shared: &mut Shared<R>) {
        let cursor = self.requester.cursor;
        self.requester.queue[cursor].phase = Phase::Failed(status);
        self.complete_finished(shared);
    }
}
