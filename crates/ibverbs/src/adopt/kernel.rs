//! System calls on memory, past libc: libraries such as UCX replace its functions, and would take the exchange of pages
//! for the end of what the program has registered.

use std::io;

use libc::{c_int, c_long};

/// A stretch of addresses, in whole pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Range {
    pub(super) fn of(start: usize, size: usize) -> Self {
        Self {
            start,
            end: start + size,
        }
    }

    pub(super) fn size(self) -> usize {
        self.end - self.start
    }

    /// Returns the part that both have; empty or turned around if there is none.
    pub(super) fn common(self, other: Self) -> Self {
        Self {
            start: self.start.max(other.start),
            end: self.end.min(other.end),
        }
    }

    pub(super) fn is_empty(self) -> bool {
        self.start >= self.end
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        !self.common(other).is_empty()
    }
}

fn outcome(returned: c_long) -> io::Result<usize> {
    // Addresses are far below the values that are negative.
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Maps bytes of a file, from `offset` on, shared, in place of what is there.
///
/// # Safety
/// Nobody relies on what is in the range, or the file has the same there.
pub(super) unsafe fn map_file(
    at: usize,
    size: usize,
    file: c_int,
    offset: usize,
) -> io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: as promised.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, at, size, rights, flags, file, offset) };
    outcome(mapped).map(drop)
}

/// Maps fresh private memory, at `at` if that is not 0.
///
/// # Safety
/// Nobody relies on what is there, or `flags` has `MAP_FIXED_NOREPLACE`, or `at` is 0.
pub(super) unsafe fn map_private(
    at: usize,
    size: usize,
    rights: c_int,
    flags: c_int,
) -> io::Result<usize> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: as promised.
    outcome(unsafe { libc::syscall(libc::SYS_mmap, at, size, rights, flags, -1, 0) })
}

/// Moves a whole mapping over a range of the same size.
///
/// # Safety
/// Nobody relies on what is in the range, or the mapping has the same in it.
pub(super) unsafe fn move_over(from: usize, to: Range) -> io::Result<()> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    let size = to.size();
    // SAFETY: as promised.
    let moved = unsafe { libc::syscall(libc::SYS_mremap, from, size, size, flags, to.start) };
    outcome(moved).map(drop)
}

/// `madvise`.
///
/// # Safety
/// The advice changes no contents, or only contents that nobody relies on.
pub(super) unsafe fn advise(range: Range, advice: c_int) -> io::Result<()> {
    // SAFETY: as promised.
    let advised = unsafe { libc::syscall(libc::SYS_madvise, range.start, range.size(), advice) };
    outcome(advised).map(drop)
}

/// Gives bytes of a file back, which then read as zeros. The file's size does not change, so a limit of sizes
/// (`RLIMIT_FSIZE`) does not matter.
pub(super) fn punch(file: c_int, range: Range) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes numbers only.
    let call = unsafe { libc::syscall(libc::SYS_fallocate, file, mode, range.start, range.size()) };
    outcome(call).map(drop)
}
