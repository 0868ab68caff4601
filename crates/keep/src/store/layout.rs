//! Layout of an area, and of a record in it.
//!
//! ```text
//!   page 0: head | log: LOG_BYTES | small slots, 256 bytes each | large slots, 1 KiB each
//! ```
//!
//! A slot holds an *image*: 24 bytes of header and the record's bytes. The log is a sequence of images, each as long as
//! the slot that it is for.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};

use crate::mapping::Mapping;

/// Most bytes that one commit writes: 16,384 small records or 4,096 large ones.
pub const LOG_BYTES: usize = 4 << 20;
/// Most bytes of a record in a small slot.
pub const SMALL_BYTES: usize = SMALL - HEADER;
/// Most bytes of a record in a large slot.
pub const LARGE_BYTES: usize = LARGE - HEADER;

/// Most slots of a class, so that offsets and numbers stay far from overflow.
const MOST_SLOTS: u32 = 1 << 22;
const SMALL: usize = 256;
const LARGE: usize = 1024;
pub(super) const HEADER: usize = 24;
pub(super) const PAGE: usize = 4096;
/// Magic number of this layout; another layout needs another number.
const MAGIC: u64 = u64::from_le_bytes(*b"vrdmakp1");
const CAPACITY_AT: usize = 8;
/// Offset of the commit's word, which has a cache line of its own.
pub(super) const WORD: usize = 64;
pub(super) const LOG: usize = PAGE;
const SLOTS: usize = LOG + LOG_BYTES;
pub(super) const SEALS: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// Number of records that an area has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Records of up to [`SMALL_BYTES`].
    pub small: u32,
    /// Records of up to [`LARGE_BYTES`].
    pub large: u32,
}

/// Names the slot of a record, to write it again and to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub(super) u32);

impl Capacity {
    pub(super) fn slots(self) -> u32 {
        self.small + self.large
    }

    fn is_allowed(self) -> bool {
        self.small <= MOST_SLOTS && self.large <= MOST_SLOTS
    }

    /// Returns where the large slots begin: on a page, so that no slot is on two.
    fn large_at(self) -> usize {
        SLOTS + (self.small as usize * SMALL).next_multiple_of(PAGE)
    }

    pub(super) fn area_bytes(self) -> usize {
        self.large_at() + (self.large as usize * LARGE).next_multiple_of(PAGE)
    }

    #[inline]
    pub(super) fn offset(self, slot: u32) -> usize {
        match slot.checked_sub(self.small) {
            None => SLOTS + slot as usize * SMALL,
            Some(large) => self.large_at() + large as usize * LARGE,
        }
    }

    /// Returns the small slots and the large ones, each up to the end of the last page that is written.
    pub(super) fn used_slots(self, written: &[bool]) -> [Range<u32>; 2] {
        let (small_at, large_at) = (SLOTS / PAGE, self.large_at() / PAGE);
        let used_pages =
            |pages: &[bool]| pages.iter().rposition(|is| *is).map_or(0, |last| last + 1);
        let small = used_pages(&written[small_at..large_at]) * (PAGE / SMALL);
        let large = used_pages(&written[large_at..]) * (PAGE / LARGE);
        let large = self.small + (large as u32).min(self.large);
        [0..(small as u32).min(self.small), self.small..large]
    }

    /// Returns the size of a slot, header included.
    #[inline]
    pub(super) fn slot_bytes(self, slot: u32) -> usize {
        if slot < self.small { SMALL } else { LARGE }
    }

    /// Reads an area's capacity from its head, if it is plausible.
    pub(super) fn of(mapping: &Mapping, length: usize) -> Option<Self> {
        let number = |at| word_at(mapping.bytes(at, 4));
        let capacity = Self {
            small: number(CAPACITY_AT),
            large: number(CAPACITY_AT + 4),
        };
        let fits = capacity.is_allowed() && capacity.area_bytes() == length;
        (mapping.marked(0) == MAGIC && fits).then_some(capacity)
    }
}

fn word_at(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

/// The memory that records are in.
#[derive(Debug)]
pub struct Area;

impl Area {
    /// Makes an area without records: sealed, and without memory for unused parts.
    pub fn create(capacity: Capacity) -> io::Result<OwnedFd> {
        if !capacity.is_allowed() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let fd = memfd_create(
            "vrdma-keep",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        ftruncate(&fd, capacity.area_bytes() as u64)?;
        fcntl_add_seals(&fd, SEALS)?;
        let mut mapping = Mapping::new(fd.as_fd(), PAGE)?;
        mapping.write(CAPACITY_AT, &capacity.small.to_le_bytes());
        mapping.write(CAPACITY_AT + 4, &capacity.large.to_le_bytes());
        mapping.mark(0, MAGIC);
        Ok(fd)
    }
}

/// Maps a whole area, after checking that it is one.
pub(super) fn map(area: BorrowedFd<'_>) -> io::Result<(Mapping, Capacity)> {
    let length = usize::try_from(fstat(area)?.st_size).unwrap_or(0);
    if !fcntl_get_seals(area)?.contains(SealFlags::SHRINK) || length < SLOTS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mapping = Mapping::new(area, length)?;
    let capacity = Capacity::of(&mapping, length).ok_or(io::ErrorKind::InvalidData)?;
    Ok((mapping, capacity))
}

/// The header of an image. Kind 0 marks a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) slot: u32,
    pub(super) key: u64,
    pub(super) kind: u16,
    pub(super) length: u16,
}

impl Header {
    /// Encodes all but the checksum in front, which is written when the batch is committed.
    #[inline]
    pub(super) fn encode(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..18].copy_from_slice(&self.kind.to_le_bytes());
        bytes[18..20].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Returns the header of the image at `offset` if the image is sound. The caller still has to check its slot.
    pub(super) fn sound(mapping: &Mapping, offset: usize, capacity: Capacity) -> Option<Self> {
        let bytes = mapping.bytes(offset, HEADER);
        let header = Self {
            slot: word_at(&bytes[4..8]),
            key: u64::from_le_bytes(bytes[8..16].try_into().ok()?),
            kind: u16::from_le_bytes(bytes[16..18].try_into().ok()?),
            length: u16::from_le_bytes(bytes[18..20].try_into().ok()?),
        };
        let length = usize::from(header.length);
        let fits = header.slot < capacity.slots()
            && HEADER + length <= capacity.slot_bytes(header.slot)
            && word_at(&bytes[..4]) == checksum(mapping, offset, length);
        fits.then_some(header)
    }
}

/// Returns the checksum of the image at `offset`: of all bytes after the checksum.
#[inline]
pub(super) fn checksum(mapping: &Mapping, offset: usize, length: usize) -> u32 {
    crc32fast::hash(mapping.bytes(offset + 4, HEADER - 4 + length))
}
