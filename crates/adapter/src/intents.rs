//! The intent of an adapter as a record.
//!
//! One record is enough: a queue pair's progress is written down after each unit, and takes effect with the next
//! intent.

use alloc::boxed::Box;

use vrdma_verbs::{Intent, IntentLog};

use crate::journal::Journal;

/// The number of the record among those of its kind.
const RECORD: u32 = 0;

/// The intent log of an adapter, kept in one record of its journal.
pub struct Intents {
    journal: Box<dyn Journal>,
    kind: u16,
    is_noted: bool,
}

impl Intents {
    /// Keeps the intent in the only record of `kind`.
    pub fn new(journal: Box<dyn Journal>, kind: u16) -> Self {
        Self {
            journal,
            kind,
            is_noted: false,
        }
    }
}

impl IntentLog for Intents {
    fn note(&mut self, intent: &Intent) {
        // Without room for a record, the atomic is done all the same, and may be done twice after a crash.
        self.is_noted |= self.journal.put(self.kind, RECORD, &intent.to_bytes());
        self.journal.commit();
    }

    fn clear(&mut self) {
        if core::mem::take(&mut self.is_noted) {
            self.journal.forget(self.kind, RECORD);
        }
    }
}
