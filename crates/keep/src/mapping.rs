//! A mapped area that one thread writes, in an order that holds whenever the process is killed.
//!
//! The next process finds what a killed thread stored before its last instruction, and nothing after it: processors
//! keep the order of one thread's stores for any thread that runs later. So only the compiler could change the order,
//! and [`Mapping::mark`] prevents that: it is to a kill what an atomic is to a signal handler.

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// An area, mapped. Offsets beyond it panic: callers have checked the geometry once.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut u8,
    length: usize,
    /// Stores that are still carried out: so a test can end a commit anywhere.
    #[cfg(test)]
    pub(crate) stores_left: u64,
}

// SAFETY: the mapping is owned and not tied to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes of a file in memory that is sealed against shrinking.
    pub(crate) fn new(fd: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so no mapping of ours is replaced.
        let start = unsafe { mmap(ptr::null_mut(), length, rights, MapFlags::SHARED, fd, 0) }?;
        let mapping = Self {
            start: start.cast(),
            length,
            #[cfg(test)]
            stores_left: u64::MAX,
        };
        // SAFETY: the advice concerns only the mapping just made, and no contents: a child of the
        // worker must not write records.
        unsafe { madvise(start, length, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    fn check(&self, offset: usize, length: usize) {
        let inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.length);
        assert!(inside, "accesses stay inside the area");
    }

    /// Returns the bytes at `offset`.
    #[inline]
    pub(crate) fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        self.check(offset, length);
        // SAFETY: inside the mapping, which lives as long as the borrow. One process has it mapped at a
        // time (the keeper never does, children do not inherit it), and its one writer needs `&mut self`.
        unsafe { slice::from_raw_parts(self.start.add(offset), length) }
    }

    /// Copies bytes in.
    #[cfg(not(test))]
    #[inline]
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: inside the mapping, which `bytes` cannot overlap: `&mut self` allows no borrow of it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len()) }
    }

    /// Copies bytes in, a few at a time, until `stores_left` is used up.
    #[cfg(test)]
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        for (index, piece) in bytes.chunks(8).enumerate() {
            if !self.may_store() {
                return;
            }
            // SAFETY: as a part of what was checked; `bytes` cannot overlap the mapping.
            unsafe {
                let to = self.start.add(offset + index * 8);
                ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len());
            }
        }
    }

    /// Copies bytes from one place of the area to another that does not overlap it.
    #[cfg(not(test))]
    #[inline]
    pub(crate) fn copy(&mut self, from: usize, to: usize, length: usize) {
        self.check(from, length);
        self.check(to, length);
        // SAFETY: both are inside the mapping; `copy` allows them to overlap.
        unsafe { ptr::copy(self.start.add(from), self.start.add(to), length) }
    }

    /// The same in small steps, like `write`.
    #[cfg(test)]
    pub(crate) fn copy(&mut self, from: usize, to: usize, length: usize) {
        let bytes = self.bytes(from, length).to_vec();
        self.write(to, &bytes);
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.check(offset, 8);
        assert!(offset.is_multiple_of(8), "words are aligned");
        // SAFETY: aligned (mappings begin on a page) and inside the mapping, which lives as long as the
        // borrow; marks are never written otherwise while they are borrowed.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    /// Returns the mark at `offset`, a multiple of 8.
    pub(crate) fn marked(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Stores a word after everything before it in the program, and before everything after it.
    #[inline]
    pub(crate) fn mark(&mut self, offset: usize, value: u64) {
        #[cfg(test)]
        if !self.may_store() {
            return;
        }
        self.word(offset).store(value, Ordering::Release);
        // `Release` keeps earlier stores before the mark; without the fence later ones could overtake it.
        compiler_fence(Ordering::SeqCst);
    }

    #[cfg(test)]
    fn may_store(&mut self) -> bool {
        let may = self.stores_left > 0;
        self.stores_left = self.stores_left.saturating_sub(1);
        may
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping made by `new`; no borrow of `self` is left.
        let result = unsafe { munmap(self.start.cast(), self.length) };
        debug_assert!(result.is_ok(), "a whole mapping can be unmapped");
    }
}
