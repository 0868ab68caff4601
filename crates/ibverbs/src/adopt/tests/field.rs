//! Plain memory of a test.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Pages in a mapping of their own; the first is at a multiple of a huge page.
pub(super) struct Field {
    whole: Range,
    range: Range,
    has_holes: AtomicBool,
}

impl Field {
    pub(super) fn new(pages: usize) -> Self {
        let (size, rights) = (pages * PAGE, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the kernel chooses the place.
        let at = unsafe { kernel::map_private(0, size + HUGE, rights, 0) }.expect("room");
        Self {
            whole: Range::of(at, size + HUGE),
            range: Range::of(at.next_multiple_of(HUGE), size),
            has_holes: AtomicBool::new(false),
        }
    }

    pub(super) fn start(&self) -> usize {
        self.range.start
    }

    /// Notes that some of the mapping is gone, where another test may have its memory by now: none of it is unmapped at
    /// the end.
    pub(super) fn note_holes(&self) {
        self.has_holes.store(true, Ordering::Relaxed);
    }

    pub(super) fn range(&self) -> Range {
        self.range
    }

    /// Sets all bytes.
    pub(super) fn fill(&self, byte: u8) {
        (0..self.range.size() / PAGE).for_each(|page| self.fill_page(page, byte));
    }

    pub(super) fn fill_page(&self, page: usize, byte: u8) {
        let at = (self.range.start + page * PAGE) as *mut [u8; PAGE];
        // SAFETY: a page of the field.
        unsafe { at.write_volatile([byte; PAGE]) };
    }

    pub(super) fn page(&self, page: usize) -> [u8; PAGE] {
        let at = (self.range.start + page * PAGE) as *const [u8; PAGE];
        // SAFETY: a page of the field.
        unsafe { at.read_volatile() }
    }

    /// Whether all bytes are `byte`.
    pub(super) fn is_filled(&self, byte: u8) -> bool {
        (0..self.range.size() / PAGE).all(|page| self.page(page) == [byte; PAGE])
    }

    pub(super) fn is_adopted(&self, range: Range) -> bool {
        let run = tools(|| None).ok().and_then(|tools| tools.run(range).ok());
        run == Some((range, true))
    }

    /// Returns the file's byte for an address.
    pub(super) fn in_file(&self, address: usize) -> u8 {
        let (file, mut byte) = (tools(|| None).expect("tools").descriptor(), 0u8);
        // SAFETY: room for one byte.
        let read = unsafe { libc::pread(file, (&raw mut byte).cast(), 1, address as i64) };
        assert_eq!(read, 1);
        byte
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        if self.has_holes.load(Ordering::Relaxed) {
            return;
        }
        let at = self.whole.start as *mut core::ffi::c_void;
        // SAFETY: the test is over, and nobody uses it any more.
        unsafe { calls::vrdma_memory_munmap(at, self.whole.size()) };
    }
}
