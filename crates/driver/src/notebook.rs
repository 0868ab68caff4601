//! The records of all devices of a process, and a way to end the process at any moment.
//!
//! ```text
//!   device ── Notes (a journal) ──► batch ──commit──► committed ──► records for the next process
//!                └── at the chosen call: a panic with Crash, which the code that runs the devices catches
//! ```

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vrdma_adapter::Journal;
use vrdma_pvrdma::SavedRecord;

/// Guest, kind and number of a record.
pub type Key = (usize, u16, u32);

/// The notebook of a process.
#[derive(Default)]
pub struct Notebook {
    /// Records that the next process would find.
    pub committed: BTreeMap<Key, Vec<u8>>,
    /// Changes since the last commit; `None` for a removed record.
    pub batch: BTreeMap<Key, Option<Vec<u8>>>,
    /// Number of calls until the process ends.
    pub left: Option<u32>,
}

/// The panic value of a process that ends.
pub struct Crash;

/// A notebook shared by the devices of a process.
pub type Book = Arc<Mutex<Notebook>>;

/// Locks the notebook, even after a process that ended while writing: each change is complete.
pub fn open(book: &Book) -> MutexGuard<'_, Notebook> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The journal of one device.
#[derive(Clone)]
pub struct Notes {
    guest: usize,
    book: Book,
}

impl Notes {
    /// Makes the journal for a guest's device.
    pub fn of(guest: usize, book: &Book) -> Box<dyn Journal> {
        let book = Arc::clone(book);
        Box::new(Self { guest, book })
    }

    fn step(&self) {
        let mut book = open(&self.book);
        let Some(left) = &mut book.left else { return };
        let ends = *left == 0;
        *left = left.saturating_sub(1);
        if ends {
            book.left = None;
            drop(book);
            resume_unwind(Box::new(Crash));
        }
    }

    fn note(&self, kind: u16, id: u32, bytes: Option<&[u8]>) {
        self.step();
        let key = (self.guest, kind, id);
        let bytes = bytes.map(<[u8]>::to_vec);
        open(&self.book).batch.insert(key, bytes);
    }
}

impl Journal for Notes {
    fn put(&mut self, kind: u16, id: u32, bytes: &[u8]) -> bool {
        self.note(kind, id, Some(bytes));
        true
    }

    fn forget(&mut self, kind: u16, id: u32) {
        self.note(kind, id, None);
    }

    fn forget_all(&mut self, kind: u16) {
        let book = open(&self.book);
        let known = book.committed.keys().chain(book.batch.keys());
        let of_kind = known.filter(|key| (key.0, key.1) == (self.guest, kind));
        let ids: Vec<u32> = of_kind.map(|key| key.2).collect();
        drop(book);
        ids.into_iter().for_each(|id| self.note(kind, id, None));
    }

    fn beside(&self) -> Option<Box<dyn Journal>> {
        Some(Box::new(self.clone()))
    }

    fn commit(&mut self) {
        if open(&self.book).batch.is_empty() {
            return;
        }
        self.step();
        open(&self.book).commit();
        self.step();
    }
}

impl Notebook {
    /// Commits the batch.
    pub fn commit(&mut self) {
        for (key, bytes) in std::mem::take(&mut self.batch) {
            match bytes {
                Some(bytes) => self.committed.insert(key, bytes),
                None => self.committed.remove(&key),
            };
        }
    }

    /// Removes the records of a guest: no process goes on with its device here.
    pub fn forget(&mut self, guest: usize) {
        self.committed.retain(|key, _| key.0 != guest);
        self.batch.retain(|key, _| key.0 != guest);
    }

    /// The records that a guest's device goes on from.
    pub fn records_of(&self, guest: usize) -> Vec<SavedRecord> {
        let own = self.committed.iter().filter(|(key, _)| key.0 == guest);
        own.map(|((_, kind, id), bytes)| SavedRecord {
            kind: *kind,
            id: *id,
            bytes: bytes.clone(),
        })
        .collect()
    }
}
