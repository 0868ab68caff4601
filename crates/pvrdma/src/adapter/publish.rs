//! Showing a batch of completions to the guest.
//!
//! The order is fixed: payload (the engine has moved it), consumer indices of work queues, completion
//! entries, their producer index, notification, interrupt. A program with a queue of one posts again
//! right after it polled, so the slot must be free before the completion can be seen.

use vrdma_verbs::object::{CqId, QpId};

use super::{Adapter, Turn};
use crate::abi::completion::CompletionEntry;
use crate::arming::{Sight, Touches};
use crate::object::cq::Unpublished;
use crate::queue::RingError;

/// Objects with indices that the guest was not shown yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    qps: Vec<QpId>,
    cqs: Vec<CqId>,
}

impl Adapter {
    /// Consumer indices of the queue pair have moved.
    pub(super) fn show_later(&mut self, id: QpId) {
        if let Some(qp) = self.qps.get_mut(id.0)
            && !std::mem::replace(&mut qp.unshown, true)
        {
            self.batch.qps.push(id);
        }
    }

    /// Puts an entry behind the producer index that the guest knows.
    pub(super) fn write_entry(
        &mut self,
        turn: Turn<'_, '_>,
        id: CqId,
        entry: &CompletionEntry,
        urgent: bool,
    ) -> Result<(), RingError> {
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return Ok(());
        };
        if cq.unpublished.is_none() {
            let before = cq.sight(turn.memory, Touches::default())?;
            let urgent = false;
            cq.unpublished = Some(Unpublished { before, urgent });
            self.batch.cqs.push(id);
        }
        if let Some(unpublished) = &mut cq.unpublished {
            unpublished.urgent |= urgent;
        }
        cq.ring.write(turn.memory, entry)
    }

    /// Shows the guest everything of the batch.
    pub(super) fn publish(&mut self, turn: Turn<'_, '_>) {
        while let Some(id) = self.batch.qps.pop() {
            self.show_released(turn, id);
        }
        while let Some(id) = self.batch.cqs.pop() {
            if let Err(error) = self.show_entries(turn, id) {
                self.fail_cq(turn, id, error);
            }
        }
    }

    fn show_released(&mut self, turn: Turn<'_, '_>, id: QpId) {
        let Some(qp) = self.qps.get_mut(id.0) else {
            return;
        };
        qp.unshown = false;
        if let Err(error) = qp.show_released(turn.memory) {
            self.fail_qp(turn, id, error);
        }
    }

    /// Stores the producer index, then looks at the doorbell page: a program that found the ring
    /// empty before that has rung already.
    pub(super) fn show_entries(&mut self, turn: Turn<'_, '_>, id: CqId) -> Result<(), RingError> {
        let Some(cq) = self.cqs.get_mut(id.0) else {
            return Ok(());
        };
        let (owner, Some(unpublished)) = (cq.owner, cq.unpublished.take()) else {
            return Ok(());
        };
        if cq.dead {
            return Ok(());
        }
        cq.ring.publish(turn.memory)?;
        let touches = self.hear(turn, owner);
        if let Some(cq) = self.cqs.get_mut(id.0) {
            let before = Sight {
                touches,
                ..unpublished.before
            };
            let verdict = cq.arming.published(before, unpublished.urgent, turn.now);
            self.obey(turn, id, verdict);
        }
        Ok(())
    }
}
