//! The intent of an adapter as a record.
//!
//! One is enough: how far a queue pair has come is written down after each unit, and counts when the next intent does.

use alloc::boxed::Box;

use vrdma_verbs::{Intent, IntentLog};

use crate::journal::Journal;

/// The number of the record among those of its kind.
const RECORD: u32 = 0;

/// See the module.
pub struct Intents {
    journal: Box<dyn Journal>,
    kind: u16,
    is_noted: bool,
}

impl Intents {
    /// In the record of a kind that has no other.
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
        // Without room the atomic is done all the same, and may be done twice after a crash.
        self.is_noted |= self.journal.put(self.kind, RECORD, &intent.to_bytes());
        self.journal.commit();
    }

    fn clear(&mut self) {
        if core::mem::take(&mut self.is_noted) {
            self.journal.forget(self.kind, RECORD);
        }
    }
}
