//! The log of pages that the device has written, which live migration must send again.
//!
//! The log costs nothing while it is off. It holds one bit a page for every map; a map made while the log is on starts
//! clean. The bits of a map go with the map: take the log before unmapping.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use crate::map::Map;
use crate::{PAGE, Space};

#[cfg(test)]
mod tests;

const BITS: usize = u64::BITS as usize;

/// Adjacent pages that were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirtyRun {
    /// Bus address of the first page.
    pub iova: u64,
    /// Number of pages.
    pub pages: u64,
}

/// The log of one space, from [`Space::dirty_log`].
pub struct DirtyLog<'s> {
    space: &'s Space,
}

impl<'s> DirtyLog<'s> {
    pub(crate) fn new(space: &'s Space) -> Self {
        Self { space }
    }

    /// Starts logging, with all pages clean. Waits for the views; earlier writes are not in the log.
    pub fn enable(&self) {
        self.space.set_logging(true);
    }

    /// Stops logging and forgets the log.
    pub fn disable(&self) {
        self.space.set_logging(false);
    }

    /// Returns and clears the dirty pages that lie wholly in `range` (all: `0..u64::MAX`), in ascending order. A write
    /// that is going on is reported now or next time. There is at most one run for every two pages of the range, so a
    /// large guest should be asked for in pieces.
    pub fn take(&self, range: Range<u64>) -> Vec<DirtyRun> {
        let mut runs = Vec::new();
        for map in self.space.view().maps() {
            take_map(map, &range, &mut runs);
        }
        runs
    }

    /// Marks pages that were taken as dirty again, where they are still mapped.
    pub fn put_back(&self, runs: &[DirtyRun]) {
        let view = self.space.view();
        for run in runs {
            for map in view.maps() {
                put_back(map, *run);
            }
        }
    }

    /// The number of dirty pages, which stay dirty.
    pub fn pages(&self) -> u64 {
        let view = self.space.view();
        let bitmaps = view.maps().iter().filter_map(|map| map.dirty.as_ref());
        bitmaps.map(Bitmap::count).sum()
    }
}

fn take_map(map: &Map, range: &Range<u64>, runs: &mut Vec<DirtyRun>) {
    let Some(bitmap) = &map.dirty else { return };
    let from = range.start.clamp(map.iova, map.end()) - map.iova;
    let to = range.end.clamp(map.iova, map.end()) - map.iova;
    bitmap.take(from.div_ceil(PAGE) as usize..(to / PAGE) as usize, |page| {
        push(runs, map.iova + page as u64 * PAGE);
    });
}

fn put_back(map: &Map, run: DirtyRun) {
    let from = run.iova.max(map.iova);
    let to = run.iova.saturating_add(run.pages * PAGE).min(map.end());
    if let (Some(bitmap), true) = (&map.dirty, from < to) {
        bitmap.mark((from - map.iova) as usize, (to - from) as usize);
    }
}

fn push(runs: &mut Vec<DirtyRun>, iova: u64) {
    match runs.last_mut() {
        Some(run) if run.iova + run.pages * PAGE == iova => run.pages += 1,
        _ => runs.push(DirtyRun { iova, pages: 1 }),
    }
}

/// One bit a page of one map.
pub(crate) struct Bitmap {
    words: Box<[AtomicU64]>,
}

impl Bitmap {
    pub(crate) fn new(pages: usize) -> Self {
        let words = (0..pages.div_ceil(BITS))
            .map(|_| AtomicU64::new(0))
            .collect();
        Self { words }
    }

    /// Marks the pages of `length` bytes from byte `at` of the map.
    pub(crate) fn mark(&self, at: usize, length: usize) {
        if length == 0 {
            return;
        }
        let page = PAGE as usize;
        each_word(at / page..(at + length - 1) / page + 1, |word, mask| {
            self.words[word].fetch_or(mask, AcqRel);
        });
    }

    fn count(&self) -> u64 {
        let ones = |word: &AtomicU64| u64::from(word.load(Relaxed).count_ones());
        self.words.iter().map(ones).sum()
    }

    fn take(&self, pages: Range<usize>, mut dirty: impl FnMut(usize)) {
        each_word(pages, |word, mask| {
            let mut bits = self.words[word].fetch_and(!mask, AcqRel) & mask;
            while bits != 0 {
                dirty(word * BITS + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        });
    }
}

/// Cuts a range of bits into words and masks.
fn each_word(bits: Range<usize>, mut visit: impl FnMut(usize, u64)) {
    let mut bit = bits.start;
    while bit < bits.end {
        let (word, low) = (bit / BITS, bit % BITS);
        let count = (BITS - low).min(bits.end - bit);
        visit(word, (u64::MAX >> (BITS - count)) << low);
        bit += count;
    }
}
