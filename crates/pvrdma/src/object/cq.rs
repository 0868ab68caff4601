//! A completion queue: its ring, and who wants to be told about entries.

use vrdma_memory::View;
use vrdma_verbs::Time;
use vrdma_verbs::object::Owner;

use crate::arming::{Arming, Sight, Touches};
use crate::queue::RingError;
use crate::queue::completion::CompletionRing;
use crate::quota::Charge;

#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) owner: Owner,
    pub(crate) ring: CompletionRing,
    pub(crate) arming: Arming,
    /// Its entry among the queues to look at again.
    pub(crate) watched_at: Option<Time>,
    /// Overflowed, or its ring is unusable: nothing is written any more.
    pub(crate) dead: bool,
    pub(crate) _charge: Charge,
}

impl Cq {
    /// The guest's side of the ring as it is now.
    pub(crate) fn sight(
        &mut self,
        memory: &View<'_>,
        touches: Touches,
    ) -> Result<Sight, RingError> {
        let unconsumed = self.ring.unconsumed(memory)?;
        Ok(Sight {
            consumer: self.ring.consumer(),
            empty: unconsumed == 0,
            touches,
        })
    }
}
