//! Memory of a client process, reached from outside.
//!
//! ```text
//!   rung                          when
//!   shared mapping (`FileRegion`)  the client gave the file behind it: plain copies, true atomics
//!   process_vm_*                   BULK bytes and more, a trusted process that was verified
//!   `/proc/PID/mem` descriptor     else; the client opened it, so no right of ours is needed
//!   the same in a thread           pages that may never come: of a process that is not trusted, or of a
//!                                  file (`Places`), or of a process that kept such a thread waiting
//! ```
//!
//! The descriptor names the memory itself, not a process number that another process could take over: it ends with that
//! memory, also at an `exec`. Nothing is pinned: an access to what the client has unmapped faults.

mod bulk;
mod check;
mod places;
mod region;

use std::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::process::Pid;

use crate::Fault;
use crate::stalled::Stalled;
use crate::stores::TAIL;
use crate::tenant::{CopyId, Moved, Tenant};
use bulk::Bulk;
pub use check::is_in_memory;
use places::Places;
#[cfg(feature = "fuzz")]
pub use places::judge_lists;
pub use region::{ClientRegion, lend};

/// Length from which process_vm_* is faster than the descriptor, which copies single pages.
const BULK: usize = 16 << 10;

/// Bytes that a copy between two clients moves at a time: both copies of a piece stay in the cache.
const BOUNCE: usize = 128 << 10;

/// Why a descriptor is not accepted as a client's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotMemory {
    /// The descriptor is of something else.
    #[error("the descriptor is not a process's memory")]
    WrongFile,
    /// The memory does not have the client's nonce at the address that the client named.
    #[error("the descriptor is not the client's own memory")]
    WrongContents,
    /// Looking at it took too long, or the tenant was refused before.
    #[error("the descriptor could not be looked at in time")]
    TooSlow,
}

/// All memory of one client.
#[derive(Debug)]
pub struct ClientMemory {
    memory: Arc<OwnedFd>,
    /// Its thread copies where the caller's must not.
    tenant: Arc<Tenant>,
    /// Tells which regions the caller's thread may reach by itself; none without it.
    places: Option<Places>,
    bulk: Option<Bulk>,
    /// Set when its process has kept the tenant's thread waiting, by this connection or another. From then on that
    /// thread does all copies of this memory.
    stalled: Stalled,
}

impl ClientMemory {
    /// Takes an open `/proc/PID/mem`. At `address` the client has put `nonce`, so that a descriptor of anything else is
    /// found out. The `tenant`'s thread checks it, and does the copies unless the client is trusted.
    pub fn new(
        memory: OwnedFd,
        address: u64,
        nonce: u64,
        tenant: Arc<Tenant>,
    ) -> Result<Self, NotMemory> {
        let memory = check::memory(memory, address, nonce, &tenant)?;
        Ok(Self {
            memory: Arc::new(memory),
            tenant,
            places: None,
            bulk: None,
            stalled: Stalled::default(),
        })
    }

    /// Takes a descriptor that [`new`](Self::new) has checked in an earlier process.
    pub fn resume(memory: OwnedFd, tenant: Arc<Tenant>) -> Self {
        Self {
            memory: Arc::new(memory),
            tenant,
            places: None,
            bulk: None,
            stalled: Stalled::default(),
        }
    }

    /// The open `/proc/PID/mem`.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// Lets the caller's thread reach what cannot stall it, and lets long copies go through process_vm_* if `pid` is
    /// the process that has this memory and the kernel permits it; else nothing changes. Only for processes that are
    /// trusted to leave registered memory mapped. Since [`Self::new`] saw the nonce, a page that never comes may have
    /// replaced it: so the tenant's thread reads it.
    pub fn trust(&mut self, pid: Pid, address: u64, nonce: u64) {
        self.stalled = self.tenant.mark_of(pid);
        let found = self.tenant.ask(move || {
            let bulk = Bulk::of(pid).filter(|bulk| bulk.shows(address, nonce));
            (Places::of(pid), bulk)
        });
        match found {
            Ok((places, bulk)) => (self.places, self.bulk) = (places, bulk),
            Err(_) => self.stalled.set(),
        }
    }

    /// Whether a copy is [late](Fault::Late), so that bytes may still be written.
    pub fn is_late(&self) -> bool {
        self.tenant.is_late(self.place(0).0)
    }

    fn place(&self, address: u64) -> CopyId {
        (Arc::as_ptr(&self.memory) as usize, address)
    }

    /// Whether long copies go through process_vm_*.
    pub fn is_trusted(&self) -> bool {
        self.bulk.is_some()
    }

    /// Whether the caller's own thread may reach all of these bytes, judged by what is mapped there now.
    fn is_at_hand(&self, start: u64, length: u64) -> bool {
        let places = self.places.as_ref();
        !self.stalled.is_set() && places.is_some_and(|places| places.cannot_stall(start, length))
    }

    /// Access for one copy of `length` bytes, to be used at once. `at_hand`: what [`Self::is_at_hand`] returned for the
    /// region.
    fn reach(&self, at_hand: bool, length: usize) -> Reach<'_> {
        let at_hand = at_hand && !self.stalled.is_set();
        let bulk = self.bulk.as_ref();
        Reach {
            memory: self,
            at_hand,
            bulk: bulk.filter(|bulk| at_hand && length >= BULK && bulk.is_alive()),
        }
    }

    /// Moves some bytes through the descriptor, in the caller's thread.
    fn by_caller(
        &self,
        way: Direction,
        address: u64,
        ours: *mut u8,
        length: usize,
    ) -> Result<usize, Fault> {
        let offset = i64::try_from(address).map_err(|_| Fault::Gone)?;
        // SAFETY: `ours` is good for `length` bytes in the direction that is asked for: the callers of
        // `transfer` hold a buffer, or a window of foreign memory, for as long as the call lasts.
        let moved = unsafe { by_descriptor(&self.memory, way, offset, ours, length) };
        moved.ok_or(Fault::Gone)
    }

    /// The same in the tenant's thread, through a buffer that the thread may keep if it hangs.
    fn by_tenant(
        &self,
        way: Direction,
        address: u64,
        ours: *mut u8,
        length: usize,
    ) -> Result<usize, Fault> {
        let offset = i64::try_from(address).map_err(|_| Fault::Gone)?;
        let mut buffer = self.tenant.buffer();
        buffer.resize(length, 0);
        if way != Direction::Read {
            // SAFETY: `ours` is good for reads of `length` bytes, see `by_caller`; the buffer is as long.
            unsafe { std::ptr::copy(ours, buffer.as_mut_ptr(), length) };
        }
        let memory = Arc::clone(&self.memory);
        let copy = move || {
            let start = buffer.as_mut_ptr();
            // SAFETY: the buffer has `length` bytes, and is this closure's own.
            let count = unsafe { by_descriptor(&memory, way, offset, start, length) };
            Moved { buffer, count }
        };
        let place = self.place(address);
        let moved = match way {
            Direction::WriteOnce => self.tenant.copy_once(place, copy),
            Direction::Read | Direction::WriteTailLast => self.tenant.copy(place, copy),
        };
        let moved = moved.inspect_err(|_| self.stalled.set())?;
        let count = moved.count.filter(|count| *count <= length);
        if let (Direction::Read, Some(count)) = (way, count) {
            // SAFETY: `ours` is good for writes of `length` bytes, see `by_caller`; the buffer has as many.
            unsafe { std::ptr::copy(moved.buffer.as_ptr(), ours, count) };
        }
        self.tenant.put_back(moved.buffer);
        count.ok_or(Fault::Gone)
    }
}

/// A client's memory during one copy. Whether its process still exists was asked at the start, not for each piece:
/// asking costs as much as moving 4 KiB.
struct Reach<'a> {
    memory: &'a ClientMemory,
    /// Whether the caller's own thread may copy; else the tenant's thread does.
    at_hand: bool,
    /// Set if process_vm_* may be used: by the caller's own thread, so never on memory that is not at hand.
    bulk: Option<&'a Bulk>,
}

impl Reach<'_> {
    /// Reads into `to`, which is good for writes of `length` bytes.
    fn read(&self, address: u64, to: *mut u8, length: usize) -> Result<(), Fault> {
        self.transfer(Direction::Read, address, to, length)
    }

    /// Reads into one part after the other, by one call where possible.
    fn read_parts(&self, address: u64, parts: &mut [&mut [u8]]) -> Result<(), Fault> {
        if self
            .bulk
            .is_some_and(|bulk| bulk.read_parts(address, parts))
        {
            return Ok(());
        }
        let mut at = address;
        for part in parts {
            self.read(at, part.as_mut_ptr(), part.len())?;
            at = at.checked_add(part.len() as u64).ok_or(Fault::Gone)?;
        }
        Ok(())
    }

    /// Writes from `from`, which is good for reads of `length` bytes, but does not write a second time if the write is
    /// late.
    fn write_once(&self, address: u64, from: *const u8, length: usize) -> Result<(), Fault> {
        self.transfer(Direction::WriteOnce, address, from.cast_mut(), length)
    }

    /// The same; the last bytes are written after all others.
    fn write_tail_last(&self, address: u64, from: *const u8, length: usize) -> Result<(), Fault> {
        self.transfer(Direction::WriteTailLast, address, from.cast_mut(), length)
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
                address.checked_add(done as u64).ok_or(Fault::Gone)?,
                length - done,
            );
            let ours = ours.wrapping_add(done);
            done += self.step(way, at, ours, left)?;
        }
        Ok(())
    }

    /// Moves some bytes.
    fn step(
        &self,
        way: Direction,
        address: u64,
        ours: *mut u8,
        length: usize,
    ) -> Result<usize, Fault> {
        if !self.at_hand {
            let length = piece(length, BOUNCE);
            return self.memory.by_tenant(way, address, ours, length);
        }
        let bulk = self.bulk.filter(|_| length >= BULK);
        let moved = bulk.and_then(|bulk| bulk.transfer(way, address, ours, length));
        moved.map_or_else(|| self.memory.by_caller(way, address, ours, length), Ok)
    }
}

/// Returns the bytes moved; `None` if none could be: unmapped, or the process has ended.
///
/// # Safety
/// `ours` is good for `length` bytes in that direction.
unsafe fn by_descriptor(
    memory: &OwnedFd,
    way: Direction,
    offset: i64,
    ours: *mut u8,
    length: usize,
) -> Option<usize> {
    let fd = memory.as_raw_fd();
    let Parts { vectors, count } = way.parts(ours.cast(), length);
    // SAFETY: as promised: together the parts are those bytes.
    let moved = unsafe {
        match way {
            Direction::Read => libc::preadv64(fd, vectors.as_ptr(), count, offset),
            Direction::WriteOnce | Direction::WriteTailLast => {
                libc::pwritev64(fd, vectors.as_ptr(), count, offset)
            }
        }
    };
    usize::try_from(moved).ok().filter(|moved| *moved > 0)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Read,
    /// Writes a result that depends on what was read, so it must not be written twice.
    WriteOnce,
    /// Writes [`TAIL`] bytes after all others: programs poll them to see that a message has arrived.
    WriteTailLast,
}

impl Direction {
    /// The vectors for `length` bytes, here or there. The kernel handles one after the other (readv(2),
    /// process_vm_readv(2)), while within one it may store in any order (`rep movsb`): so one system call is enough for
    /// a message and its tail.
    fn parts(self, start: *mut c_void, length: usize) -> Parts {
        let part = |offset, length| libc::iovec {
            iov_base: start.wrapping_byte_add(offset),
            iov_len: length,
        };
        let whole = || (length, 1);
        let behind = length.checked_sub(TAIL as usize).filter(|head| *head > 0);
        let (head, count) = match self {
            Self::WriteTailLast => behind.map_or_else(whole, |head| (head, 2)),
            Self::Read | Self::WriteOnce => whole(),
        };
        Parts {
            vectors: [part(0, head), part(head, length - head)],
            count,
        }
    }
}

/// Vectors of a system call, of which the first `count` are used.
struct Parts {
    vectors: [libc::iovec; 2],
    count: c_int,
}

/// Bytes to move next out of `length`, at most `most`, so that a tail is never split.
fn piece(length: usize, most: usize) -> usize {
    match length.checked_sub(most) {
        Some(rest) if rest > 0 && rest < TAIL as usize => most - TAIL as usize,
        _ => length.min(most),
    }
}

#[cfg(test)]
mod tests;
