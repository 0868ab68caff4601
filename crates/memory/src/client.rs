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

use std::cell::RefCell;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat, fstatfs, readlinkat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::copy::TAIL;
use crate::tenant::{Moved, Tenant};
use crate::{CopyFault, Fault};

/// `f_type` of procfs (linux/magic.h).
const PROC_SUPER_MAGIC: u64 = 0x9fa0;

/// From here on process_vm_* is faster than the descriptor, which copies by single pages.
const BULK: usize = 16 << 10;

/// Bytes between two clients that are under way at a time: both copies of a piece stay in the cache.
const BOUNCE: usize = 128 << 10;

thread_local! {
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

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

/// A process that process_vm_* may be used on.
#[derive(Debug)]
struct Bulk {
    pid: Pid,
    /// Tells whether `pid` is still that process.
    alive: OwnedFd,
    refused: AtomicBool,
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
        let Ok(alive) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        let bulk = Bulk {
            pid,
            alive,
            refused: AtomicBool::new(false),
        };
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
        self.transfer(Direction::Read, address, to, length)
    }

    /// Writes from `from`, which is good for reads of `length` bytes.
    fn write(&self, address: u64, from: *const u8, length: usize) -> Result<(), Fault> {
        self.transfer(Direction::Write, address, from.cast_mut(), length)
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
            let bulk = self.bulk.as_ref().filter(|_| left >= BULK);
            let moved = bulk.and_then(|bulk| bulk.transfer(way, at, ours, left));
            done += moved.map_or_else(|| self.step(way, at, ours, left), Ok)?;
        }
        Ok(())
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

impl Bulk {
    /// Bytes moved; `None`: use the descriptor.
    fn transfer(
        &self,
        way: Direction,
        address: u64,
        ours: *mut u8,
        length: usize,
    ) -> Option<usize> {
        if self.refused.load(Relaxed) || !self.is_alive() {
            return None;
        }
        let local = libc::iovec {
            iov_base: ours.cast(),
            iov_len: length,
        };
        let remote = libc::iovec {
            iov_base: address as *mut c_void,
            iov_len: length,
        };
        let pid = self.pid.as_raw_nonzero().get();
        // SAFETY: `local` is good for `length` bytes in that direction, as for `by_descriptor`; the
        // other address is only looked up in the other process.
        let moved = unsafe {
            match way {
                Direction::Read => libc::process_vm_readv(pid, &local, 1, &remote, 1, 0),
                Direction::Write => libc::process_vm_writev(pid, &local, 1, &remote, 1, 0),
            }
        };
        let error = std::io::Error::last_os_error().raw_os_error();
        if moved < 0 && matches!(error, Some(libc::EPERM | libc::ESRCH | libc::ENOSYS)) {
            self.refused.store(true, Relaxed);
        }
        usize::try_from(moved).ok().filter(|moved| *moved > 0)
    }

    /// A process descriptor is readable once its process has ended.
    fn is_alive(&self) -> bool {
        let mut asked = [PollFd::new(&self.alive, PollFlags::IN)];
        poll(
            &mut asked,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        ) == Ok(0)
    }
}

/// Whether the kernel calls the file `…/mem`.
fn is_named_mem(fd: &OwnedFd) -> bool {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let name = readlinkat(rustix::fs::CWD, link, Vec::new());
    name.is_ok_and(|name| name.to_bytes().ends_with(b"/mem"))
}

/// A registered stretch of a client's memory. One pointer: every unit on its way holds regions.
#[derive(Clone, Debug)]
pub struct ClientRegion(Arc<Placed>);

#[derive(Debug)]
struct Placed {
    memory: Arc<ClientMemory>,
    /// Where offset 0 is.
    start: u64,
}

impl ClientRegion {
    /// From `start` on.
    pub fn new(memory: Arc<ClientMemory>, start: u64) -> Self {
        Self(Arc::new(Placed { memory, start }))
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.memory, &other.0.memory) && self.0.start == other.0.start
    }

    fn at(&self, offset: u64) -> Result<u64, Fault> {
        self.0.start.checked_add(offset).ok_or(Fault)
    }

    /// Reads into `to`, which is good for writes of `length` bytes.
    pub(crate) fn read_raw(&self, offset: u64, to: *mut u8, length: usize) -> Result<(), Fault> {
        self.0.memory.read(self.at(offset)?, to, length)
    }

    /// Writes from `from`, which is good for reads of `length` bytes; the tail last.
    pub(crate) fn write_raw(
        &self,
        offset: u64,
        from: *const u8,
        length: usize,
    ) -> Result<(), Fault> {
        let head = length.saturating_sub(TAIL as usize);
        let at = self.at(offset)?;
        self.0.memory.write(at, from, head)?;
        let behind = at.checked_add(head as u64).ok_or(Fault)?;
        self.0
            .memory
            .write(behind, from.wrapping_add(head), length - head)
    }

    /// Replaces a naturally aligned word. One thread does all of that for an adapter, so it is atomic
    /// against other requests, and not against the client itself.
    pub(crate) fn update(&self, offset: u64, update: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
        let at = self.at(offset)?;
        at.is_multiple_of(size_of::<u64>() as u64)
            .then_some(())
            .ok_or(Fault)?;
        let mut old = [0; 8];
        self.0.memory.read(at, old.as_mut_ptr(), old.len())?;
        let old = u64::from_le_bytes(old);
        let new = update(old).to_le_bytes();
        self.0.memory.write(at, new.as_ptr(), new.len())?;
        Ok(old)
    }

    /// Copies from one client to another, or inside one.
    pub(crate) fn copy_from(
        &self,
        to: u64,
        source: &Self,
        from: u64,
        length: u64,
    ) -> Result<(), CopyFault> {
        PIECE.with_borrow_mut(|piece| {
            piece.resize(BOUNCE, 0);
            let mut done = 0;
            while done < length {
                let count = (BOUNCE as u64).min(length - done) as usize;
                let bytes = &mut piece[..count];
                source
                    .read_raw(from.saturating_add(done), bytes.as_mut_ptr(), count)
                    .map_err(|Fault| CopyFault::Source)?;
                self.write_raw(to.saturating_add(done), bytes.as_ptr(), count)
                    .map_err(|Fault| CopyFault::Destination)?;
                done += count as u64;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
