//! Files in memory, and their mappings by the kernel.
//!
//! Miri supports no shared mappings. Its runs use a stand-in (`interpreted.rs`), so that all other code of this room is
//! what ships.

#[cfg(miri)]
mod interpreted;

#[cfg(not(miri))]
pub(crate) use shipped::*;
#[cfg(miri)]
pub(crate) use stand_in::*;

#[cfg(not(miri))]
mod shipped {
    use std::ffi::c_void;
    use std::io;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::ptr;

    use rustix::fs::{
        FileType, MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs,
        ftruncate, memfd_create,
    };
    use rustix::io::Errno;
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

    use crate::{PAGE, Protection};

    /// `f_type` of hugetlbfs (linux/magic.h), whose mappings must be aligned to huge pages.
    const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

    /// Seals that fix the size for good.
    const SEALED: SealFlags = SealFlags::SHRINK
        .union(SealFlags::GROW)
        .union(SealFlags::SEAL);

    /// Makes a file in memory of `length` zeros, whose size is fixed.
    pub(crate) fn create(length: u64) -> io::Result<OwnedFd> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("vrdma-pages", flags)?;
        ftruncate(&fd, length)?;
        fcntl_add_seals(&fd, SEALED)?;
        Ok(fd)
    }

    /// Whether the size of a file in memory is fixed.
    pub(crate) fn is_sealed(fd: BorrowedFd<'_>) -> io::Result<bool> {
        Ok(fcntl_get_seals(fd)?.contains(SEALED))
    }

    /// Returns the length if it is a regular file.
    pub(crate) fn length(fd: BorrowedFd<'_>) -> Result<Option<u64>, Errno> {
        let status = fstat(fd)?;
        let is_regular = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
        Ok(is_regular.then_some(status.st_size as u64))
    }

    /// Returns the alignment that mappings of this file need.
    pub(crate) fn granule(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
        let system = fstatfs(fd)?;
        let huge = system.f_type as u64 == HUGETLBFS_MAGIC;
        Ok(if huge { system.f_bsize as u64 } else { PAGE })
    }

    /// Maps `length` bytes from `from` on, where the kernel likes.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        from: u64,
        length: usize,
        may: Protection,
    ) -> Result<*mut c_void, Errno> {
        let mut rights = ProtFlags::empty();
        rights.set(ProtFlags::READ, may.read);
        rights.set(ProtFlags::WRITE, may.write);
        // SAFETY: the kernel chooses the place, so no mapping of ours is replaced.
        unsafe { mmap(ptr::null_mut(), length, rights, MapFlags::SHARED, fd, from) }
    }

    /// Keeps a mapping out of core dumps.
    ///
    /// # Safety
    /// It is a whole mapping of the caller's.
    pub(crate) unsafe fn hide(start: *mut c_void, length: usize) -> Result<(), Errno> {
        // SAFETY: the advice concerns only that mapping, and no contents.
        unsafe { madvise(start, length, Advice::LinuxDontDump) }
    }

    /// Takes a part of a mapping out of the page table, as far as the kernel can: huge pages of a GiB stay.
    ///
    /// # Safety
    /// It is in a shared mapping of the caller's.
    pub(crate) unsafe fn take_out(start: *mut c_void, length: usize) {
        // SAFETY: in a shared mapping, only page table entries are dropped; the contents are the file's.
        let _ = unsafe { madvise(start, length, Advice::LinuxDontNeed) };
    }

    /// Ends a mapping.
    ///
    /// # Safety
    /// It is a whole mapping of the caller's, to which no pointer is used any more.
    pub(crate) unsafe fn unmap(start: *mut c_void, length: usize) {
        // SAFETY: as the caller promises.
        let result = unsafe { munmap(start, length) };
        debug_assert!(result.is_ok(), "a whole mapping can be unmapped");
    }
}

/// The stand-in, with the same functions as above.
#[cfg(miri)]
mod stand_in {
    use std::ffi::c_void;
    use std::os::fd::BorrowedFd;

    use rustix::io::Errno;

    use super::interpreted;
    pub(crate) use super::interpreted::{create, is_known as is_sealed};
    use crate::{PAGE, Protection};

    pub(crate) fn length(fd: BorrowedFd<'_>) -> Result<Option<u64>, Errno> {
        interpreted::length(fd).map(Some).map_err(|_| Errno::BADF)
    }

    pub(crate) fn granule(_: BorrowedFd<'_>) -> Result<u64, Errno> {
        Ok(PAGE)
    }

    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        from: u64,
        length: usize,
        _: Protection,
    ) -> Result<*mut c_void, Errno> {
        let start = interpreted::map(fd, from, length);
        start.map(<*mut u8>::cast).map_err(|_| Errno::INVAL)
    }

    pub(crate) unsafe fn hide(_: *mut c_void, _: usize) -> Result<(), Errno> {
        Ok(())
    }

    pub(crate) unsafe fn take_out(_: *mut c_void, _: usize) {}

    pub(crate) unsafe fn unmap(_: *mut c_void, _: usize) {}
}
