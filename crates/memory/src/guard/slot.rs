//! A guarded range, as the handler reads it while other threads change it. A vacant slot is used for another range
//! later.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::words::{AtomicBool, AtomicUsize, fence};

/// A slot of the handler's table. `end` is zero while the slot is vacant or changing.
pub(super) struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

impl Slot {
    /// Makes a vacant slot, of zeros.
    pub(super) const fn of(start: AtomicUsize, end: AtomicUsize, lost: AtomicBool) -> Self {
        Self { start, end, lost }
    }

    pub(super) fn publish(&self, start: usize, end: usize) {
        self.lost.store(false, Relaxed);
        self.start.store(start, Release);
        self.end.store(end, Release);
    }

    pub(super) fn withdraw(&self) {
        self.end.store(0, Release);
    }

    /// Returns the range if it holds `address`. Reading `end` before and after `start` rules out a slot that another
    /// thread is changing: the range of a live access never changes.
    pub(super) fn range_around(&self, address: usize) -> Option<(usize, usize)> {
        let end = self.end.load(Acquire);
        let start = self.start.load(Acquire);
        let steady = self.end.load(Acquire) == end;
        (steady && start <= address && address < end).then_some((start, end))
    }

    /// Marks that an access has hit a hole, before zeros are put in its place.
    pub(super) fn lose(&self) {
        self.lost.store(true, Release);
    }

    /// Whether an access has hit a hole, to be asked after the access.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        fence(Acquire);
        self.lost.load(Relaxed)
    }
}
