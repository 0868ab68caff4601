//! A registered stretch of a client's memory.

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use super::{BOUNCE, ClientMemory, Reach};
use crate::{CopyFault, Fault};

thread_local! {
    static PIECE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Returns a descriptor of a client for another process.
///
/// # Errors
/// It is lent for reading only, and the kernel does not let us open it. No descriptors are left.
pub fn lend(file: &OwnedFd, writable: bool) -> std::io::Result<OwnedFd> {
    if writable {
        return file.try_clone();
    }
    // The rights of a descriptor are those of its open file: a new one is needed.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(File::open(path)?.into())
}

/// A registered stretch of a client's memory. One pointer: every unit on its way holds regions.
#[derive(Clone, Debug)]
pub struct ClientRegion(Arc<Placed>);

#[derive(Debug)]
struct Placed {
    memory: Arc<ClientMemory>,
    /// Address of offset 0.
    start: u64,
    length: u64,
    /// Whether the caller's own thread may reach it. Asked once.
    at_hand: OnceLock<bool>,
    /// Its process puts received messages in place, and nobody else reaches the region.
    is_filled_by_owner: bool,
}

impl Placed {
    fn is_at_hand(&self) -> bool {
        let ask = || self.memory.is_at_hand(self.start, self.length);
        *self.at_hand.get_or_init(ask)
    }
}

impl ClientRegion {
    /// Makes a region of `length` bytes from `start` on. The engine checks all accesses against that length.
    pub fn new(memory: Arc<ClientMemory>, start: u64, length: u64) -> Self {
        let region = Self::resume(memory, start, length);
        region.0.is_at_hand();
        region
    }

    /// Makes a region that an earlier process had. What is mapped there is asked at the first access: a client with ten
    /// thousand regions does not wait for all of them.
    pub fn resume(memory: Arc<ClientMemory>, start: u64, length: u64) -> Self {
        Self(Arc::new(Placed {
            memory,
            start,
            length,
            at_hand: OnceLock::new(),
            is_filled_by_owner: false,
        }))
    }

    /// The same region; if `is_filled_by_owner`, received messages may be left to its process.
    #[must_use]
    pub fn filled_by_owner(self, is_filled_by_owner: bool) -> Self {
        let Placed {
            memory,
            start,
            length,
            at_hand,
            ..
        } = &*self.0;
        Self(Arc::new(Placed {
            memory: Arc::clone(memory),
            start: *start,
            length: *length,
            at_hand: at_hand.clone(),
            is_filled_by_owner,
        }))
    }

    pub(crate) fn is_filled_by_owner(&self) -> bool {
        self.0.is_filled_by_owner
    }

    /// Returns the client's memory for another process, and where the region begins in it. Errors: those of [`lend`].
    pub fn lend(&self, writable: bool) -> std::io::Result<(OwnedFd, u64)> {
        Ok((lend(&self.0.memory.memory, writable)?, self.0.start))
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.memory, &other.0.memory) && self.0.start == other.0.start
    }

    fn at(&self, offset: u64) -> Result<u64, Fault> {
        self.0.start.checked_add(offset).ok_or(Fault::Gone)
    }

    /// Reads into `to`, which is good for writes of `length` bytes.
    pub(crate) fn read_raw(&self, offset: u64, to: *mut u8, length: usize) -> Result<(), Fault> {
        self.reach(length).read(self.at(offset)?, to, length)
    }

    /// Reads into one part after the other.
    pub(crate) fn read_parts(&self, offset: u64, parts: &mut [&mut [u8]]) -> Result<(), Fault> {
        let length = parts.iter().map(|part| part.len()).sum();
        self.reach(length).read_parts(self.at(offset)?, parts)
    }

    /// Writes from `from`, which is good for reads of `length` bytes; the tail last.
    pub(crate) fn write_raw(
        &self,
        offset: u64,
        from: *const u8,
        length: usize,
    ) -> Result<(), Fault> {
        self.reach(length)
            .write_tail_last(self.at(offset)?, from, length)
    }

    /// Replaces a naturally aligned word. One thread makes all such updates of an adapter, so an update is atomic
    /// against other requests, but not against the client itself. A write that has begun and is late may have been done
    /// or not, so it must not be asked for again: it counts as gone. A write that has not begun never will be, and is
    /// late like other copies.
    pub(crate) fn update(&self, offset: u64, update: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
        let at = self.at(offset)?;
        at.is_multiple_of(size_of::<u64>() as u64)
            .then_some(())
            .ok_or(Fault::Gone)?;
        let mut old = [0; 8];
        self.read_raw(offset, old.as_mut_ptr(), old.len())?;
        let old = u64::from_le_bytes(old);
        let new = update(old).to_le_bytes();
        self.reach(new.len())
            .write_once(at, new.as_ptr(), new.len())?;
        Ok(old)
    }

    /// Copies from one client to another, or inside one; the tail last.
    pub(crate) fn copy_from(
        &self,
        to: u64,
        source: &Self,
        from: u64,
        length: u64,
    ) -> Result<(), CopyFault> {
        let (readable, writable) = (source.reach(length as usize), self.reach(length as usize));
        PIECE.with_borrow_mut(|piece| {
            piece.resize(BOUNCE, 0);
            let mut done = 0;
            while done < length {
                let count = (BOUNCE as u64).min(length - done) as usize;
                let read = source.at(from.saturating_add(done));
                read.and_then(|at| readable.read(at, piece.as_mut_ptr(), count))
                    .map_err(CopyFault::source)?;
                let at = self.at(to.saturating_add(done));
                done += count as u64;
                at.and_then(|at| writable.write_tail_last(at, piece.as_ptr(), count))
                    .map_err(CopyFault::destination)?;
            }
            Ok(())
        })
    }

    fn reach(&self, length: usize) -> Reach<'_> {
        self.0.memory.reach(self.0.is_at_hand(), length)
    }
}
