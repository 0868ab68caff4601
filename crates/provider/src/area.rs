//! Memory that both ends map: the daemon makes it and seals it, so that its size cannot change.
//!
//! The other end may change any byte at any moment. So bytes are copied, never borrowed, and words
//! that both ends use are atomics.

mod kernel;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use zerocopy::{FromBytes, Immutable, IntoBytes};

const PAGE: usize = 4096;

/// A mapped area, or a part of one. Offsets beyond its end panic: every caller has checked its geometry once.
#[derive(Debug)]
pub struct Area {
    start: *mut u8,
    length: usize,
    /// Keeps the mapping that `start` points into.
    mapping: Arc<Mapping>,
}

/// A mapping, which ends with the last area in it.
#[derive(Debug)]
struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping is not tied to a thread, and only its drop ends it.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives access to nothing.
unsafe impl Sync for Mapping {}
// SAFETY: the mapping is not tied to a thread; its bytes are only reached by copies
// through raw pointers and by atomics.
unsafe impl Send for Area {}
// SAFETY: as above; `&Area` allows plain copies into it from two threads, which tears bytes that the
// other end can tear anyway, and nothing is decided twice on what was read.
unsafe impl Sync for Area {}

impl Area {
    /// Makes a zeroed, sealed area, and the descriptor for the other end.
    pub fn create(name: &str, length: usize) -> io::Result<(Self, OwnedFd)> {
        let fd = kernel::create(name, length)?;
        Ok((Self::new(fd.as_fd(), 0, length)?, fd))
    }

    /// Maps all `length` bytes of a file that the other end made and that must be sealed.
    pub fn map(fd: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        Self::map_from(fd, 0, length)
    }

    /// Maps `length` bytes of the file from `offset` on, a multiple of the page size.
    pub fn map_from(fd: BorrowedFd<'_>, offset: usize, length: usize) -> io::Result<Self> {
        let size = kernel::size_that_stays(fd)?;
        let end = offset.checked_add(length);
        let is_inside = end.is_some_and(|end| end as u64 <= size);
        if !is_inside || !offset.is_multiple_of(PAGE) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::new(fd, offset, length)
    }

    /// Maps the whole file.
    pub fn map_all(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Self::map(fd, kernel::size_that_stays(fd)? as usize)
    }

    fn new(fd: BorrowedFd<'_>, offset: usize, length: usize) -> io::Result<Self> {
        let start = kernel::map(fd, offset, length)?;
        Ok(Self {
            start,
            length,
            mapping: Arc::new(Mapping { start, length }),
        })
    }

    /// Returns `length` bytes of the area from `offset` on, a multiple of the page size, in the same mapping; `None` if
    /// they exceed the area.
    pub fn part(&self, offset: usize, length: usize) -> Option<Self> {
        let end = offset.checked_add(length)?;
        (end <= self.length && offset.is_multiple_of(PAGE)).then(|| Self {
            start: self.start.wrapping_add(offset),
            length,
            mapping: Arc::clone(&self.mapping),
        })
    }

    /// Zeroes whole pages and frees the memory behind them.
    pub fn clear(&self) {
        // SAFETY: inside the mapping, on which no references are made.
        unsafe { kernel::clear(self.start, self.length) };
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    fn check(&self, offset: usize, length: usize) {
        let inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.length);
        assert!(inside, "accesses stay inside the area");
    }

    /// Returns the word at `offset`, a multiple of 4.
    #[inline]
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        self.check(offset, 4);
        assert!(offset.is_multiple_of(4), "words are aligned");
        // SAFETY: aligned (mappings begin on a page) and inside the mapping, which lives as long as
        // the borrow; both ends use this word by atomics only.
        unsafe { AtomicU32::from_ptr(self.start.add(offset).cast()) }
    }

    /// Returns the word at `offset`, a multiple of 8.
    #[inline]
    pub fn u64(&self, offset: usize) -> &AtomicU64 {
        self.check(offset, 8);
        assert!(offset.is_multiple_of(8), "words are aligned");
        // SAFETY: as for `u32`.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast()) }
    }

    /// Copies bytes in.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: inside the mapping, which `bytes`, a reference of ours, cannot overlap.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len()) }
    }

    /// Copies bytes out; they may be torn.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        self.check(offset, out.len());
        // SAFETY: as for `write`. The other end may write meanwhile: the copy is private afterwards and is checked
        // then.
        unsafe { ptr::copy_nonoverlapping(self.start.add(offset), out.as_mut_ptr(), out.len()) }
    }

    /// Copies bytes in from the program's own memory.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline]
    pub unsafe fn write_from(&self, offset: usize, from: *const u8, length: usize) {
        self.check(offset, length);
        // SAFETY: readable as promised, and the target is inside the mapping.
        unsafe { ptr::copy(from, self.start.add(offset), length) }
    }

    /// Copies bytes out to the program's own memory.
    ///
    /// # Safety
    /// `to` is writable for `length` bytes.
    #[inline]
    pub unsafe fn read_to(&self, offset: usize, to: *mut u8, length: usize) {
        self.check(offset, length);
        // SAFETY: writable as promised, and the source is inside the mapping.
        unsafe { ptr::copy(self.start.add(offset), to, length) }
    }

    /// Copies a structure in.
    #[inline]
    pub fn put<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) {
        self.write(offset, value.as_bytes());
    }

    /// Copies a structure out.
    #[inline]
    pub fn get<T: FromBytes + IntoBytes>(&self, offset: usize) -> T {
        let mut value = T::new_zeroed();
        self.read(offset, value.as_mut_bytes());
        value
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole mapping made by `Area::new`; no area in it is left.
        unsafe { kernel::unmap(self.start, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    #[test]
    fn both_ends_see_the_same_bytes() {
        let (ours, fd) = Area::create("test", 4096).unwrap();
        let theirs = Area::map(fd.as_fd(), 4096).unwrap();
        ours.u64(8).store(7, Relaxed);
        theirs.write(100, b"abc");
        let mut bytes = [0; 3];
        ours.read(100, &mut bytes);
        assert_eq!((theirs.u64(8).load(Relaxed), &bytes), (7, b"abc"));
    }

    #[test]
    fn what_could_shrink_or_is_short_is_not_mapped() {
        let (_area, fd) = Area::create("test", 4096).unwrap();
        assert!(Area::map(fd.as_fd(), 8192).is_err());
        let plain = memfd_create("plain", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&plain, 4096).unwrap();
        assert!(Area::map(plain.as_fd(), 4096).is_err());
        assert!(ftruncate(&fd, 0).is_err());
    }

    #[test]
    fn a_part_is_zeroed_alone_and_keeps_the_mapping() {
        let (whole, fd) = Area::create("test", 3 * 4096).unwrap();
        for (offset, length) in [(100, 4096), (8192, 4097), (usize::MAX - 4095, 4096)] {
            assert!(whole.part(offset, length).is_none(), "{offset} {length}");
            assert!(Area::map_from(fd.as_fd(), offset, length).is_err());
        }
        whole.write(0, &[1; 3 * 4096]);
        let part = whole.part(4096, 4096).unwrap();
        drop(whole);
        let theirs = Area::map_from(fd.as_fd(), 4096, 4096).unwrap();
        part.u32(8).store(7, Relaxed);
        assert_eq!(theirs.u32(8).load(Relaxed), 7);
        part.clear();
        assert_eq!(theirs.u32(8).load(Relaxed), 0);
        let all = Area::map_all(fd.as_fd()).unwrap();
        assert_eq!(all.length(), 3 * 4096);
        let bytes = [4095, 4096, 8191, 8192].map(|at| {
            let mut byte = [9];
            all.read(at, &mut byte);
            byte[0]
        });
        assert_eq!(bytes, [1, 0, 0, 1]);
    }

    #[test]
    #[should_panic(expected = "inside the area")]
    fn nobody_reaches_beyond_the_end() {
        let (area, _fd) = Area::create("test", 4096).unwrap();
        area.write(4090, &[0; 7]);
    }
}
