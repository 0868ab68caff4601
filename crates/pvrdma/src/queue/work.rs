//! Send, receive and shared receive rings: the guest produces, the device consumes.
//!
//! ```text
//!   released ≤ fetched ≤ producer ≤ released + slots        (around the circle)
//!      │          │          └ the guest's index, as last read and checked
//!      │          └ next entry to copy
//!      └ consumer index for the guest to see: entries before it may be overwritten
//! ```

use vrdma_memory::{PAGE, PageList, View};

use super::{RingError, entry_address};
use crate::abi::work::{RECV_HEADER_BYTES, SEND_HEADER_BYTES, SGE_BYTES};
use crate::ring::{CONSUMER, RingShape};

/// Location and geometry of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WorkArea {
    /// Entries, a power of two.
    pub(crate) slots: u32,
    /// Bytes of one entry, a power of two up to a page.
    pub(crate) stride: u32,
    /// First page of the ring in the object's page list.
    pub(crate) first_page: u32,
    /// Offset of its indices in the state page.
    pub(crate) state: u64,
}

impl WorkArea {
    /// Pages that its entries take.
    pub(crate) fn pages(&self) -> u64 {
        (u64::from(self.slots) * u64::from(self.stride)).div_ceil(PAGE)
    }
}

/// Bytes of a send entry for `sges` buffers, at most 128.
pub(crate) fn send_stride(sges: u32) -> u32 {
    (SEND_HEADER_BYTES as u32 + sges * SGE_BYTES as u32).next_power_of_two()
}

/// Bytes of a receive entry for `sges` buffers, at most 128.
pub(crate) fn recv_stride(sges: u32) -> u32 {
    (RECV_HEADER_BYTES as u32 + sges * SGE_BYTES as u32).next_power_of_two()
}

/// One ring.
#[derive(Debug)]
pub(crate) struct WorkRing {
    shape: RingShape,
    area: WorkArea,
    producer: u32,
    fetched: u32,
    released: u32,
    /// The consumer index that the guest sees.
    shown: u32,
}

impl WorkRing {
    pub(crate) fn new(area: WorkArea) -> Self {
        Self {
            shape: RingShape::of(area.slots),
            area,
            producer: 0,
            fetched: 0,
            released: 0,
            shown: 0,
        }
    }

    /// Resumes a ring whose entries before `released` are done; those after it are fetched again. False if the index is
    /// impossible.
    pub(crate) fn resume(&mut self, released: u32) -> bool {
        (self.producer, self.fetched, self.released) = (released, released, released);
        // No index that the guest can have seen.
        self.shown = u32::MAX;
        self.shape.filled(released, released).is_some()
    }

    /// The index before which all entries are done.
    pub(crate) fn released(&self) -> u32 {
        self.released
    }

    /// Sets all indices to zero, as the guest does when the queue pair is reset.
    pub(crate) fn restart(&mut self) {
        (self.producer, self.fetched) = (0, 0);
        (self.released, self.shown) = (0, 0);
    }

    /// Bytes of one entry.
    pub(crate) fn stride(&self) -> u32 {
        self.area.stride
    }

    /// Entries that can be fetched; the guest's index is read only when the known ones are used up.
    pub(crate) fn available(
        &mut self,
        view: &View<'_>,
        pages: &PageList,
    ) -> Result<u32, RingError> {
        if self.producer == self.fetched {
            self.refresh(view, pages)?;
        }
        Ok(self.known())
    }

    /// Reads the guest's index and returns how many entries can be fetched.
    pub(crate) fn refresh(&mut self, view: &View<'_>, pages: &PageList) -> Result<u32, RingError> {
        let producer = view.load_u32_acquire(self.state(pages)?)?;
        let held = self.shape.filled(self.fetched, self.released);
        let filled = self.shape.filled(producer, self.released);
        // A producer index before the fetched entries is as impossible as one too far ahead.
        if filled < held || filled.is_none() {
            return Err(RingError::Index);
        }
        self.producer = producer;
        self.assert_order();
        Ok(self.known())
    }

    fn known(&self) -> u32 {
        let known = self.shape.filled(self.producer, self.fetched);
        known.expect("the producer index is checked before it is kept")
    }

    /// Takes the next entry and returns its bus address.
    pub(crate) fn fetch(&mut self, pages: &PageList) -> Result<u64, RingError> {
        let slot = self.shape.slot(self.fetched);
        self.fetched = self.shape.next(self.fetched);
        self.assert_order();
        entry_address(pages, self.area.first_page, slot, self.area.stride)
    }

    /// Marks the `count` oldest entries in use as done.
    pub(crate) fn release(&mut self, count: u32) {
        self.released = self.shape.after(self.released, count);
        self.assert_order();
    }

    /// Asserts the order in the diagram above.
    fn assert_order(&self) {
        let behind_released = |index| self.shape.filled(index, self.released);
        debug_assert!(
            behind_released(self.producer)
                .is_some_and(|all| behind_released(self.fetched).is_some_and(|held| held <= all)),
            "released <= fetched <= producer <= released + slots: {self:?}"
        );
    }

    /// Lets the guest reuse the entries that are done, if it does not know of all of them.
    pub(crate) fn show_released(
        &mut self,
        view: &View<'_>,
        pages: &PageList,
    ) -> Result<(), RingError> {
        if self.shown != self.released {
            view.store_u32_release(self.state(pages)? + CONSUMER, self.released)?;
            self.shown = self.released;
        }
        Ok(())
    }

    fn state(&self, pages: &PageList) -> Result<u64, RingError> {
        Ok(pages.page(0).ok_or(RingError::Unmapped)? + self.area.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Strides against the reference's table 8.1.
    #[test]
    fn strides_are_the_driver_s() {
        let rows = [
            (1, 128, 32),
            (2, 128, 64),
            (3, 128, 64),
            (4, 256, 128),
            (7, 256, 128),
            (8, 256, 256),
            (11, 256, 256),
            (15, 512, 256),
            (16, 512, 512),
            (27, 512, 512),
            (28, 1024, 512),
            (31, 1024, 512),
            (32, 1024, 1024),
        ];
        for (sges, send, recv) in rows {
            assert_eq!(
                (send_stride(sges), recv_stride(sges)),
                (send, recv),
                "{sges}"
            );
        }
    }
}
