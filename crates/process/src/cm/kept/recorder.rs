//! Where the record of each thing is.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use prost::Message;
use vrdma_keep::{Records, SlotId};

/// What a record is about. The numbers are in the records of processes that ended.
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
    /// Those that belong to a client.
    pub(super) const OF_CLIENT: [Self; 7] = [
        Self::Client,
        Self::Answer,
        Self::Channel,
        Self::Event,
        Self::Group,
        Self::Identifier,
        Self::Offer,
    ];
    /// Those that belong to an adapter.
    pub(super) const OF_ADAPTER: [Self; 2] = [Self::Connection, Self::Datagram];

    pub(super) fn from_number(number: u16) -> Option<Self> {
        let all = Self::OF_CLIENT.into_iter().chain(Self::OF_ADAPTER);
        all.into_iter().find(|kind| *kind as u16 == number)
    }
}

/// A thing: of which kind, whose (a client's number or an adapter's port), and which of these.
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

    /// All of a kind that somebody has.
    pub(super) fn all(kind: Kind, whose: u32) -> RangeInclusive<Self> {
        let last = Self {
            kind,
            whose,
            first: u64::MAX,
            second: u64::MAX,
        };
        Self::new(kind, whose, 0)..=last
    }

    /// The parts of one thing.
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

    /// A record that is there already is that of a thing; the one that it had is removed.
    pub(super) fn adopt(&mut self, key: Key, slot: SlotId) {
        if let Some(other) = self.slots.insert(key, slot) {
            self.records.remove(other);
        }
    }

    /// Writes the record of a thing; `false` if there is no room for it.
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
        // One that it has outgrown.
        old.into_iter().for_each(|slot| self.records.remove(slot));
        true
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.slots.contains_key(&key)
    }

    /// The things among those that have a record.
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

    /// A record that is of no use.
    pub(super) fn discard(&self, slot: SlotId) {
        self.records.remove(slot);
    }

    pub(super) fn commit(&self) {
        self.records.commit();
    }
}
