//! The number of messages that the peer has receives for (IBTA 9.7.7.2, end-to-end credits).
//!
//! ```text
//!   answer    MSN + credits: so many messages may be begun without a further answer
//!   beyond    a message that takes a receive goes packet by packet, each acknowledged before the
//!             next, and nothing goes beside it: the answers bring new credits, or "not ready"
//! ```
//!
//! Every message uses up a credit, whatever its operation, because the count is one of messages; those that take no
//! receive are sent without credits, too. A peer that has never sent credits is not limited by them, nor is one that
//! says that it does not count. The credit is kept as a number of messages beyond the newest one that was begun: an
//! answer gives the peer's count of messages only as of its own PSN.

use vrdma_wire::{Credits, Psn};

use crate::hca::Hca;
use crate::requester::{Phase, Requester};
use crate::unit::Response;
use crate::work::SendOp;

/// The newest credits of the peer, updated with every message begun since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Credit {
    /// PSN after that of the answer with the credits.
    at: Psn,
    /// Number of messages that may still begin; below zero, the number that have begun without credits.
    left: i32,
}

impl<R: Clone> Hca<R> {
    /// Takes in the credits of a positive answer.
    pub(crate) fn take_credits(&mut self, response: &Response<R>, credits: Credits) {
        let qp = self.qps.named_mut(response.destination);
        let Some(qp) = qp.filter(|qp| qp.requester.credits_change(credits)) else {
            return;
        };
        if qp.hears_credits(response, &self.shared) {
            qp.requester.set_credit(response.psn.plus(1), credits);
            qp.reschedule(&mut self.schedule);
        }
    }
}

impl<R> Requester<R> {
    /// Counts messages that were begun and do not end before a PSN.
    fn begun_since(&self, at: Psn) -> usize {
        let begun = self.queue.iter().filter(|pending| {
            pending.phase == Phase::Started
                && pending.first.is_before(self.sent)
                && at.is_before(pending.first.plus(pending.packets))
        });
        begun.count()
    }

    fn credits_change(&self, credits: Credits) -> bool {
        let counted = self.wire.as_ref().is_some_and(|wire| wire.credit.is_some());
        counted || credits != Credits::UNLIMITED
    }

    fn set_credit(&mut self, at: Psn, credits: Credits) {
        let begun = self.begun_since(at) as i32;
        let Some(wire) = &mut self.wire else {
            return;
        };
        let newer = wire.credit.is_some_and(|credit| at.is_before(credit.at));
        if !newer {
            let messages = credits.messages();
            wire.credit = messages.map(|messages| Credit {
                at,
                left: messages as i32 - begun,
            });
        }
    }

    /// Whether the message at the cursor is beyond the peer's credits.
    pub(super) fn is_limited(&self) -> bool {
        let Some(credit) = self.wire.as_ref().and_then(|wire| wire.credit) else {
            return false;
        };
        let Some(pending) = self.queue.get(self.cursor) else {
            return false;
        };
        let takes_receive = matches!(
            pending.wr.op,
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) | SendOp::WriteImm(..)
        );
        takes_receive
            && credit.left + (self.begun_since(self.after_cursor()) as i32) < self.uncounted()
    }

    /// Whether the message behind the one at the cursor is within the peer's credits.
    pub(super) fn has_credit_for_next(&self) -> bool {
        let credit = self.wire.as_ref().and_then(|wire| wire.credit);
        credit.is_none_or(|credit| credit.left > self.uncounted())
    }

    /// Returns the PSN after the last one of the message at the cursor.
    fn after_cursor(&self) -> Psn {
        let pending = &self.queue[self.cursor];
        pending.first.plus(pending.packets)
    }

    /// Returns 1 when the message at the cursor has not begun yet, else 0.
    fn uncounted(&self) -> i32 {
        let pending = &self.queue[self.cursor];
        i32::from(!pending.first.is_before(self.sent))
    }

    /// Updates the credits for a packet of the message at the cursor.
    pub(super) fn spend_credit(&mut self) {
        let Some(credit) = self.wire.as_ref().and_then(|wire| wire.credit) else {
            return;
        };
        let left = credit.left - self.uncounted();
        if let Some(wire) = &mut self.wire {
            wire.credit = Some(Credit { left, ..credit });
        }
    }
}
