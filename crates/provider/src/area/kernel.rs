//! Files in memory and their mappings, as the kernel makes them. Miri has no shared mappings: under it the same
//! stand-in is used as in the room `memory`.

#[cfg(miri)]
#[path = "../../../memory/src/kernel/interpreted.rs"]
mod interpreted;

#[cfg(not(miri))]
pub(super) use shipped::*;
#[cfg(miri)]
pub(super) use stand_in::*;

#[cfg(not(miri))]
mod shipped {
    use std::io;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::ptr;

    use rustix::fs::{
        MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
    };
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

    /// The seals of an area.
    const SEALS: SealFlags = SealFlags::SHRINK
        .union(SealFlags::GROW)
        .union(SealFlags::SEAL);

    /// Makes a file of `length` zeros whose size cannot change.
    pub(in crate::area) fn create(name: &str, length: usize) -> io::Result<OwnedFd> {
        let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, length as u64)?;
        fcntl_add_seals(&fd, SEALS)?;
        Ok(fd)
    }

    /// Returns the size of a file, and an error if somebody can make it smaller.
    pub(in crate::area) fn size_that_stays(fd: BorrowedFd<'_>) -> io::Result<u64> {
        let sealed = fcntl_get_seals(fd)?.contains(SealFlags::SHRINK);
        Ok(if sealed { fstat(fd)?.st_size as u64 } else { 0 })
    }

    /// Maps `length` bytes from `offset` on at an address that the kernel chooses. The mapping is left out of child
    /// processes and core dumps, which have no use for messages.
    pub(in crate::area) fn map(
        fd: BorrowedFd<'_>,
        offset: usize,
        length: usize,
    ) -> io::Result<*mut u8> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED;
        // SAFETY: the kernel chooses the place, so no mapping of ours is replaced.
        let start = unsafe { mmap(ptr::null_mut(), length, rights, flags, fd, offset as u64) }?;
        for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump] {
            // SAFETY: the advice concerns only the mapping just made, and no contents.
            let taken = unsafe { madvise(start, length, advice) };
            // SAFETY: nobody else knows of the mapping.
            taken.inspect_err(|_| unsafe { unmap(start.cast(), length) })?;
        }
        Ok(start.cast())
    }

    /// Zeroes whole pages, and frees the memory behind those that are not locked.
    ///
    /// # Safety
    /// The pages are in a mapping of the caller's, and no reference to their bytes is used any more.
    pub(in crate::area) unsafe fn clear(start: *mut u8, length: usize) {
        // SAFETY: as the caller promises.
        let removed = unsafe { madvise(start.cast(), length, Advice::LinuxRemove) };
        // The kernel does not remove pages that are locked.
        if removed.is_err() {
            // SAFETY: as the caller promises.
            unsafe { start.write_bytes(0, length) };
        }
    }

    /// Ends a mapping.
    ///
    /// # Safety
    /// `start` and `length` are a whole mapping of the caller's, to which no pointer is used any more.
    pub(in crate::area) unsafe fn unmap(start: *mut u8, length: usize) {
        // SAFETY: as the caller promises.
        let result = unsafe { munmap(start.cast(), length) };
        debug_assert!(result.is_ok(), "a whole mapping can be unmapped");
    }
}

/// The functions are explained above.
#[cfg(miri)]
mod stand_in {
    use std::io;
    use std::os::fd::{BorrowedFd, OwnedFd};

    use super::interpreted;

    pub(in crate::area) fn create(_: &str, length: usize) -> io::Result<OwnedFd> {
        interpreted::create(length as u64)
    }

    pub(in crate::area) fn size_that_stays(fd: BorrowedFd<'_>) -> io::Result<u64> {
        let is_known = interpreted::is_known(fd)?;
        Ok(if is_known {
            interpreted::length(fd)?
        } else {
            0
        })
    }

    pub(in crate::area) fn map(
        fd: BorrowedFd<'_>,
        offset: usize,
        length: usize,
    ) -> io::Result<*mut u8> {
        interpreted::map(fd, offset as u64, length)
    }

    pub(in crate::area) unsafe fn clear(start: *mut u8, length: usize) {
        // SAFETY: as the caller promises.
        unsafe { start.write_bytes(0, length) };
    }

    pub(in crate::area) unsafe fn unmap(_: *mut u8, _: usize) {}
}
