//! A completion ring: the device produces, the guest consumes.
//!
//! ```text
//!   consumer ≤ published ≤ producer ≤ consumer + slots        (around the circle)
//!      │           │          └ next entry to write
//!      │           └ producer index that the guest sees
//!      └ the guest's index, as last read and checked
//! ```

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
    published: u32,
    consumer: u32,
}

impl CompletionRing {
    /// A ring of `entries`, a power of two.
    pub(crate) fn new(entries: u32, pages: PageList) -> Self {
        Self {
            shape: RingShape::of(entries),
            pages,
            producer: 0,
            published: 0,
            consumer: 0,
        }
    }

    /// Resumes a ring with entries before `written` that the guest may not have been shown. [`publish`](Self::publish)
    /// them after the slots that they free are shown. False if the index is impossible.
    pub(crate) fn resume(&mut self, view: &View<'_>, written: u32) -> bool {
        let Ok(consumer) = self.state().map(|state| state + CONSUMER) else {
            return false;
        };
        let consumer = view.load_u32_acquire(consumer).unwrap_or(u32::MAX);
        if self.shape.filled(written, consumer).is_none() {
            return false;
        }
        (self.producer, self.published, self.consumer) = (written, written, consumer);
        true
    }

    /// The index after the last entry written.
    pub(crate) fn written(&self) -> u32 {
        self.producer
    }

    /// Writes an entry after the last; the guest does not see it yet.
    pub(crate) fn write(
        &mut self,
        view: &View<'_>,
        entry: &CompletionEntry,
    ) -> Result<(), RingError> {
        self.make_room(view)?;
        let slot = self.shape.slot(self.producer);
        let at = entry_address(&self.pages, FIRST_PAGE, slot, ENTRY_BYTES)?;
        view.write(at, entry.as_bytes())?;
        self.producer = self.shape.next(self.producer);
        self.assert_order();
        Ok(())
    }

    /// Shows the guest everything written.
    pub(crate) fn publish(&mut self, view: &View<'_>) -> Result<(), RingError> {
        view.store_u32_release(self.state()?, self.producer)?;
        self.published = self.producer;
        self.assert_order();
        Ok(())
    }

    fn make_room(&mut self, view: &View<'_>) -> Result<(), RingError> {
        if self.filled() == self.shape.usable() {
            self.unconsumed(view)?;
        }
        match self.filled() < self.shape.usable() {
            true => Ok(()),
            false => Err(RingError::Full),
        }
    }

    /// Number of published entries that the guest has not taken; reads the guest's index.
    pub(crate) fn unconsumed(&mut self, view: &View<'_>) -> Result<u32, RingError> {
        let consumer = view.load_u32_acquire(self.state()? + CONSUMER)?;
        // An index that moves back can be consistent with the published entries and not with the rest.
        let all = self.shape.filled(self.producer, consumer);
        let published = self.shape.filled(self.published, consumer);
        let (Some(_), Some(published)) = (all, published) else {
            return Err(RingError::Index);
        };
        self.consumer = consumer;
        self.assert_order();
        Ok(published)
    }

    /// Asserts the order in the diagram above.
    fn assert_order(&self) {
        let behind_consumer = |index| self.shape.filled(index, self.consumer);
        debug_assert!(
            behind_consumer(self.producer).is_some_and(
                |all| behind_consumer(self.published).is_some_and(|shown| shown <= all)
            ),
            "consumer <= published <= producer <= consumer + slots: {self:?}"
        );
    }

    /// The guest's index as last read.
    pub(crate) fn consumer(&self) -> u32 {
        self.consumer
    }

    /// Entries between the guest's index and the producer index.
    fn filled(&self) -> u32 {
        let filled = self.shape.filled(self.producer, self.consumer);
        filled.expect("the consumer index is checked before it is kept")
    }

    fn state(&self) -> Result<u64, RingError> {
        Ok(self.pages.page(0).ok_or(RingError::Unmapped)? + RECV_STATE)
    }
}
