//! Records which parts of a mapping long accesses have had put into the page table.
//!
//! Memory that is registered once and moved whole, like a migrating VM's, is touched by this process for the first time
//! while it is copied: with a page fault for each 4 KiB, which takes twice as long as its copy. But at a fault that
//! only reads, the kernel maps all pages around it that the file already has, 64 KiB unless `fault_around_bytes` says
//! otherwise, and for writing as well, since the mapping is shared. So a byte of each granule is read before a long
//! copy. (For each page, with the copy of one byte: 1140 ns by faults that write, 730 by MADV_POPULATE_WRITE, 325 by
//! MADV_POPULATE_READ, 230 by this method.) Pages that the file does not have yet fault one by one.
//!
//! The granules at both ends of the access are included, though it covers only a part of each: otherwise memory that
//! moves in long pieces of any alignment would fault at each page of them.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes that one bit stands for, which the kernel maps at once. Shorter accesses fault as they go.
pub(crate) const GRANULE: usize = 64 << 10;

const BITS: usize = u64::BITS as usize;

/// One bit for each granule of an area: set when it was touched before a long access.
pub(crate) struct Populated {
    words: Box<[AtomicU64]>,
}

impl Populated {
    /// Makes a record of an area of `length` bytes, none of which were touched.
    pub(crate) fn new(length: usize) -> Self {
        let words = length.div_ceil(GRANULE * BITS);
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns the granules with any of `length` bytes from `offset` on that were not touched yet, and all between the
    /// first and the last of them; empty if there are none.
    #[inline]
    pub(crate) fn missing(&self, offset: usize, length: usize) -> Range<usize> {
        let accessed = offset / GRANULE..(offset + length).div_ceil(GRANULE);
        let is_missing = |granule: &usize| !self.has(*granule);
        let Some(first) = accessed.clone().find(is_missing) else {
            return 0..0;
        };
        let last = accessed.rev().find(is_missing);
        first..last.map_or(first, |last| last + 1)
    }

    /// Records that these granules were touched.
    pub(crate) fn note(&self, granules: Range<usize>) {
        for granule in granules {
            self.words[granule / BITS].fetch_or(1 << (granule % BITS), Relaxed);
        }
    }

    fn has(&self, granule: usize) -> bool {
        self.words[granule / BITS].load(Relaxed) & (1 << (granule % BITS)) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{GRANULE, Populated};

    #[test]
    fn all_granules_of_an_access_are_touched_and_each_once() {
        let populated = Populated::new(100 * GRANULE);
        assert_eq!(populated.missing(0, GRANULE), 0..1);
        assert_eq!(populated.missing(1, GRANULE), 0..2);
        assert_eq!(populated.missing(2 * GRANULE - 1, GRANULE + 2), 1..4);
        assert_eq!(populated.missing(62 * GRANULE, 4 * GRANULE), 62..66);
        populated.note(62..66);
        assert!(populated.missing(62 * GRANULE, 4 * GRANULE).is_empty());
        assert_eq!(populated.missing(61 * GRANULE, 4 * GRANULE), 61..62);
        assert_eq!(populated.missing(61 * GRANULE, 6 * GRANULE), 61..67);
    }
}
