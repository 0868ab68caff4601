//! A guest's memory, found where another process's QEMU has it mapped, opened and mapped here as well.
//!
//! ```text
//!   /proc/PID/maps: what is at the address ──► a file, shared ──► /proc/PID/fd: the same file ──► mapped here
//! ```
//!
//! This needs QEMU's user (or CAP_SYS_PTRACE), since the kernel shows these two to nobody else, and QEMU must not have
//! made itself undumpable. The file is opened anew, which is subject to its own permissions.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::ptr::{self, NonNull};

use rustix::fs::{major, minor};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A block's location in a QEMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct At {
    pub(crate) process: u32,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// A block, mapped here; unmapped when it is dropped.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: NonNull<core::ffi::c_void>,
    bytes: usize,
    /// The file by which the mapping is found when it is registered.
    _file: File,
}

impl Mapped {
    /// Finds the block and maps it.
    pub(crate) fn new(at: At) -> Result<Self, String> {
        let process = at.process;
        let maps = format!("/proc/{process}/maps");
        let text = fs::read_to_string(&maps).map_err(|error| {
            format!("cannot read {maps} ({error}); run this as the user of QEMU, process {process}")
        })?;
        let stretch = Stretch::find(&text, at.address, at.bytes).ok_or_else(|| {
            format!(
                "process {process} has no shared memory of {} bytes at {:#x}; name the QEMU of the VM, whose memory backend has share=on",
                at.bytes, at.address
            )
        })?;
        let file = stretch.open(process)?;
        map(file, stretch.offset, at.bytes)
            .map_err(|error| format!("cannot map the VM's memory: {error}"))
    }

    pub(crate) fn start(&self) -> *mut core::ffi::c_void {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and nobody has a reference into it.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

fn map(file: File, offset: u64, bytes: u64) -> io::Result<Mapped> {
    let end = offset.checked_add(bytes);
    if end.is_none_or(|end| end > file.metadata().map_or(0, |it| it.len())) {
        return Err(io::Error::other("its file is shorter"));
    }
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let start = unsafe {
        mmap(
            ptr::null_mut(),
            bytes,
            rights,
            MapFlags::SHARED,
            &file,
            offset,
        )
    }?;
    let start = NonNull::new(start).ok_or_else(|| io::Error::other("at no address"))?;
    Ok(Mapped {
        start,
        bytes,
        _file: file,
    })
}

/// Adjacent mappings of one file.
#[derive(PartialEq, Eq, Debug)]
struct Stretch {
    offset: u64,
    device: (u32, u32),
    inode: u64,
    path: String,
}

/// A line of the list of mappings (proc_pid_maps(5)).
struct Line<'a> {
    from: u64,
    to: u64,
    is_shared: bool,
    offset: u64,
    device: (u32, u32),
    inode: u64,
    path: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let number = |text| u32::from_str_radix(text, 16).ok();
        let (from, to) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let offset = hex(words.next()?)?;
        let (major, minor) = words.next()?.split_once(':')?;
        Some(Self {
            from: hex(from)?,
            to: hex(to)?,
            is_shared: rights == "rw-s",
            offset,
            device: (number(major)?, number(minor)?),
            inode: words.next()?.parse().ok()?,
            path: words.next().unwrap_or_default().trim_start(),
        })
    }
}

impl Stretch {
    fn find(maps: &str, address: u64, bytes: u64) -> Option<Self> {
        let end = address.checked_add(bytes)?;
        let mut lines = maps.lines().filter_map(Line::parse);
        let first = lines.find(|line| (line.from..line.to).contains(&address))?;
        let stretch = Self {
            offset: first.offset.checked_add(address - first.from)?,
            device: first.device,
            inode: first.inode,
            path: first.path.to_owned(),
        };
        let mut reached = first.to;
        let mut is_shared = first.is_shared;
        while reached < end && is_shared {
            let next = lines.next()?;
            is_shared = next.from == reached
                && next.is_shared
                && (next.device, next.inode) == (stretch.device, stretch.inode)
                && next.offset == stretch.offset.checked_add(reached - address)?;
            reached = next.to;
        }
        (is_shared && bytes > 0 && stretch.inode != 0).then_some(stretch)
    }

    /// Opens the same file, by a descriptor of that process, or by its name.
    fn open(&self, process: u32) -> Result<File, String> {
        let folder = format!("/proc/{process}/fd");
        let descriptors = fs::read_dir(&folder)
            .map_err(|error| format!("cannot read {folder} ({error}); run this as QEMU's user"))?;
        let descriptors = descriptors.flatten().map(|entry| entry.path());
        let named = std::iter::once(PathBuf::from(&self.path));
        let mut same = descriptors.chain(named).filter(|path| self.is(path));
        let Some(path) = same.next() else {
            return Err(format!(
                "process {process} has closed the file of the VM's memory; use memory-backend-memfd, or a file that keeps its name"
            ));
        };
        let file = OpenOptions::new().read(true).write(true).open(&path);
        file.map_err(|error| format!("cannot open the VM's memory, {}: {error}", path.display()))
    }

    /// Whether a path is this file, without opening what may be a pipe or a device.
    fn is(&self, path: &std::path::Path) -> bool {
        fs::metadata(path).is_ok_and(|status| {
            let device = (major(status.dev()), minor(status.dev()));
            status.is_file() && device == self.device && status.ino() == self.inode
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const MAPS: &str = "\
7f0000000000-7f0000200000 rw-s 00001000 00:01 77 /memfd:memory-backend-memfd (deleted)
7f0000200000-7f0000300000 rw-s 00201000 00:01 77 /memfd:memory-backend-memfd (deleted)
7f0000300000-7f0000400000 rw-s 00000000 00:01 78 /memfd:other (deleted)
7f0000400000-7f0000500000 rw-p 00000000 00:01 79 /private
";

    #[test]
    fn a_block_is_found_in_neighbouring_mappings_of_one_file() {
        let found = Stretch::find(MAPS, 0x7f00_0000_0000, 0x30_0000).unwrap();
        assert_eq!(
            (found.offset, found.inode, found.device),
            (0x1000, 77, (0, 1))
        );
        let inner = Stretch::find(MAPS, 0x7f00_001f_f000, 0x2000).unwrap();
        assert_eq!(inner.offset, 0x20_0000);
        assert_eq!(Stretch::find(MAPS, 0x7f00_0000_0000, 0x30_1000), None);
        assert_eq!(Stretch::find(MAPS, 0x7f00_0040_0000, 0x1000), None);
        assert_eq!(Stretch::find(MAPS, 0x7f00_0000_0000, 0), None);
        assert_eq!(Stretch::find(MAPS, u64::MAX, 2), None);
    }

    #[test]
    fn memory_of_this_process_is_mapped_a_second_time() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        let first = map(file, 0, 8192).unwrap();
        let at = |bytes| At {
            process: std::process::id(),
            address: first.start() as u64,
            bytes,
        };
        let second = Mapped::new(at(8192)).unwrap();
        assert_ne!(second.start(), first.start());
        // SAFETY: both are mapped with this length, and this thread alone uses them.
        unsafe {
            first.start().cast::<u8>().add(5000).write(9);
            assert_eq!(second.start().cast::<u8>().add(5000).read(), 9);
        }
        assert!(
            Mapped::new(at(1 << 40))
                .unwrap_err()
                .contains("no shared memory")
        );
    }
}
