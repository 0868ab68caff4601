//! Invariants between two steps of a requester. Debug builds check them: tests, simulator, fuzzers.

use crate::qp::Qp;
use crate::requester::cut::PSN_WINDOW;
use crate::requester::{Phase, Requester, SEND_WINDOW};

impl<R> Requester<R> {
    /// Checks the order that is drawn at the head of the requester's module.
    #[inline]
    pub(super) fn assert_order(&self) {
        if cfg!(debug_assertions) {
            self.assert_psns();
            self.assert_queue();
        }
    }

    fn assert_psns(&self) {
        let [unacked, next, sent] =
            [self.unacked, self.next, self.sent].map(|psn| psn.since(self.settled));
        debug_assert!(unacked <= next, "settled <= unacked <= next");
        debug_assert!(next <= sent, "next <= sent");
        debug_assert!(sent <= PSN_WINDOW, "so many PSNs are never outstanding");
        if let Some(missing) = self.awaiting.first_missing() {
            let missing = missing.since(self.settled);
            debug_assert!(missing < sent, "data is missing of what was sent");
        }
    }

    fn assert_queue(&self) {
        let length = self.queue.len();
        debug_assert!(length <= SEND_WINDOW, "the window was not looked at");
        debug_assert!(self.cursor <= length, "the cursor is behind the queue");
        debug_assert!(
            self.done_early as usize <= length,
            "what is done early is queued"
        );
        if let Some(before) = self.cursor.checked_sub(1) {
            let before = self.queue[before].phase;
            debug_assert_ne!(before, Phase::Posted, "the cursor passed it");
        }
        if let Some(at) = self.queue.get(self.cursor)
            && at.phase == Phase::Started
        {
            let inside = self.next.since(at.first) < at.packets;
            debug_assert!(inside, "next lies in the request at the cursor");
        }
    }
}

impl<R> Qp<R> {
    /// Checks the state after everything finished was completed.
    #[inline]
    pub(super) fn assert_completed(&self) {
        if cfg!(debug_assertions) && self.sends() {
            let oldest = self.requester.oldest_outcome();
            debug_assert_eq!(oldest, None, "it is finished and was not completed");
        }
    }
}
