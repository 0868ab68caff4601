//! A device that does nothing, because another one may go on in its place.
//!
//! ```text
//!             freeze: its records              reset: the other one has gone on
//!   working ───────────────────────► frozen ─────────────────────────────────► Reset
//!      ▲                               │ ▲
//!      └───────────── thaw ────────────┘ └── keep_frozen: it is the other one, and waits for that
//! ```
//! Frozen, it is as a function that must not master the bus: what comes for it is as lost on a wire, and is sent
//! again by peers. It tells of no addresses, and writes nothing down. It does not know where its records go.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use vrdma_adapter::{Journal, Sending};
use vrdma_verbs::Time;

use super::{Device, Stage};
use crate::adapter::Turn;
use crate::kept::SavedRecord;

/// Keeps what is put, and nothing of what was there before.
#[derive(Clone, Default)]
struct Collected(Arc<Mutex<Vec<SavedRecord>>>);

impl Collected {
    fn take(&self) -> Vec<SavedRecord> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Journal for Collected {
    /// A device that is written down at once puts each record once.
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
    /// Does nothing from now on, until it is [thawed](Self::thaw) or reset. The answer is what another device
    /// needs to [go on](Self::resume) in its place, over a copy of the memory. Call it between turns, and with no
    /// view of the space in this thread.
    pub fn freeze(&mut self) -> Vec<SavedRecord> {
        self.end_batch();
        let records = self.written_down();
        self.frozen = true;
        // Who takes the context reads what the guest has, whatever its driver has just switched off.
        self.space.set_bus_master(true);
        records
    }

    /// One that has just [gone on](Self::resume) in another's place does nothing yet, until it is [thawed](Self::thaw)
    /// or reset. Where it will be written down has the records of the one in whose place it is: they count until then,
    /// so call [`record_to`](Self::record_to) afterwards.
    pub fn keep_frozen(&mut self, journal: Option<Box<dyn Journal>>) {
        self.frozen = true;
        self.space.set_bus_master(true);
        // Not the adapter's, which would write into it.
        self.journal = journal;
    }

    /// Another device was made over the same memory, and is not to go on: whether it may be reached is this one's to say.
    pub fn reclaim_memory(&self) {
        self.space.set_bus_master(self.frozen || self.may_work());
    }

    /// Its connections end as if their queues had failed: a flush, and an event for each. For one that has gone on in the
    /// place of a device of long ago: peers have gone on, and would take what is new for what they had already.
    pub fn end_connections(&mut self) {
        let Stage::Active(adapter, _) = &mut self.stage else {
            return;
        };
        for id in adapter.core.hca.connections() {
            // One that is listed is there.
            let _ = adapter.core.hca.fail_qp(id);
            adapter.wake(id);
        }
    }

    /// Goes on after [`freeze`](Self::freeze) as if nothing had been.
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

    /// Whether it was frozen, and neither thawed nor reset.
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
