//! Memory that both ends map: made and sealed by the daemon, so that it stays as large as it is.
//!
//! The other end may change any byte at any moment. So bytes are copied, never borrowed, and words
//! that both ends use are atomics.

mod kernel;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64};

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A mapped area. Offsets beyond it panic: every caller has checked its geometry once.
#[derive(Debug)]
pub struct Area {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping is owned and not tied to a thread; its bytes are only reached by copies
// through raw pointers and by atomics.
unsafe impl Send for Area {}
// SAFETY: as above; `&Area` allows plain copies into it from two threads, which tears bytes that the
// other end can tear anyway, and nothing is decided twice on what was read.
unsafe impl Sync for Area {}

impl Area {
    /// Makes a zeroed, sealed area, and the descriptor for the other end.
    pub fn create(name: &str, length: usize) -> io::Result<(Self, OwnedFd)> {
        let fd = kernel::create(name, length)?;
        Ok((Self::new(fd.as_fd(), length)?, fd))
    }

    /// Maps what the other end made. It must be sealed and as long as it says.
    pub fn map(fd: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        if kernel::size_that_stays(fd)? < length as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::new(fd, length)
    }

    fn new(fd: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        let start = kernel::map(fd, length)?;
        Ok(Self { start, length })
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    fn check(&self, offset: usize, length: usize) {
        let inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.length);
        assert!(inside, "accesses stay inside the area");
    }

    /// The word at `offset`, a multiple of 4.
    #[inline]
    pub fn u32(&self, offset: usize) -> &AtomicU32 {
        self.check(offset, 4);
        assert!(offset.is_multiple_of(4), "words are aligned");
        // SAFETY: aligned (mappings begin on a page) and inside the mapping, which lives as long as
        // the borrow; both ends use this word by atomics only.
        unsafe { AtomicU32::from_ptr(self.start.add(offset).cast()) }
    }

    /// The word at `offset`, a multiple of 8.
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
        // SAFETY: as for `write`. The other end may write meanwhile: the copy is private afterwards
        // and is checked then.
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

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the whole mapping made by `new`; no borrow of `self` is left.
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
    #[should_panic(expected = "inside the area")]
    fn nobody_reaches_beyond_the_end() {
        let (area, _fd) = Area::create("test", 4096).unwrap();
        area.write(4090, &[0; 7]);
    }
}
