//! Records in shared memory, with batches that are committed wholly or not at all, whenever the process is killed.
//!
//! A batch is written into a log in the area, which is ignored until one word says that it counts. Then the slots are
//! written, and the word is cleared. A process that finds the word set writes the slots again. Only a record's owner
//! knows what it means.

#[cfg(test)]
mod corpus;
mod layout;
mod recovery;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::BorrowedFd;

use zerocopy::FromZeros;

use crate::mapping::Mapping;

pub use layout::{Area, Capacity, LARGE_BYTES, LOG_BYTES, SMALL_BYTES, SlotId};
use layout::{HEADER, Header, LOG, WORD, checksum};
use recovery::commit_word;

/// Why a change is not taken into the batch. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// All slots of the size are taken.
    #[error("all slots for records of this size are taken")]
    Slots,
    /// The log is full: it has room again after [`Store::commit`].
    #[error("the batch is full and has to be committed first")]
    Batch,
    /// The bytes do not fit into the slot.
    #[error("the record is longer than its slot")]
    Length,
}

/// A record as the last worker left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Kind that its owner gave it.
    pub kind: u16,
    /// Key that its owner gave it.
    pub key: u64,
    /// Slot that it is in.
    pub slot: SlotId,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// An area as it was found.
#[derive(Debug)]
pub struct Opened {
    /// The store, for further changes.
    pub store: Store,
    /// The records, in the order of their slots.
    pub records: Vec<Record>,
    /// Number of damaged slots or commits. They are free now.
    pub unsound: usize,
}

/// The records of an area, and the batch that is being gathered.
#[derive(Debug)]
pub struct Store {
    mapping: Mapping,
    capacity: Capacity,
    /// State of all slots. The part for slots that were never used takes no memory.
    known: Vec<Known>,
    small: Class,
    large: Class,
    batch: Vec<Pending>,
    /// Bytes of the log that the batch takes.
    used: usize,
}

/// The free slots of one size. A slot is listed only after its first use, so that a large area costs nothing.
#[derive(Debug)]
struct Class {
    /// Free slots that were used before.
    free: Vec<u32>,
    /// First of the slots up to `end`, which were never used.
    next: u32,
    end: u32,
}

/// State of a slot, known without reading the area.
#[derive(Clone, Copy, Debug, FromZeros)]
#[repr(C)]
struct Known {
    key: u64,
    /// Kind of the record, 0 if the slot is free.
    kind: u16,
    /// Place in the batch plus one; 0 if the slot is not in it.
    pending: u32,
}

/// An image in the log.
#[derive(Clone, Copy, Debug)]
struct Pending {
    slot: u32,
    at: usize,
    length: usize,
}

impl Store {
    /// Opens an area: finishes a commit that was cut off and returns the sound records. At most one `Store` may be open
    /// for an area at a time.
    pub fn open(area: BorrowedFd<'_>) -> io::Result<Opened> {
        recovery::open(area)
    }

    /// Adds a record to the batch, in a slot of the smallest size that its bytes fit.
    ///
    /// # Panics
    /// If `kind` is 0, which is the kind of free slots.
    pub fn insert(&mut self, kind: u16, key: u64, bytes: &[u8]) -> Result<SlotId, Full> {
        assert!(kind != 0, "records have a kind");
        let class = match bytes.len() {
            length if length <= SMALL_BYTES => &self.small,
            length if length <= LARGE_BYTES => &self.large,
            _ => return Err(Full::Length),
        };
        let slot = class.first().ok_or(Full::Slots)?;
        self.write(slot, kind, key, bytes)?;
        self.class_of(slot).take_first();
        let known = &mut self.known[slot as usize];
        known.kind = kind;
        known.key = key;
        Ok(SlotId(slot))
    }

    /// Replaces the bytes of a record.
    ///
    /// # Panics
    /// If the record was removed.
    #[inline]
    pub fn put(&mut self, slot: SlotId, bytes: &[u8]) -> Result<(), Full> {
        let Known { kind, key, .. } = self.known[slot.0 as usize];
        assert!(kind != 0, "records are written until they are removed");
        if HEADER + bytes.len() > self.capacity.slot_bytes(slot.0) {
            return Err(Full::Length);
        }
        self.write(slot.0, kind, key, bytes)
    }

    /// Removes a record; its slot may be given to the next one at once.
    ///
    /// # Panics
    /// If the record was removed before.
    pub fn remove(&mut self, slot: SlotId) -> Result<(), Full> {
        let kind = self.known[slot.0 as usize].kind;
        assert!(kind != 0, "records are removed once");
        self.write(slot.0, 0, 0, &[])?;
        self.known[slot.0 as usize].kind = 0;
        self.free(slot.0);
        Ok(())
    }

    /// Commits the whole batch, at one moment.
    #[inline]
    pub fn commit(&mut self) {
        if !self.batch.is_empty() {
            self.commit_batch();
        }
    }

    fn commit_batch(&mut self) {
        for Pending { at, length, .. } in &self.batch {
            let sum = checksum(&self.mapping, *at, *length);
            self.mapping.write(*at, &sum.to_le_bytes());
        }
        self.mapping.mark(WORD, commit_word(self.used));
        for Pending { slot, at, length } in self.batch.drain(..) {
            let to = self.capacity.offset(slot);
            self.mapping.copy(at, to, HEADER + length);
            self.known[slot as usize].pending = 0;
        }
        self.mapping.mark(WORD, 0);
        self.used = 0;
    }

    /// Writes an image into the log, over the image for the same slot if there is one.
    fn write(&mut self, slot: u32, kind: u16, key: u64, bytes: &[u8]) -> Result<(), Full> {
        let at = self.place(slot, bytes.len())?;
        let header = Header {
            slot,
            key,
            kind,
            length: bytes.len() as u16,
        };
        self.mapping.write(at, &header.encode());
        self.mapping.write(at + HEADER, bytes);
        Ok(())
    }

    fn place(&mut self, slot: u32, length: usize) -> Result<usize, Full> {
        let known = &mut self.known[slot as usize];
        if let Some(index) = known.pending.checked_sub(1) {
            let pending = &mut self.batch[index as usize];
            pending.length = length;
            return Ok(pending.at);
        }
        let room = self.capacity.slot_bytes(slot);
        if self.used + room > LOG_BYTES {
            return Err(Full::Batch);
        }
        let at = LOG + self.used;
        self.used += room;
        self.batch.push(Pending { slot, at, length });
        known.pending = self.batch.len() as u32;
        Ok(at)
    }

    fn class_of(&mut self, slot: u32) -> &mut Class {
        if slot < self.capacity.small {
            &mut self.small
        } else {
            &mut self.large
        }
    }

    fn free(&mut self, slot: u32) {
        self.class_of(slot).free.push(slot);
    }
}

impl Class {
    fn first(&self) -> Option<u32> {
        let unused = (self.next < self.end).then_some(self.next);
        self.free.last().copied().or(unused)
    }

    fn take_first(&mut self) {
        if self.free.pop().is_none() {
            self.next += 1;
        }
    }
}
