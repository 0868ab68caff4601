//! Registered memory that is a shared mapping of a file in memory, and a descriptor of that file for
//! the daemon, which maps it too and then copies without asking the kernel.
//!
//! ```text
//!   pagemap: the first page is of a file ──► maps: one file, shared, without a hole, with the rights
//!        │ no                                   │ its device and inode
//!        ▼                                      ▼
//!   nothing to send              a descriptor of ours for it, map_files, or its path
//! ```
//!
//! The region then names the file's bytes, as pinned pages do with an adapter: if the program puts another mapping at
//! its address, peers still reach the file. Other memory is reached by its address, whatever is there by then.

use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use vrdma_provider::message::FileRange;

use crate::region::page_size;

/// `f_type` of the file systems whose pages are always in memory (linux/magic.h); the daemon takes no others.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x9584_58f6];

/// Bit of a pagemap entry: the page is of a file, or of shared memory without a name
/// (Documentation/admin-guide/mm/pagemap.rst).
const FILE_PAGE: u64 = 1 << 61;

/// Granularity of [`FileRange`].
const RANGE_PAGE: u64 = 4096;

/// Unit of `st_blocks` (inode(7)).
const BLOCK_BYTES: u64 = 512;

/// The file behind a range, and the place of the range in it.
pub(crate) struct SharedFile {
    file: File,
    range: FileRange,
}

impl SharedFile {
    /// Finds the file. `None` for all other memory, for memory whose mapping forbids to read it or, with `write`, to
    /// write it, and for files that this process cannot open again. The first page must be there.
    pub(crate) fn find(address: u64, length: u64, write: bool) -> Option<Self> {
        if length == 0 || !is_of_file(address)? {
            return None;
        }
        let maps = fs::read_to_string("/proc/self/maps").ok()?;
        let start = address & !(RANGE_PAGE - 1);
        let end = address
            .checked_add(length)?
            .checked_next_multiple_of(RANGE_PAGE)?;
        let extent = Extent::find(&maps, start, end)?;
        if write && !extent.is_writable {
            return None;
        }
        let file = extent.open(write)?;
        let range = FileRange {
            offset: extent.offset,
            length: end - start,
            address: start,
        };
        Some(Self { file, range })
    }

    /// Whether every page of the range exists, as far as the file's size and its blocks tell.
    pub(crate) fn has_all_pages(&self) -> bool {
        let Self { file, range } = self;
        file.metadata().is_ok_and(|status| {
            let size = status.size();
            let is_inside = range.offset + range.length <= size.next_multiple_of(RANGE_PAGE);
            is_inside && status.blocks().saturating_mul(BLOCK_BYTES) >= size
        })
    }

    pub(crate) fn into_parts(self) -> (OwnedFd, FileRange) {
        (self.file.into(), self.range)
    }
}

/// Whether the first page is of a file. One read answers this for most memory; the list of mappings may have thousands
/// of lines.
fn is_of_file(address: u64) -> Option<bool> {
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    let mut entry = [0; 8];
    let at = address / page_size() * size_of::<u64>() as u64;
    pagemap.read_exact_at(&mut entry, at).ok()?;
    Some(u64::from_ne_bytes(entry) & FILE_PAGE != 0)
}

/// A stretch of one file that is mapped shared, perhaps by several mappings side by side.
#[derive(PartialEq, Eq, Debug)]
struct Extent<'a> {
    /// Where the stretch begins in the file.
    offset: u64,
    /// Whether all of it is mapped for reading and writing; else for reading.
    is_writable: bool,
    /// Major and minor number, as the list of mappings and [`MetadataExt::dev`] have them.
    device: (u32, u32),
    inode: u64,
    /// The first mapping as `map_files` names it.
    first: &'a str,
    path: &'a str,
}

/// A line of the list of mappings.
struct Mapping<'a> {
    range: &'a str,
    from: u64,
    to: u64,
    is_readable: bool,
    is_writable: bool,
    is_shared: bool,
    offset: u64,
    device: (u32, u32),
    inode: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let range = words.next()?;
        let (from, to) = range.split_once('-')?;
        let rights = words.next()?.as_bytes();
        let has = |at, letter| rights.get(at) == Some(&letter);
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let offset = hex(words.next()?)?;
        let (major, minor) = words.next()?.split_once(':')?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        Some(Self {
            range,
            from: hex(from)?,
            to: hex(to)?,
            is_readable: has(0, b'r'),
            is_writable: has(1, b'w'),
            is_shared: has(3, b's'),
            offset,
            device: (number(major)?, number(minor)?),
            inode: words.next()?.parse().ok()?,
            path: words.next().unwrap_or_default().trim_start(),
        })
    }
}

impl<'a> Extent<'a> {
    /// Finds the file that mappings (lines in ascending order) map from `start` to `end` without a hole.
    fn find(maps: &'a str, start: u64, end: u64) -> Option<Self> {
        let mappings = maps.lines().filter_map(Mapping::parse);
        let mut mappings = mappings.skip_while(|mapping| mapping.to <= start);
        let first = mappings.next().filter(|mapping| mapping.from <= start)?;
        let mut extent = Self {
            is_writable: first.is_writable,
            offset: first.offset.checked_add(start - first.from)?,
            device: first.device,
            inode: first.inode,
            first: first.range,
            path: first.path,
        };
        let mut reached = first.to;
        if !first.is_shared || !first.is_readable || first.inode == 0 {
            return None;
        }
        while reached < end {
            let next = mappings.next()?;
            let goes_on = next.from == reached
                && next.is_shared
                && next.is_readable
                && (next.device, next.inode) == (extent.device, extent.inode)
                && next.offset == extent.offset.checked_add(reached - start)?;
            reached = goes_on.then_some(next.to)?;
            extent.is_writable &= next.is_writable;
        }
        Some(extent)
    }

    /// Opens a descriptor of the file, for writing too if `write`.
    fn open(&self, write: bool) -> Option<File> {
        let first = format!("/proc/self/map_files/{}", self.first);
        // The first path only works for privileged programs; the second for files that have kept their names.
        let named = [first.as_str(), self.path].into_iter();
        let opened = named.filter_map(|path| again(path, write));
        own_descriptors(write)
            .chain(opened)
            .find(|file| self.is(file))
    }

    fn is(&self, file: &File) -> bool {
        let same = |status: fs::Metadata| {
            let device = (libc::major(status.dev()), libc::minor(status.dev()));
            device == self.device && status.ino() == self.inode
        };
        file.metadata().is_ok_and(same) && is_in_memory(file)
    }
}

/// Opens the files of this process again by their links, since other threads may close the descriptors themselves at
/// any moment.
fn own_descriptors(write: bool) -> impl Iterator<Item = File> {
    let entries = fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten();
    entries.filter_map(move |entry| again_if_file(&entry.path(), write))
}

/// Opens a link only if it leads to a regular file: opening a pipe or a device has side effects.
fn again_if_file(link: &std::path::Path, write: bool) -> Option<File> {
    let is_file = fs::metadata(link).is_ok_and(|status| status.is_file());
    is_file.then(|| again(link.to_str()?, write))?
}

fn again(path: &str, write: bool) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(write).open(path).ok()
}

fn is_in_memory(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    // SAFETY: all zero is a valid value of this plain structure.
    let mut system: libc::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: an open descriptor and a place for the answer.
    let failed = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut system) };
    failed == 0 && IN_MEMORY.contains(&(system.f_type as u64))
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd};

    use super::*;

    const MAPS: &str = "\
1000-3000 rw-s 00004000 00:1f 77                         /dev/shm/ring (deleted)
3000-4000 r--s 00006000 00:1f 77                         /dev/shm/ring (deleted)
5000-6000 rw-s 00008000 00:1f 77                         /dev/shm/ring (deleted)
6000-7000 rw-p 00000000 00:00 0 
7000-8000 rw-s 00000000 00:1f 78                         /dev/shm/other
8000-9000 rw-s 00003000 00:1f 78                         /dev/shm/other
";

    #[test]
    fn mappings_of_one_file_side_by_side_are_one_stretch() {
        let found = Extent::find(MAPS, 0x2000, 0x4000).unwrap();
        assert_eq!(
            (found.offset, found.inode, found.device),
            (0x5000, 77, (0, 0x1f))
        );
        assert_eq!(found.first, "1000-3000");
        assert!(!found.is_writable, "a part of it may only be read");
        assert!(Extent::find(MAPS, 0x2000, 0x3000).unwrap().is_writable);
        for (start, end) in [
            (0x3000, 0x5000),
            (0x0, 0x2000),
            (0x6000, 0x7000),
            (0x5000, 0x7000),
            (0x7000, 0x9000),
            (0x8000, 0xa000),
        ] {
            assert_eq!(Extent::find(MAPS, start, end), None, "{start:#x}");
        }
    }

    /// Makes a file in memory, and maps it; returns both.
    fn mapped(flags: i32) -> (File, u64) {
        // SAFETY: a new descriptor, owned by nobody else, and a fresh mapping of it.
        unsafe {
            let file = File::from_raw_fd(libc::memfd_create(c"test".as_ptr(), 0));
            file.set_len(0x4000).unwrap();
            let (rights, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
            let at = libc::mmap(core::ptr::null_mut(), 0x3000, rights, flags, fd, 0x1000);
            assert_ne!(at, libc::MAP_FAILED);
            // Registering does this before it looks for the file.
            crate::region::populate(at as u64, 0x3000, true).unwrap();
            (file, at as u64)
        }
    }

    #[test]
    fn a_shared_file_is_found_with_its_offset() {
        let (file, at) = mapped(libc::MAP_SHARED);
        let found = SharedFile::find(at + 0x1010, 0x1000, true).unwrap();
        let (found, range) = found.into_parts();
        assert_eq!((range.offset, range.length), (0x2000, 0x2000));
        file.write_all_at(b"here", 0x2010).unwrap();
        let mut bytes = [0; 4];
        File::from(found)
            .read_exact_at(&mut bytes, range.offset + 0x10)
            .unwrap();
        assert_eq!(&bytes, b"here");
    }

    #[test]
    fn a_file_with_a_hole_or_shorter_than_its_mapping_lacks_pages() {
        let (file, at) = mapped(libc::MAP_SHARED);
        let has_all = || {
            let found = SharedFile::find(at, 0x3000, true).unwrap();
            found.has_all_pages()
        };
        assert!(!has_all(), "its first page is not mapped, and not there");
        file.write_all_at(&[1], 0).unwrap();
        assert!(has_all());
        file.set_len(0x2000).unwrap();
        assert!(!has_all());
    }

    #[test]
    fn other_memory_has_no_file() {
        let own = vec![1u8; 100_000];
        assert!(SharedFile::find(own.as_ptr() as u64, 100_000, true).is_none());
        let (_file, at) = mapped(libc::MAP_PRIVATE);
        assert!(SharedFile::find(at, 0x1000, true).is_none());
        let text = "of the program's file on a disk, or of the heap".as_ptr() as u64;
        assert!(SharedFile::find(text, 8, false).is_none());
    }
}
