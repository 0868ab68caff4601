//! The two rings of the device itself, events and completion notifications, with the entries that wait for room in
//! them.

use std::collections::VecDeque;

use vrdma_memory::{PAGE, PageList, Right, View};
use zerocopy::{Immutable, IntoBytes};

use super::{RingError, entry_address};
use crate::ring::{CONSUMER, RECV_STATE, RingShape};

/// The state page comes first.
const FIRST_PAGE: u32 = 1;

/// A ring of entries `T` that the driver drains in an interrupt handler.
///
/// Entries that find the ring full wait in order. Callers offer each entry at most once until it is
/// in the ring, so the number of objects bounds the queue.
#[derive(Debug)]
pub(crate) struct DeviceRing<T> {
    shape: RingShape,
    pages: PageList,
    producer: u32,
    waiting: VecDeque<T>,
}

impl<T: Copy + PartialEq + IntoBytes + Immutable> DeviceRing<T> {
    /// A ring over the state page and one or more pages of entries.
    pub(crate) fn new(pages: PageList) -> Self {
        let elements = (pages.count() - FIRST_PAGE) * PAGE as u32 / size_of::<T>() as u32;
        Self {
            shape: RingShape::of(elements),
            pages,
            producer: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Continues after the last entry that the guest was shown.
    pub(crate) fn resume(&mut self, view: &View<'_>) -> Result<(), RingError> {
        self.producer = view.load_u32_acquire(self.state()?)?;
        self.pending(view).map(drop)
    }

    /// Whether entries wait for room.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Queues an entry, unless the same one waits already.
    pub(crate) fn offer(&mut self, entry: T) {
        if !self.waiting.contains(&entry) {
            self.waiting.push_back(entry);
        }
    }

    /// Forgets waiting entries that are not wanted any more.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(keep);
    }

    /// Moves entries into the ring as long as they fit; true if any did, so the vector must be raised.
    pub(crate) fn flush(&mut self, view: &View<'_>) -> Result<bool, RingError> {
        if self.waiting.is_empty() {
            return Ok(false);
        }
        let mut room = self.shape.usable() - self.pending(view)?;
        let mut moved = false;
        while room > 0 {
            let Some(entry) = self.waiting.pop_front() else {
                break;
            };
            self.write(view, &entry)?;
            (room, moved) = (room - 1, true);
        }
        Ok(moved)
    }

    /// Whether all of its pages are still there.
    pub(crate) fn is_mapped(&self, view: &View<'_>) -> bool {
        let pages = (0..self.pages.count()).filter_map(|index| self.pages.page(index));
        pages
            .into_iter()
            .all(|page| view.check(page, PAGE, Right::Write).is_ok())
    }

    fn pending(&self, view: &View<'_>) -> Result<u32, RingError> {
        let consumer = view.load_u32_acquire(self.state()? + CONSUMER)?;
        let pending = self.shape.filled(self.producer, consumer);
        pending.ok_or(RingError::Index)
    }

    fn write(&mut self, view: &View<'_>, entry: &T) -> Result<(), RingError> {
        let slot = self.shape.slot(self.producer);
        let at = entry_address(&self.pages, FIRST_PAGE, slot, size_of::<T>() as u32)?;
        view.write(at, entry.as_bytes())?;
        self.producer = self.shape.next(self.producer);
        view.store_u32_release(self.state()?, self.producer)?;
        Ok(())
    }

    fn state(&self) -> Result<u64, RingError> {
        Ok(self.pages.page(0).ok_or(RingError::Unmapped)? + RECV_STATE)
    }
}
