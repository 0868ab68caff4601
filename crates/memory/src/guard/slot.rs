//! A guarded range, as the handler reads it while others change it. A slot that is vacant has another range later.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::words::{AtomicBool, AtomicUsize, fence};

/// See the module. `end` is zero while the slot is vacant or changing.
pub(super) struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    lost: AtomicBool,
}

impl Slot {
    /// One that is vacant, of zeros.
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

    /// The range, when it holds `address`. Reading `end` on both sides of `start` leaves out a slot
    /// that another thread is changing: the range of a live access never changes.
    pub(super) fn range_around(&self, address: usize) -> Option<(usize, usize)> {
        let end = self.end.load(Acquire);
        let start = self.start.load(Acquire);
        let steady = self.end.load(Acquire) == end;
        (steady && start <= address && address < end).then_some((start, end))
    }

    /// An access has hit a hole: say so before zeros are put in its place.
    pub(super) fn lose(&self) {
        self.lost.store(true, Release);
    }

    /// Whether one has, asked after the access.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        fence(Acquire);
        self.lost.load(Relaxed)
    }
}
