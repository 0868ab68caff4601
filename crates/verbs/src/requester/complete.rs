//! What answers acknowledge, and what completes with that: strictly in order.

use vrdma_wire::Psn;

use crate::attr::QpState;
use crate::qp::Qp;
use crate::requester::{Phase, Requester};
use crate::shared::Shared;
use crate::work::{Output, Status};

impl<R> Requester<R> {
    /// Everything before `limit` is answered, as any later answer implies (IBTA 9.7.3.1). False when
    /// a READ or atomic comes before: its response was lost.
    pub(super) fn acknowledge_before(&mut self, limit: Psn) -> bool {
        let oldest = self.awaited.front().map(|read| read.begin);
        let lost = oldest.filter(|begin| begin.is_before(limit));
        let reached = lost.unwrap_or(limit);
        if reached != self.unacked {
            self.unacked = reached;
            self.note_progress();
        }
        lost.is_none()
    }

    /// The awaited data up to `end` is here.
    pub(super) fn take_awaited(&mut self, end: Psn) {
        self.unacked = end;
        self.note_progress();
        if let Some(read) = self.awaited.front_mut() {
            read.begin = end;
            if read.begin == read.end {
                self.awaited.pop_front();
            }
        }
    }

    fn note_progress(&mut self) {
        self.retries = 0;
        self.gone_back = false;
        self.rnr_retries = 0;
        self.deadline = None;
    }

    /// What became of the oldest request, once that is known.
    fn oldest_outcome(&self) -> Option<Result<(), Status>> {
        let oldest = self.queue.front()?;
        match oldest.phase {
            Phase::Posted => None,
            Phase::Started => {
                (self.unacked.since(oldest.first) >= oldest.packets).then_some(Ok(()))
            }
            Phase::Done => Some(Ok(())),
            Phase::Failed(status) => Some(Err(status)),
        }
    }
}

impl<R> Qp<R> {
    /// Completes what is finished, oldest first.
    pub(crate) fn settle(&mut self, shared: &mut Shared<R>) {
        while let Some(outcome) = self.requester.oldest_outcome() {
            match outcome {
                Ok(()) => self.succeed_oldest(shared),
                Err(status) => return self.fail_oldest(status, shared),
            }
        }
        self.note_drained(shared);
    }

    fn succeed_oldest(&mut self, shared: &mut Shared<R>) {
        let Some(done) = self.requester.queue.pop_front() else {
            return;
        };
        self.requester.cursor = self.requester.cursor.saturating_sub(1);
        let wanted = done.wr.signaled || self.spec.signal_all;
        let completion = wanted.then(|| {
            let mut completion =
                self.completion(done.wr.id, done.wr.op.completes_as(), Status::Success);
            completion.byte_len = done.length;
            completion
        });
        shared.emit(Output::SendDone {
            qp: self.id,
            cq: self.spec.send_cq,
            completion,
        });
    }

    /// The oldest request fails and everything behind it is flushed: a reliable connection ends, a
    /// QP of an unreliable service stops sending (IBTA 10.3.1.7).
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

    /// The request at the cursor fails in its turn: older ones may still succeed.
    pub(crate) fn fail_at_cursor(&mut self, status: Status, shared: &mut Shared<R>) {
        let cursor = self.requester.cursor;
        self.requester.queue[cursor].phase = Phase::Failed(status);
        self.settle(shared);
    }
}
