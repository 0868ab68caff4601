//! A completion queue: its ring, and whether its owner wants to be told about entries.

use vrdma_memory::View;
use vrdma_verbs::Time;
use vrdma_verbs::object::Owner;

use crate::abi::request::CreateCq;
use crate::arming::{Arming, CqState, Touches};
use crate::queue::RingError;
use crate::queue::completion::CompletionRing;
use crate::quota::Charge;

/// Entries that were written and not yet shown to the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpublished {
    /// State of the ring without them.
    pub(crate) before: CqState,
    /// Whether one of them is solicited or an error.
    pub(crate) urgent: bool,
}

#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) owner: Owner,
    pub(crate) ring: CompletionRing,
    pub(crate) arming: Arming,
    pub(crate) unpublished: Option<Unpublished>,
    /// Its time in the set of queues to look at again.
    pub(crate) watched_at: Option<Time>,
    /// Overflowed, or its ring is unusable: nothing more is written.
    pub(crate) dead: bool,
    /// The request that made it.
    pub(crate) request: CreateCq,
    pub(crate) _charge: Charge,
}

impl Cq {
    /// The guest's state of the ring now.
    pub(crate) fn state(
        &mut self,
        memory: &View<'_>,
        touches: Touches,
    ) -> Result<CqState, RingError> {
        let unconsumed = self.ring.unconsumed(memory)?;
        Ok(CqState {
            consumer: self.ring.consumer(),
            empty: unconsumed == 0,
            touches,
        })
    }
}
