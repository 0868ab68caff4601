//! Memory of a client process, reached from outside.
//!
//! ```text
//!   rung                          when
//!   shared mapping (`FileRegion`)  the client gave the file behind it: plain copies, true atomics
//!   process_vm_*                   BULK bytes and more, a process of our own user that was verified
//!   `/proc/PID/mem` descriptor     else; the client opened it, so no right of ours is needed
//!   the same in a thread           a process of another user, whose pages may never come
//! ```
//!
//! The descriptor names the memory itself: it dies with it, outlives no `exec`, and no number can be
//! taken over by another process. Nothing is pinned: what the client unmapped faults.

mod bulk;
mod region;

use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{FileType, fstat, fstatfs, readlinkat};
use rustix::process::Pid;

use crate::Fault;
use crate::tenant::{Moved, Tenant};
use bulk::Bulk;
pub use region::ClientRegion;

/// `f_type` of procfs (linux/magic.h).
const PROC_SUPER_MAGIC: u64 = 0x9fa0;

/// From here on process_vm_* is faster than the descriptor, which copies by single pages.
const BULK: usize = 16 << 10;

/// Bytes between two clients that are under way at a time: both copies of a piece stay in the cache.
const BOUNCE: usize = 128 << 10;

/// Why a descriptor is not taken for a client's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotMemory {
    /// It is something else.
    #[error("the descriptor is not a process's memory")]
    WrongFile,
    /// It does not show what the client says is there.
    #[error("the descriptor is not the client's own memory")]
    WrongContents,
}

/// All memory of one client.
#[derive(Debug)]
pub struct ClientMemory {
    memory: Arc<OwnedFd>,
    /// Whose thread copies; `None`: the caller's.
    tenant: Option<Arc<Tenant>>,
    bulk: Option<Bulk>,
}

impl ClientMemory {
    /// Over an open `/proc/PID/mem`. At `address` the client has put `nonce`, so that a descriptor of
    /// anything else is found out. With a `tenant` its thread does the copies: for clients that are
    /// not trusted to have their pages at hand.
    pub fn new(
        memory: OwnedFd,
        (address, nonce): (u64, u64),
        tenant: Option<Arc<Tenant>>,
    ) -> Result<Self, NotMemory> {
        let is_procfs =
            fstatfs(&memory).is_ok_and(|system| system.f_type as u64 == PROC_SUPER_MAGIC);
        let is_file = fstat(&memory)
            .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::RegularFile);
        // Other files of procfs may block a reader.
        if !is_procfs || !is_file || !is_named_mem(&memory) {
            return Err(NotMemory::WrongFile);
        }
        let client = Self {
            memory: Arc::new(memory),
            tenant,
            bulk: None,
        };
        let mut found = [0; 8];
        let read = client.read(address, found.as_mut_ptr(), found.len());
        match read {
            Ok(()) if u64::from_ne_bytes(found) == nonce => Ok(client),
            _ => Err(NotMemory::WrongContents),
        }
    }

    /// Lets long copies go through process_vm_* if `pid` is the process whose memory this is and we
    /// may; else nothing changes. Only for processes that are trusted not to block us by pages that
    /// never come.
    pub fn trust(&mut self, pid: Pid, address: u64, nonce: u64) {
        let Some(bulk) = Bulk::of(pid) else { return };
        let mut found = [0u8; 8];
        let read = bulk.transfer(Direction::Read, address, found.as_mut_ptr(), found.len());
        if read == Some(found.len()) && u64::from_ne_bytes(found) == nonce {
            self.bulk = Some(bulk);
        }
    }

    /// Whether long copies go through process_vm_*.
    pub fn is_trusted(&self) -> bool {
        self.bulk.is_some()
    }

    /// Reads into `to`, which is good for writes of `length` bytes.
    fn read(&self, address: u64, to: *mut u8, length: usize) -> Result<(), Fault> {
        self.reach(length).read(address, to, length)
    }

    /// Reads into one part after the other, by one call if they are long together.
    fn read_parts(&self, address: u64, parts: &mut [&mut [u8]]) -> Result<(), Fault> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let bulk = self.bulk.as_ref().filter(|_| length >= BULK);
        if bulk.is_some_and(|bulk| bulk.read_parts(address, parts)) {
            return Ok(());
        }
        let mut at = address;
        for part in parts {
            self.read(at, part.as_mut_ptr(), part.len())?;
            at = at.checked_add(part.len() as u64).ok_or(Fault)?;
        }
        Ok(())
    }

    /// Writes from `from`, which is good for reads of `length` bytes.
    fn write(&self, address: u64, from: *const u8, length: usize) -> Result<(), Fault> {
        self.reach(length).write(address, from, length)
    }

    /// For one copy of `length` bytes, which is soon over.
    fn reach(&self, length: usize) -> Reach<'_> {
        let bulk = self.bulk.as_ref();
        Reach {
            memory: self,
            bulk: bulk.filter(|bulk| length >= BULK && bulk.is_alive()),
        }
    }

    /// Moves some bytes by the descriptor.
    fn step(
        &self,
        way: Direction,
        address: u64,
        ours: *mut u8,
        length: usize,
    ) -> Result<usize, Fault> {
        let offset = i64::try_from(address).map_err(|_| Fault)?;
        match &self.tenant {
            Some(tenant) => self.by_tenant(tenant, (way, offset), ours, length.min(BOUNCE)),
            None => {
                // SAFETY: `ours` is good for `length` bytes in the direction that is asked for: the
                // callers of `transfer` hold a buffer, or a window of foreign memory, for as long as
                // the call lasts.
                let moved = unsafe { by_descriptor(&self.memory, (way, offset), ours, length) };
                moved.ok_or(Fault)
            }
        }
    }

    /// The same through a buffer that the tenant's thread may keep if it hangs.
    fn by_tenant(
        &self,
        tenant: &Tenant,
        (way, offset): (Direction, i64),
        ours: *mut u8,
        length: usize,
    ) -> Result<usize, Fault> {
        let mut buffer = tenant.buffer();
        buffer.resize(length, 0);
        if way == Direction::Write {
            // SAFETY: `ours` is good for reads of `length` bytes, see `step`; the buffer is as long.
            unsafe { std::ptr::copy(ours, buffer.as_mut_ptr(), length) };
        }
        let memory = Arc::clone(&self.memory);
        let moved = tenant.run(move || {
            let start = buffer.as_mut_ptr();
            // SAFETY: the buffer has `length` bytes, and is this closure's own.
            let count = unsafe { by_descriptor(&memory, (way, offset), start, length) };
            Moved { buffer, count }
        })?;
        let count = moved.count.filter(|count| *count <= length);
        if let (Direction::Read, Some(count)) = (way, count) {
            // SAFETY: `ours` is good for writes of `length` bytes, see `step`; the buffer has as many.
            unsafe { std::ptr::copy(moved.buffer.as_ptr(), ours, count) };
        }
        tenant.put_back(moved.buffer);
        count.ok_or(Fault)
    }
}

/// A client's memory during one copy. Whether its process is still there was asked at the start and not for
/// each piece: that costs as much as moving 4 KiB.
struct Reach<'a> {
    memory: &'a ClientMemory,
    /// If process_vm_* may be used.
    bulk: Option<&'a Bulk>,
}

impl Reach<'_> {
    /// Reads into `to`, which is good for writes of `length` bytes.
    fn read(&self, address: u64, to: *mut u8, length: usize) -> Result<(), Fault> {
        self.transfer(Direction::Read, address, to, length)
    }

    /// Writes from `from`, which is good for reads of `length` bytes.
    fn write(&self, address: u64, from: *const u8, length: usize) -> Result<(), Fault> {
        self.transfer(Direction::Write, address, from.cast_mut(), length)
    }

    /// Writes from where as many bytes are good for reads; the last `tail` bytes after all others.
    fn write_tail_last(
        &self,
        address: u64,
        (from, length): (*const u8, usize),
        tail: usize,
    ) -> Result<(), Fault> {
        let head = length.saturating_sub(tail);
        self.write(address, from, head)?;
        let behind = address.checked_add(head as u64).ok_or(Fault)?;
        self.write(behind, from.wrapping_add(head), length - head)
    }

    fn transfer(
        &self,
        way: Direction,
        address: u64,
        ours: *mut u8,
        length: usize,
    ) -> Result<(), Fault> {
        let mut done = 0;
        while done < length {
            let (at, left) = (
                address.checked_add(done as u64).ok_or(Fault)?,
                length - done,
            );
            let ours = ours.wrapping_add(done);
            let bulk = self.bulk.filter(|_| left >= BULK);
            let moved = bulk.and_then(|bulk| bulk.transfer(way, at, ours, left));
            done += moved.map_or_else(|| self.memory.step(way, at, ours, left), Ok)?;
        }
        Ok(())
    }
}

/// Bytes moved; `None` if none could be: unmapped, or the process has ended.
///
/// # Safety
/// `ours` is good for `length` bytes in that direction.
unsafe fn by_descriptor(
    memory: &OwnedFd,
    (way, offset): (Direction, i64),
    ours: *mut u8,
    length: usize,
) -> Option<usize> {
    let (fd, ours) = (memory.as_raw_fd(), ours.cast::<c_void>());
    // SAFETY: as promised.
    let moved = unsafe {
        match way {
            Direction::Read => libc::pread64(fd, ours, length, offset),
            Direction::Write => libc::pwrite64(fd, ours, length, offset),
        }
    };
    usize::try_from(moved).ok().filter(|moved| *moved > 0)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Read,
    Write,
}

/// Whether the kernel calls the file `…/mem`.
fn is_named_mem(fd: &OwnedFd) -> bool {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let name = readlinkat(rustix::fs::CWD, link, Vec::new());
    name.is_ok_and(|name| name.to_bytes().ends_with(b"/mem"))
}

#[cfg(test)]
mod tests;
