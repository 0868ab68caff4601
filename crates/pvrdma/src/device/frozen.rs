//! A device that does nothing, because another one may go on in its place.
//!
//! ```text
//!             freeze: its records              reset: the other one has gone on
//!   working ───────────────────────► frozen ─────────────────────────────────► Reset
//!      ▲                               │ ▲
//!      └───────────── thaw ────────────┘ └── keep_frozen: it is the other one, and waits for that
//! ```
//! A frozen device acts like a function that must not master the bus: what arrives for it is lost, as on a wire, and
//! peers send it again. It reports no address changes and writes no records. It does not know where its records go.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use vrdma_adapter::{Journal, Sending};
use vrdma_verbs::Time;

use super::{Device, Stage};
use crate::adapter::Turn;
use crate::kept::SavedRecord;

/// A journal that collects new records and has none from before.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<SavedRecord>>>);

impl Collected {
    fn take(&self) -> Vec<SavedRecord> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Journal for Collected {
    /// Puts a record. A device that is recorded at once puts each record once.
    fn put(&mut self, kind: u16, id: u32, bytes: &[u8]) -> bool {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = bytes.to_vec();
        records.push(SavedRecord { kind, id, bytes });
        true
    }

    fn forget(&mut self, _kind: u16, _id: u32) {}

    fn forget_all(&mut self, _kind: u16) {}

    fn commit(&mut self) {}
}

impl Device {
    /// Freezes the device, until it is [thawed](Self::thaw) or reset. Returns the records that another device needs to
    /// [go on](Self::resume) in its place, over a copy of the memory. Call it between turns, and with no view of the
    /// space in this thread.
    pub fn freeze(&mut self) -> Vec<SavedRecord> {
        self.end_batch();
        let records = self.written_down();
        self.frozen = true;
        // The receiver of the context reads guest memory, even if the driver has just switched bus mastering off.
        self.space.set_bus_master(true);
        records
    }

    /// Keeps a device frozen that has just [gone on](Self::resume) in another's place, until it is [thawed](Self::thaw)
    /// or reset. Its journal has the records of the device that it replaces. They count until then, so call
    /// [`record_to`](Self::record_to) afterwards.
    pub fn keep_frozen(&mut self, journal: Option<Box<dyn Journal>>) {
        self.frozen = true;
        self.space.set_bus_master(true);
        // The adapter does not get it, since it would write into it.
        self.journal = journal;
    }

    /// Takes the memory back from another device that was made over it and is not to go on: this device decides again
    /// whether memory may be reached.
    pub fn reclaim_memory(&self) {
        self.space.set_bus_master(self.frozen || self.may_work());
    }

    /// Ends the connections as if their queues had failed: a flush, and an event for each. For a device that has gone
    /// on from old records: its peers have gone further, and would take new messages for ones that they already have.
    pub fn end_connections(&mut self) {
        let Stage::Active(adapter, _) = &mut self.stage else {
            return;
        };
        for id in adapter.core.hca.connections() {
            // Each QP in the list exists.
            let _ = adapter.core.hca.fail_qp(id);
            adapter.wake(id);
        }
    }

    /// Goes on after [`freeze`](Self::freeze) as if nothing had happened.
    pub fn thaw(&mut self, now: Time) {
        if !mem::take(&mut self.frozen) {
            return;
        }
        let may_work = self.may_work();
        self.space.set_bus_master(may_work);
        if let Stage::Active(adapter, _) = &mut self.stage
            && may_work
        {
            adapter.core.hca.resume_all();
            let memory = self.space.view();
            let memory = &memory;
            adapter.wake_everything(Turn { memory, now });
        }
        self.record();
    }

    /// Whether it is frozen: neither thawed nor reset since.
    pub fn is_frozen(&self) -> bool {
        self.frozen
    }

    fn written_down(&mut self) -> Vec<SavedRecord> {
        let collected = Collected::default();
        let own = self.take_journal();
        self.record_to(Box::new(collected.clone()));
        self.take_journal();
        if let Some(journal) = own {
            self.put_journal(journal);
        }
        collected.take()
    }
}
