//! A shared receive queue.
//!
//! Its entries go to queue pairs in any order of completion, so a slot is free as soon as its entry
//! was copied.

use vrdma_memory::{PageList, View};
use vrdma_verbs::object::Owner;
use vrdma_verbs::work::RecvWr;

use crate::abi::request::CreateSrq;
use crate::decode::receive;
use crate::queue::RingError;
use crate::queue::work::WorkRing;
use crate::quota::Charge;

#[derive(Debug)]
pub(crate) struct Srq {
    pub(crate) owner: Owner,
    pub(crate) pages: PageList,
    pub(crate) ring: WorkRing,
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    /// Armed limit; 0 is disarmed.
    pub(crate) limit: u32,
    /// Whether its ring is unusable.
    pub(crate) dead: bool,
    /// The request that made it.
    pub(crate) request: CreateSrq,
    pub(crate) _charge: Charge,
}

impl Srq {
    /// Copies the next entry, if there is one.
    pub(crate) fn fetch(&mut self, memory: &View<'_>) -> Result<Option<RecvWr>, RingError> {
        if self.dead || self.ring.available(memory, &self.pages)? == 0 {
            return Ok(None);
        }
        let at = self.ring.fetch(&self.pages)?;
        let request = receive::decode(memory, at, self.ring.stride(), self.max_sge)?;
        self.ring.release(1);
        Ok(Some(request))
    }

    /// Lets the guest reuse the slots of entries that were copied.
    pub(crate) fn show_released(&mut self, memory: &View<'_>) -> Result<(), RingError> {
        match self.dead {
            true => Ok(()),
            false => self.ring.show_released(memory, &self.pages),
        }
    }

    /// Entries that the ring still holds.
    pub(crate) fn available(&mut self, memory: &View<'_>) -> Result<u32, RingError> {
        self.ring.refresh(memory, &self.pages)
    }
}
