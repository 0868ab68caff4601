//! The place of each object's record.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use prost::Message;
use vrdma_keep::{Records, SlotId};

/// The kinds of records. Their numbers are in the records of earlier processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u16)]
pub(super) enum Kind {
    Client = 1,
    Answer = 2,
    Channel = 3,
    Event = 4,
    Group = 5,
    Identifier = 6,
    Offer = 7,
    Connection = 8,
    Datagram = 9,
}

impl Kind {
    /// Kinds that belong to a client.
    pub(super) const OF_CLIENT: [Self; 7] = [
        Self::Client,
        Self::Answer,
        Self::Channel,
        Self::Event,
        Self::Group,
        Self::Identifier,
        Self::Offer,
    ];
    /// Kinds that belong to an adapter.
    pub(super) const OF_ADAPTER: [Self; 2] = [Self::Connection, Self::Datagram];

    pub(super) fn from_number(number: u16) -> Option<Self> {
        let all = Self::OF_CLIENT.into_iter().chain(Self::OF_ADAPTER);
        all.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// An object: its kind, its owner (a client's number or an adapter's port), and which of the owner's objects it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) whose: u32,
    pub(super) first: u64,
    pub(super) second: u64,
}

impl Key {
    pub(super) fn new(kind: Kind, whose: u32, first: u64) -> Self {
        Self {
            kind,
            whose,
            first,
            second: 0,
        }
    }

    /// All objects of a kind that an owner has.
    pub(super) fn all(kind: Kind, whose: u32) -> RangeInclusive<Self> {
        let last = Self {
            kind,
            whose,
            first: u64::MAX,
            second: u64::MAX,
        };
        Self::new(kind, whose, 0)..=last
    }

    /// All parts of one object.
    pub(super) fn parts(kind: Kind, whose: u32, first: u64) -> RangeInclusive<Self> {
        let begin = Self::new(kind, whose, first);
        let second = u64::MAX;
        begin..=Self { second, ..begin }
    }
}

/// The records of all clients and adapters.
pub(in super::super) struct Recorder {
    records: Records,
    slots: BTreeMap<Key, SlotId>,
}

impl Recorder {
    pub(super) fn new(records: Records) -> Self {
        Self {
            records,
            slots: BTreeMap::new(),
        }
    }

    /// Makes an existing record that of an object; the object's previous record is removed.
    pub(super) fn adopt(&mut self, key: Key, slot: SlotId) {
        if let Some(other) = self.slots.insert(key, slot) {
            self.records.remove(other);
        }
    }

    /// Writes the record of an object; `false` if there is no room for it.
    pub(super) fn put(&mut self, key: Key, record: &impl Message) -> bool {
        let bytes = record.encode_to_vec();
        let old = self.slots.get(&key).copied();
        if old.is_some_and(|slot| self.records.put(slot, &bytes).is_ok()) {
            return true;
        }
        let Ok(slot) = self.records.insert(key.kind as u16, 0, &bytes) else {
            return false;
        };
        self.slots.insert(key, slot);
        // Remove the old record, which the object has outgrown.
        old.into_iter().for_each(|slot| self.records.remove(slot));
        true
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.slots.contains_key(&key)
    }

    /// Those of the objects `among` that have a record.
    pub(super) fn keys(&self, among: RangeInclusive<Key>) -> Vec<Key> {
        self.slots.range(among).map(|(key, _)| *key).collect()
    }

    pub(super) fn forget(&mut self, key: Key) {
        if let Some(slot) = self.slots.remove(&key) {
            self.records.remove(slot);
        }
    }

    pub(super) fn forget_all(&mut self, among: RangeInclusive<Key>) {
        for key in self.keys(among) {
            self.forget(key);
        }
    }

    pub(super) fn forget_client(&mut self, client: u32) {
        for kind in Kind::OF_CLIENT {
            self.forget_all(Key::all(kind, client));
        }
    }

    pub(super) fn forget_adapter(&mut self, port: u32) {
        for kind in Kind::OF_ADAPTER {
            self.forget_all(Key::all(kind, port));
        }
    }

    /// Removes a record that is of no use.
    pub(super) fn discard(&self, slot: SlotId) {
        self.records.remove(slot);
    }

    pub(super) fn commit(&self) {
        self.records.commit();
    }
}
