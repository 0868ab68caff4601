//! The records of a thread, which several of its adapters share.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::store::{Full, Opened, Record, SlotId, Store};

/// A handle to the records. An adapter that moves between threads keeps its handle; nothing waits for it meanwhile.
#[derive(Clone, Debug)]
pub struct Records(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Mutex<Store>,
    fresh: AtomicU32,
}

impl Records {
    /// Opens an area. Returns the records of the last commit, and how many were damaged. `largest` returns, for a
    /// record, the largest number that [`fresh_number`](Self::fresh_number) must not return again.
    ///
    /// # Errors
    /// The file is no such area, or cannot be mapped.
    pub fn open(
        area: BorrowedFd<'_>,
        largest: impl Fn(&Record) -> u32,
    ) -> io::Result<(Self, Vec<Record>, usize)> {
        let Opened {
            store,
            records,
            unsound,
        } = Store::open(area)?;
        let used = records.iter().map(largest).max().unwrap_or(0);
        let shared = Shared {
            store: Mutex::new(store),
            fresh: AtomicU32::new(used.wrapping_add(1)),
        };
        Ok((Self(Arc::new(shared)), records, unsound))
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that no record has.
    pub fn fresh_number(&self) -> u32 {
        self.0.fresh.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds a record to the batch.
    ///
    /// # Errors
    /// There is no room, or the record is too long.
    pub fn insert(&self, kind: u16, key: u64, bytes: &[u8]) -> Result<SlotId, Full> {
        self.lock()
            .committed_if_full(|store| store.insert(kind, key, bytes))
    }

    /// Replaces a record in the batch.
    ///
    /// # Errors
    /// The record does not fit into its slot.
    pub fn put(&self, slot: SlotId, bytes: &[u8]) -> Result<(), Full> {
        self.lock()
            .committed_if_full(|store| store.put(slot, bytes))
    }

    /// Removes a record in the batch.
    pub fn remove(&self, slot: SlotId) {
        let removed = self.lock().committed_if_full(|store| store.remove(slot));
        debug_assert_eq!(removed, Ok(()), "an empty batch has room");
    }

    /// Ends the batch: from now on its changes hold, whatever happens to this process.
    pub fn commit(&self) {
        self.lock().commit();
    }
}

impl Store {
    /// Makes a change. If the batch is full, it is committed first: the changes made so far hold together, without this
    /// one.
    fn committed_if_full<T>(
        &mut self,
        mut change: impl FnMut(&mut Self) -> Result<T, Full>,
    ) -> Result<T, Full> {
        match change(self) {
            Err(Full::Batch) => {
                self.commit();
                change(self)
            }
            done => done,
        }
    }
}
