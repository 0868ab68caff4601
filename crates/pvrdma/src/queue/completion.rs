//! A completion ring: we produce, the guest consumes.

use vrdma_memory::{PageList, View};
use zerocopy::IntoBytes;

use super::{RingError, entry_address};
use crate::abi::completion::CompletionEntry;
use crate::ring::{CONSUMER, RECV_STATE, RingShape};

/// Bytes of one entry.
pub(crate) const ENTRY_BYTES: u32 = size_of::<CompletionEntry>() as u32;
/// The state page comes first.
const FIRST_PAGE: u32 = 1;

/// One ring and its pages.
#[derive(Debug)]
pub(crate) struct CompletionRing {
    shape: RingShape,
    pages: PageList,
    producer: u32,
    /// The guest's index as last read.
    consumer: u32,
}

impl CompletionRing {
    /// A ring of `entries`, a power of two.
    pub(crate) fn new(entries: u32, pages: PageList) -> Self {
        Self {
            shape: RingShape::of(entries),
            pages,
            producer: 0,
            consumer: 0,
        }
    }

    /// Publishes an entry: its bytes first, then the producer index.
    pub(crate) fn push(
        &mut self,
        view: &View<'_>,
        entry: &CompletionEntry,
    ) -> Result<(), RingError> {
        self.make_room(view)?;
        let slot = self.shape.slot(self.producer);
        let at = entry_address(&self.pages, FIRST_PAGE, slot, ENTRY_BYTES)?;
        view.write(at, entry.as_bytes())?;
        self.producer = self.shape.next(self.producer);
        view.store_u32_release(self.state()?, self.producer)?;
        Ok(())
    }

    fn make_room(&mut self, view: &View<'_>) -> Result<(), RingError> {
        if self.filled() < self.shape.usable() || self.unconsumed(view)? < self.shape.usable() {
            return Ok(());
        }
        Err(RingError::Full)
    }

    /// Entries that the guest has not taken; reads its index.
    pub(crate) fn unconsumed(&mut self, view: &View<'_>) -> Result<u32, RingError> {
        let consumer = view.load_u32_acquire(self.state()? + CONSUMER)?;
        let filled = self.shape.filled(self.producer, consumer);
        let filled = filled.ok_or(RingError::Index)?;
        self.consumer = consumer;
        Ok(filled)
    }

    /// The guest's index as last read.
    pub(crate) fn consumer(&self) -> u32 {
        self.consumer
    }

    fn filled(&self) -> u32 {
        let filled = self.shape.filled(self.producer, self.consumer);
        filled.expect("the consumer index is checked before it is kept")
    }

    fn state(&self) -> Result<u64, RingError> {
        Ok(self.pages.page(0).ok_or(RingError::Unmapped)? + RECV_STATE)
    }
}
