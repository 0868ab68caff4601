//! What is mapped in a client's memory, and which of it can keep a copy waiting.
//!
//! ```text
//!   anonymous, nothing at all, a file in memory   pages come, or fault, at once
//!   (of no file system or a tmpfs; `mounts`)
//!   a file of a block device                      pages come; who mounts one is root
//!   any other file: FUSE, network, overlay        nobody knows: the tenant's thread
//! ```
//!
//! This is asked once for a region: later mappings are not seen. The owner of registered memory can replace it by such
//! a file and keep the caller waiting; so only processes of our own user are asked.

mod mounts;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Dev, MemfdFlags, fstat, major, makedev, memfd_create};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::process::Pid;

use mounts::Mounts;

/// Most file mappings in one region that are looked at; a region with more goes to the tenant's thread.
const LOOKS: usize = 64;

/// Most bytes of the list that are read where the kernel cannot be asked for one mapping (before Linux 6.11).
const LIST_BYTES: u64 = 256 << 10;

/// The list of a process's mappings. It is bound to that memory, and ends with it.
#[derive(Debug)]
pub(super) struct Places {
    maps: File,
    /// Devices of unnamed files in memory.
    memory: Vec<Dev>,
    /// Devices of named files in memory.
    mounts: Option<Mounts>,
}

impl Places {
    /// Opens the list of `pid`, if the kernel permits it.
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let maps = File::open(format!("/proc/{}/maps", pid.as_raw_nonzero())).ok()?;
        let kinds = [
            MemfdFlags::CLOEXEC,
            MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB,
        ];
        let device = |flags| {
            Some(
                fstat(memfd_create("vrdma-device", flags).ok()?)
                    .ok()?
                    .st_dev,
            )
        };
        Some(Self {
            maps,
            memory: kinds.into_iter().filter_map(device).collect(),
            mounts: Mounts::of(pid),
        })
    }

    /// Whether none of these bytes can keep a copy waiting.
    pub(super) fn cannot_stall(&self, start: u64, length: u64) -> bool {
        let end = start.saturating_add(length);
        match self.asked(start, end) {
            Err(Errno::NOTTY | Errno::INVAL) => self.listed(start, end),
            answer => answer.unwrap_or(false),
        }
    }

    fn is_harmless(&self, device: Dev) -> bool {
        let in_memory = || {
            let mounts = self.mounts.as_ref();
            mounts.is_some_and(|mounts| mounts.are_in_memory(device))
        };
        major(device) != 0 || self.memory.contains(&device) || in_memory()
    }

    /// Asks for one mapping of a file after the other.
    fn asked(&self, start: u64, end: u64) -> Result<bool, Errno> {
        let mut at = start;
        for _ in 0..LOOKS {
            let found = match next_file(&self.maps, at) {
                Ok(found) => found,
                Err(Errno::NOENT) => return Ok(true),
                Err(errno) => return Err(errno),
            };
            if found.start >= end {
                return Ok(true);
            }
            if !self.is_harmless(makedev(found.device_major, found.device_minor)) {
                return Ok(false);
            }
            at = found.end;
        }
        Ok(false)
    }

    /// Reads the list.
    fn listed(&self, start: u64, end: u64) -> bool {
        let mut text = String::new();
        if FromStart::of(&self.maps).read_to_string(&mut text).is_err() {
            return false;
        }
        for line in text.lines() {
            let Some(mapping) = Mapping::parse(line) else {
                return false;
            };
            if mapping.start >= end {
                return true;
            }
            let harmless = mapping.device == NO_FILE || self.is_harmless(mapping.device);
            if mapping.end > start && !harmless {
                return false;
            }
        }
        (text.len() as u64) < LIST_BYTES
    }
}

/// A reader of a shared descriptor, from its beginning and of at most [`LIST_BYTES`].
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> FromStart<'a> {
    fn of(file: &'a File) -> std::io::Take<Self> {
        Self { file, at: 0 }.take(LIST_BYTES)
    }
}

impl Read for FromStart<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(to, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// The device that the list gives for memory without a file.
const NO_FILE: Dev = 0;

/// One line of `/proc/PID/maps` (proc_pid_maps(5)).
#[derive(PartialEq, Eq, Debug)]
struct Mapping {
    start: u64,
    end: u64,
    device: Dev,
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (major, minor) = words.nth(2)?.split_once(':')?;
        let hex = |word| u64::from_str_radix(word, 16).ok();
        let number = |word| u32::from_str_radix(word, 16).ok();
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            device: makedev(number(major)?, number(minor)?),
        })
    }
}

/// `struct procmap_query` (linux/fs.h).
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    vma_flags: u64,
    page_bytes: u64,
    offset: u64,
    inode: u64,
    device_major: u32,
    device_minor: u32,
    name_bytes: u32,
    build_id_bytes: u32,
    name: u64,
    build_id: u64,
}

/// `PROCMAP_QUERY`.
const ASK: Opcode = opcode::read_write::<Query>(b'f', 17);
/// `PROCMAP_QUERY_COVERING_OR_NEXT_VMA | PROCMAP_QUERY_FILE_BACKED_VMA`.
const NEXT_FILE: u64 = 0x10 | 0x20;

/// Returns the mapping of a file that covers `address`, or else the next one. `ENOENT`: none is left.
fn next_file(maps: impl AsFd, address: u64) -> Result<Query, Errno> {
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: NEXT_FILE,
        address,
        ..Query::default()
    };
    // SAFETY: the request reads and writes one structure, whose size is in its first field, and follows none of its
    // pointers, whose lengths are 0.
    unsafe { ioctl(maps, Updater::<ASK, _>::new(&mut query)) }?;
    Ok(query)
}

/// Fuzz body: lists in the kernel's format, with names and numbers that a client chooses.
#[cfg(feature = "fuzz")]
pub fn judge_lists(maps: &[u8], mounts: &[u8]) {
    let file = |bytes: &[u8]| {
        let file = File::from(memfd_create("list", MemfdFlags::CLOEXEC).expect("there is memory"));
        file.write_all_at(bytes, 0).expect("there is memory");
        file
    };
    let places = Places {
        maps: file(maps),
        memory: Vec::new(),
        mounts: Some(Mounts::listed(file(mounts))),
    };
    for start in [0, 1 << 12, 1 << 40, u64::MAX] {
        places.cannot_stall(start, 1 << 20);
    }
}

#[cfg(test)]
mod tests;
