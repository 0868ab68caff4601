//! Records of what another process needs to go on for this one, written at each change.
//!
//! ```text
//!   a request made or changed an object ──► its record ─┐
//!   a message came further ──► progress of its queue pair, of completion queues ─┴─► commit ─► shown
//! ```
//! Records name descriptors by number: the keeper shares its table of descriptors with the process that serves, so they
//! stay open ([`vrdma_keep`]).
//!
//! Records that are read back are not trusted: see [`remembered`].

mod assemble;
#[cfg(test)]
mod corpus;
mod progress;
mod record;
mod remembered;
mod reviving;
#[cfg(test)]
mod tests;
mod write;

use prost::Message;
use vrdma_adapter::{Journal, Slots};
use vrdma_keep::{Records, SlotId};

pub use remembered::{Lost, Means, Remembered, Revived, Taken};
pub(crate) use write::{Arrival, PlaceName};

/// The kinds of records. Their numbers are in the records of earlier processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum Kind {
    /// The adapter without its objects.
    Adapter = 1,
    /// A client.
    Context = 2,
    /// A completion channel, by client and number.
    Channel = 3,
    Pd = 4,
    /// A region or window.
    Mr = 5,
    Cq = 6,
    Srq = 7,
    Qp = 8,
    /// Progress of a queue pair.
    QpProgress = 9,
    /// Number of entries that a completion queue has got.
    CqProgress = 10,
    /// The ring and the staged receives of a shared receive queue.
    SrqProgress = 11,
    /// The answer that a client was given last.
    Answer = 13,
    /// The receive of a message under way on a queue pair with a shared receive queue.
    Receive = 12,
    /// The atomic that is about to be carried out.
    Intent = 14,
}

/// Kinds of process adapters, from 1 on.
const OWN_KINDS: usize = 15;

/// All kinds: those of other front ends follow.
const KINDS: usize = 48;

impl Kind {
    fn from_number(number: u16) -> Option<Self> {
        const ALL: [Kind; OWN_KINDS - 1] = [
            Kind::Adapter,
            Kind::Context,
            Kind::Channel,
            Kind::Pd,
            Kind::Mr,
            Kind::Cq,
            Kind::Srq,
            Kind::Qp,
            Kind::QpProgress,
            Kind::CqProgress,
            Kind::SrqProgress,
            Kind::Receive,
            Kind::Answer,
            Kind::Intent,
        ];
        ALL.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// The records of one adapter. Dropping this removes them.
pub struct Recorder {
    records: Records,
    /// Tells this adapter's records from those of other adapters, and of earlier ones at its port.
    adapter: u32,
    slots: [Slots<SlotId>; KINDS],
    /// Buffer in which a record is put together.
    buffer: Vec<u8>,
}

impl Recorder {
    pub(crate) fn new(records: Records) -> Self {
        let adapter = records.fresh_number();
        Self::of(records, adapter)
    }

    /// Makes the recorder of an adapter of another front end. Its other records have kinds of their own, from 16 to 47.
    /// `None` if there is no room.
    pub fn named(records: Records, name: &str) -> Option<Self> {
        let mut recorder = Self::new(records);
        let record = record::Adapter {
            name: name.to_owned(),
            frame: Vec::new(),
        };
        let has_room = recorder.put(Kind::Adapter as u16, 0, &record.encode_to_vec());
        has_room.then_some(recorder)
    }

    fn of(records: Records, adapter: u32) -> Self {
        Self {
            records,
            adapter,
            slots: std::array::from_fn(|_| Slots::new()),
            buffer: Vec::new(),
        }
    }

    /// Numbers of the objects that have a record of a kind.
    fn numbers(&self, kind: Kind) -> Vec<u32> {
        self.slots[kind as usize].numbers(|_| true)
    }
}

impl Journal for Recorder {
    fn put(&mut self, kind: u16, id: u32, bytes: &[u8]) -> bool {
        let Some(slots) = self.slots.get_mut(usize::from(kind)) else {
            return false;
        };
        let old = slots.get(id).copied();
        if old.is_some_and(|slot| self.records.put(slot, bytes).is_ok()) {
            return true;
        }
        let key = u64::from(self.adapter) << 32 | u64::from(id);
        let Ok(slot) = self.records.insert(kind, key, bytes) else {
            return false;
        };
        slots.put(id, slot);
        // Remove the old record, which the object has outgrown.
        old.into_iter().for_each(|slot| self.records.remove(slot));
        true
    }

    fn forget(&mut self, kind: u16, id: u32) {
        let slots = self.slots.get_mut(usize::from(kind));
        if let Some(slot) = slots.and_then(|slots| slots.take(id)) {
            self.records.remove(slot);
        }
    }

    fn forget_all(&mut self, kind: u16) {
        if let Some(slots) = self.slots.get_mut(usize::from(kind)) {
            let all = std::mem::take(slots);
            all.iter().for_each(|(_, slot)| self.records.remove(*slot));
        }
    }

    fn commit(&mut self) {
        self.records.commit();
    }

    fn beside(&self) -> Option<Box<dyn Journal>> {
        Some(Box::new(Self::of(self.records.clone(), self.adapter)))
    }
}

impl Drop for Recorder {
    /// Removes all records: the adapter is gone.
    fn drop(&mut self) {
        for slots in &self.slots {
            slots
                .iter()
                .for_each(|(_, slot)| self.records.remove(*slot));
        }
        self.records.commit();
    }
}
