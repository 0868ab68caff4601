//! What is mapped where: queries of `/proc/self/maps`, one mapping each (`PROCMAP_QUERY`, Linux 6.11).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::kernel::Range;

const ASK: libc::c_ulong = 3 << 30 | (size_of::<Query>() as libc::c_ulong) << 16 | 0x6611;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    bytes: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    rights: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    name_bytes: [u32; 2],
    names: [u64; 2],
}

/// Flags of a query: the mapping at an address or the next one; only mappings of files, writable and shared.
const NEXT: u64 = 0x10;
const OF_SHARED_FILE: u64 = 0x20 | 0x8 | 0x2;

/// Readable and writable, but neither executable nor shared.
const PLAIN: u64 = 3;
const RIGHTS: u64 = 15;

/// A file, as mappings and `stat` identify it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) device: (u32, u32),
    pub(super) inode: u64,
}

/// One mapping.
pub(super) struct Mapping {
    pub(super) range: Range,
    rights: u64,
    offset: u64,
    file: Identity,
}

impl Mapping {
    /// Whether it is private memory without a file, good for reads and writes.
    pub(super) fn is_plain(&self) -> bool {
        self.rights & RIGHTS == PLAIN && self.file.inode == 0
    }

    /// Whether it is a mapping of that file that was moved from where offsets are addresses, and has bytes of the
    /// range.
    fn is_moved(&self, file: Identity, range: Range) -> bool {
        let has = Range::of(self.offset as usize, self.range.size());
        self.file == file && !self.is_of(file) && has.overlaps(range)
    }

    /// Whether it is a mapping of that file in which offsets are addresses.
    pub(super) fn is_of(&self, file: Identity) -> bool {
        self.file == file && self.offset == self.range.start as u64
    }
}

/// The list of this process's mappings.
pub(super) struct Places(File);

impl Places {
    /// Opens the list. Fails if there is no `/proc`, or if the kernel takes no queries.
    pub(super) fn open() -> io::Result<Self> {
        let places = Self(File::open("/proc/self/maps")?);
        places.at(Self::open as *const () as usize)?;
        Ok(places)
    }

    /// Closes the list in a child, whose mappings it does not tell.
    pub(super) fn close(&self) {
        // SAFETY: it is of the parent, where it stays open; nothing uses it in a child.
        unsafe { libc::close(self.0.as_raw_fd()) };
    }

    /// Returns the mapping at an address. `ENOENT`: there is none.
    pub(super) fn at(&self, address: usize) -> io::Result<Mapping> {
        self.ask(address, 0)
    }

    /// Returns the mapping at an address, or the next one.
    pub(super) fn at_or_behind(&self, address: usize) -> io::Result<Mapping> {
        self.ask(address, NEXT)
    }

    /// Whether bytes of the file that belong to a range of addresses are mapped at others: moved by a call that this
    /// library did not see.
    pub(super) fn has_moved(&self, file: Identity, range: Range) -> bool {
        let mut at = 0;
        while let Ok(place) = self.ask(at, NEXT | OF_SHARED_FILE) {
            if place.is_moved(file, range) {
                return true;
            }
            at = place.range.end;
        }
        false
    }

    fn ask(&self, address: usize, flags: u64) -> io::Result<Mapping> {
        let mut query = Query {
            bytes: size_of::<Query>() as u64,
            flags,
            address: address as u64,
            ..Query::default()
        };
        // SAFETY: the request reads and writes one structure of this size, which says so itself, and follows none
        // of its pointers, whose lengths are 0.
        let failed = unsafe { libc::ioctl(self.0.as_raw_fd(), ASK, &raw mut query) };
        if failed != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping {
            range: Range {
                start: query.start as usize,
                end: query.end as usize,
            },
            rights: query.rights,
            offset: query.offset,
            file: Identity {
                device: query.device.into(),
                inode: query.inode,
            },
        })
    }
}
