//! Lost units and unready receivers: going back, waiting, giving up.

use core::time::Duration;

use crate::hca::Hca;
use crate::qp::Qp;
use crate::requester::Requester;
use crate::shared::Shared;
use crate::time::Time;
use crate::unit::LATE_CODE;
use crate::work::Status;

/// Unit of the local ACK time-out in nanoseconds (IBTA 9.7.6.1.3).
const TIMEOUT_UNIT_NS: u64 = 4096;

/// `rnr_retry` that never gives up (IBTA 9.7.5.2.8).
const RNR_FOR_EVER: u8 = 7;

/// Wait times by RNR timer code, in units of 10 us (IBTA table 45).
const RNR_WAITS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// Returns how long an unready receiver asks to wait.
pub(crate) fn rnr_wait(code: u8) -> Duration {
    let index = usize::from(code) % RNR_WAITS.len();
    Duration::from_micros(10) * RNR_WAITS[index]
}

/// Returns the local ACK time-out; none for exponent 0.
fn ack_timeout(exponent: u8) -> Option<Duration> {
    (exponent > 0).then(|| Duration::from_nanos(TIMEOUT_UNIT_NS << exponent.min(31)))
}

impl<R: Clone> Hca<R> {
    /// Does everything that is due: ends waits, and handles units that were not answered in time. Queues of QPs that
    /// were busy and are idle now give their memory back.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(id) = self.schedule.pop_due(now) {
            let Some(qp) = self.qps.table.get_mut(id.0) else {
                continue;
            };
            qp.scheduled.timer = None;
            if self.qps.leaving.has(qp.owner) {
                continue;
            }
            qp.expire(now, &mut self.shared);
            qp.responder.replies.expire(now);
            qp.reschedule(&mut self.schedule);
            if !qp.responder.replies.is_empty() {
                self.schedule.make_answering(id, &mut qp.scheduled);
            }
        }
    }
}

impl<R> Requester<R> {
    /// Goes back, so that everything that the peer is not known to have executed is sent again.
    pub(crate) fn rewind(&mut self) {
        self.next = self.unacked;
        self.find_cursor();
        debug_assert!(
            self.cursor <= self.queue.len(),
            "the cursor is in the queue"
        );
        self.awaiting.forget_from(self.unacked);
        self.deadline = None;
        self.wire_rewound();
    }
}

impl<R> Qp<R> {
    /// Starts the time-out of the oldest unit, unless it runs already.
    #[inline]
    pub(crate) fn start_timer(&mut self, now: Time) {
        if self.requester.deadline.is_none() && !self.requester.paused {
            self.start_stopped_timer(now);
        }
    }

    #[inline(never)]
    fn start_stopped_timer(&mut self, now: Time) {
        let Requester { wire, retries, .. } = &self.requester;
        let wait = ack_timeout(self.attr.timeout);
        let wait = wait.map(|asked| match wire {
            Some(wire) => wire.ack_timeout(asked, *retries),
            None => asked,
        });
        self.requester.deadline = wait.map(|wait| now + wait);
    }

    /// Restarts the time-out after an answer: units that are still outstanding have a fresh one.
    #[inline]
    pub(crate) fn restart_timer(&mut self, now: Time) {
        if self.requester.is_answered() {
            self.requester.deadline = None;
        } else {
            self.start_timer(now);
        }
    }

    /// Goes back after an answer that reports a loss. Answers to what was sent before going back may still be on their
    /// way and report the same: only the first counts, until there is progress. If the second attempt is lost, too, the
    /// time-out expires.
    pub(crate) fn go_back_once(&mut self, shared: &mut Shared<R>) {
        if !core::mem::replace(&mut self.requester.gone_back, true) {
            self.requester.wire_gap();
            self.go_back(shared);
        }
    }

    /// Sends again from the oldest unanswered unit, or gives up. An answer from before the peer stood still does not
    /// count as a retry.
    pub(crate) fn go_back(&mut self, shared: &mut Shared<R>) {
        if self.requester.paused {
            return self.requester.rewind();
        }
        if self.requester.retries >= self.attr.retry_count {
            return self.fail_oldest(Status::RetryExc, shared);
        }
        self.requester.retries += 1;
        shared.counters.retries += 1;
        self.requester.rewind();
    }

    /// Waits until the receiver may be ready, or gives up.
    pub(crate) fn wait_for_receiver(&mut self, code: u8, now: Time, shared: &mut Shared<R>) {
        if self.requester.paused {
            return self.requester.rewind();
        }
        let allowed = self.attr.rnr_retry;
        if allowed != RNR_FOR_EVER && self.requester.rnr_retries >= allowed {
            return self.fail_oldest(Status::RnrRetryExc, shared);
        }
        self.requester.rnr_retries = self.requester.rnr_retries.saturating_add(1);
        self.requester.rewind();
        self.requester.rnr_until = Some(now + rnr_wait(code));
    }

    /// Asks later for data again that has no place yet. Memory that is late for too long counts as gone, so no retries
    /// are counted.
    pub(crate) fn wait_for_memory(&mut self, now: Time) {
        self.requester.awaiting.lose_all();
        self.requester.rewind();
        if !self.requester.paused && self.requester.rnr_until.is_none() {
            self.requester.rnr_until = Some(now + rnr_wait(LATE_CODE));
        }
    }

    fn expire(&mut self, now: Time, shared: &mut Shared<R>) {
        self.requester.wire_released();
        if self.requester.paused {
            return;
        }
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if due(self.requester.rnr_until) {
            self.requester.rnr_until = None;
        } else if due(self.requester.deadline) {
            shared.counters.timeouts += 1;
            self.requester.gone_back = false;
            self.requester.awaiting.lose_all();
            self.go_back(shared);
        } else if self.requester.takes_probe(now) {
            shared.counters.retries += 1;
            self.note_silence(now, shared);
            self.probe(now);
        } else if self.requester.deadline.is_none() {
            self.trim();
        }
    }

    /// Sends the oldest unanswered unit again, since nothing has come back for too long. This is long before the local
    /// ACK time-out, whose time goes on.
    fn probe(&mut self, now: Time) {
        let deadline = self.requester.deadline;
        self.requester.awaiting.lose_all();
        self.requester.rewind();
        self.requester.deadline = deadline;
        self.start_timer(now);
    }

    /// Gives back memory of queues that are empty.
    pub(crate) fn trim(&mut self) {
        self.requester.trim();
        self.responder.trim();
    }
}
