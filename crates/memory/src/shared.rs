//! Pages that we own and a guest maps: doorbells, and RAM for tests.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use crate::{Fault, PAGE, Protection, kernel};

#[cfg(test)]
mod tests;

/// Zeroed pages in a memfd whose size is sealed: a process that maps them can change bytes but not take them away.
pub struct SharedPages {
    fd: OwnedFd,
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping is owned, lives as long as `self` and is only reached through atomics.
unsafe impl Send for SharedPages {}
// SAFETY: as above; every access by `&self` is atomic.
unsafe impl Sync for SharedPages {}

impl SharedPages {
    /// Makes `count` pages of [`PAGE`] bytes.
    pub fn new(count: usize) -> io::Result<Self> {
        let length = count
            .checked_mul(PAGE as usize)
            .ok_or(io::ErrorKind::InvalidInput)?;
        let fd = kernel::create(length as u64)?;
        Self::map(fd, length)
    }

    /// Takes over the pages of another process of ours, by their memfd.
    ///
    /// # Errors
    /// The memfd has another size, or the size is not sealed.
    pub fn resume(fd: OwnedFd, count: usize) -> io::Result<Self> {
        let length = count * PAGE as usize;
        let is_sealed = kernel::is_sealed(fd.as_fd())?;
        if !is_sealed || kernel::length(fd.as_fd())? != Some(length as u64) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::map(fd, length)
    }

    fn map(fd: OwnedFd, length: usize) -> io::Result<Self> {
        let start = kernel::map(fd.as_fd(), 0, length, Protection::BOTH)?;
        Ok(Self {
            fd,
            start: start.cast(),
            length,
        })
    }

    /// The memfd, to be sent to a process that maps the pages.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Reads the little-endian word at `offset`, which must be aligned and inside.
    pub fn load_u32(&self, offset: usize) -> Result<u32, Fault> {
        Ok(u32::from_le(self.word(offset)?.load(Acquire)))
    }

    /// Replaces the word at `offset`.
    pub fn store_u32(&self, offset: usize, value: u32) -> Result<(), Fault> {
        self.word(offset)?.store(value.to_le(), Release);
        Ok(())
    }

    /// Replaces the word at `offset` and returns the old one, atomically.
    pub fn swap_u32(&self, offset: usize, value: u32) -> Result<u32, Fault> {
        Ok(u32::from_le(self.word(offset)?.swap(value.to_le(), AcqRel)))
    }

    fn word(&self, offset: usize) -> Result<&AtomicU32, Fault> {
        let size = size_of::<u32>();
        if !offset.is_multiple_of(size) || offset >= self.length {
            return Err(Fault::Gone);
        }
        // SAFETY: aligned, and inside the mapping, which lives as long as `self` and cannot shrink because its size is
        // sealed; our side reaches the bytes only by atomics.
        Ok(unsafe { AtomicU32::from_ptr(self.start.add(offset).cast()) })
    }
}

impl Drop for SharedPages {
    fn drop(&mut self) {
        // SAFETY: the whole mapping made by `new`; no borrow of `self` is left.
        unsafe { kernel::unmap(self.start.cast(), self.length) };
    }
}
