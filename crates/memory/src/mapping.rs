//! Our mapping of a stretch of a guest's file.

use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;

use crate::guard::{Guard, Mark};
use crate::populated::{GRANULE, Populated};
use crate::unmapping::unmap;
use crate::{Protection, kernel};

/// Why memory was not mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// The map has no bytes.
    #[error("a DMA map must not be empty")]
    Empty,
    /// Address, size or file offset is not in whole pages.
    #[error("address, size and file offset of a DMA map must be multiples of 4096")]
    Unaligned,
    /// The end is beyond 64 bits.
    #[error("a DMA map must not reach beyond the end of the address space")]
    Wraps,
    /// Neither readable nor writable.
    #[error("a DMA map must be readable or writable")]
    NoAccess,
    /// Some bytes are mapped already.
    #[error("a DMA map must not overlap the one at {iova:#x}")]
    Overlaps {
        /// Start of the map in the way.
        iova: u64,
    },
    /// [`MAX_MAPS`](crate::MAX_MAPS) reached.
    #[error("a guest can have at most {} DMA maps", crate::MAX_MAPS)]
    TooMany,
    /// [`MAX_BYTES`](crate::MAX_BYTES) reached.
    #[error("a guest can map at most {} bytes", crate::MAX_BYTES)]
    TooLarge,
    /// The file ends before the map does.
    #[error("the file behind a DMA map has only {length} bytes")]
    FileTooShort {
        /// Bytes in the file.
        length: u64,
    },
    /// The table of the SIGBUS handler is full.
    #[error("the daemon has no room for another DMA map")]
    NoGuard,
    /// The kernel refused.
    #[error("the file behind a DMA map cannot be mapped: {0}")]
    Refused(#[from] Errno),
}

/// Address space of this process, returned when dropped.
struct Area {
    start: *mut c_void,
    length: usize,
    may_read: bool,
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: `start` and `length` are a whole mapping made by `Mapping::new`, and the owner of
        // the last pointer into it is the last `Mapping` of it, which is being dropped.
        unsafe { unmap(self.start, self.length) };
    }
}

/// A mapped and guarded stretch of a file. The file may shrink or change at any moment.
pub(crate) struct Mapping {
    /// Address of the first byte that was asked for: in the area, which `whole` keeps.
    start: *mut u8,
    /// Mark of the guard in `whole`.
    mark: Mark,
    whole: Arc<Whole>,
}

/// The parts that several stretches of one file may share.
struct Whole {
    // Dropped before the area, so the handler never touches address space that is not ours.
    _guard: Guard,
    area: Area,
    populated: Populated,
}

// SAFETY: address space is not tied to a thread, and is only returned here.
unsafe impl Send for Area {}
// SAFETY: `&Area` reads bytes of foreign memory, through a raw pointer.
unsafe impl Sync for Area {}
// SAFETY: the mapping is owned and not tied to a thread; its bytes are foreign memory that is only
// reached through raw pointers and atomics, never through references.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` hands out addresses and an atomic mark, nothing else.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` bytes of `fd` from `offset`; both are multiples of the page size and the caller
    /// has checked that their sum does not wrap.
    pub(crate) fn new(
        fd: BorrowedFd<'_>,
        offset: u64,
        size: u64,
        protection: Protection,
    ) -> Result<Self, MapError> {
        let granule = granule(fd, offset + size)?;
        let (from, length) = outward(offset, size, granule).ok_or(MapError::Wraps)?;
        let area = Area::new(fd, from, length, protection)?;
        let guard = Guard::new(area.start as usize, area.length).ok_or(MapError::NoGuard)?;
        Ok(Self {
            start: area
                .start
                .cast::<u8>()
                .wrapping_add((offset - from) as usize),
            mark: guard.mark(),
            whole: Arc::new(Whole {
                _guard: guard,
                area,
                populated: Populated::new(length),
            }),
        })
    }

    /// Returns the same mapping from byte `offset` on, which lies in it.
    pub(crate) fn from(&self, offset: usize) -> Self {
        Self {
            start: self.address(offset),
            mark: self.mark,
            whole: Arc::clone(&self.whole),
        }
    }

    /// Prepares a long access to `length` bytes from `offset` on, so that it does not fault at each page. Returns
    /// whether this process touches some of them for the first time.
    #[inline]
    pub(crate) fn populate(&self, offset: usize, length: usize) -> bool {
        length >= GRANULE && self.whole.populate(self.in_area(offset), length)
    }

    /// Returns the address of byte `offset` of what was asked for. Valid for accesses until the end of the mapping as
    /// long as `self` lives.
    #[inline]
    pub(crate) fn address(&self, offset: usize) -> *mut u8 {
        debug_assert!(self.in_area(offset) < self.whole.area.length);
        self.start.wrapping_add(offset)
    }

    fn in_area(&self, offset: usize) -> usize {
        self.start as usize - self.whole.area.start as usize + offset
    }

    /// Whether the file has shrunk under an access.
    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.mark.is_lost()
    }
}

impl Whole {
    fn populate(&self, at: usize, length: usize) -> bool {
        debug_assert!(at + length <= self.area.length);
        let missing = self.populated.missing(at, length);
        let is_first = !missing.is_empty() && self.area.may_read;
        if is_first {
            self.area.touch(missing.clone());
            self.populated.note(missing);
        }
        is_first
    }
}

impl Area {
    fn new(
        fd: BorrowedFd<'_>,
        from: u64,
        length: usize,
        may: Protection,
    ) -> Result<Self, MapError> {
        let start = kernel::map(fd, from, length, may)?;
        let area = Self {
            start,
            length,
            may_read: may.read,
        };
        // SAFETY: the mapping just made.
        unsafe { kernel::hide(area.start, area.length) }?;
        Ok(area)
    }

    /// Reads a byte of each of these granules, so that the kernel maps those of its pages that exist.
    #[cold]
    fn touch(&self, granules: Range<usize>) {
        assert!(
            granules.end <= self.length.div_ceil(GRANULE),
            "granules begin in the area"
        );
        for granule in granules {
            let byte = self.start.cast::<u8>().wrapping_add(granule * GRANULE);
            // SAFETY: in this mapping, as asserted, which may be read, and is guarded; nothing is decided on the
            // byte, and no reference to it is made.
            unsafe { byte.read_volatile() };
        }
    }
}

/// Returns the alignment that mappings of this file need; refuses a regular file that ends before `end`.
fn granule(fd: BorrowedFd<'_>, end: u64) -> Result<u64, MapError> {
    match kernel::length(fd)? {
        Some(length) if length < end => Err(MapError::FileTooShort { length }),
        _ => Ok(kernel::granule(fd)?),
    }
}

/// Widens a stretch to multiples of `granule`.
fn outward(offset: u64, size: u64, granule: u64) -> Option<(u64, usize)> {
    let from = offset - offset % granule;
    let to = (offset + size).checked_next_multiple_of(granule)?;
    Some((from, usize::try_from(to - from).ok()?))
}

#[cfg(test)]
mod tests {
    use super::outward;

    #[test]
    fn stretches_widen_to_huge_pages() {
        assert_eq!(outward(0x3000, 0x2000, 0x1000), Some((0x3000, 0x2000)));
        assert_eq!(outward(0xc0000, 0x200000, 0x200000), Some((0, 0x400000)));
        assert_eq!(outward(u64::MAX - 0xffff, 0xf000, 0x200000), None);
    }
}
