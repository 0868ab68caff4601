//! Changes that requests made to the configuration, kept for the next worker.
//!
//! ```text
//!   record   kind DIFFERENCE, key = number of the difference, number of the part    the parts together: JSON
//! ```
//! Each object that differs from the configuration has one [`Difference`]; a new one replaces the old one in one batch.
//! A difference counts as long as the configuration says the same of the object as when it was recorded: an edit of the
//! configuration has the last word. Without a keeper there is no next worker, and nothing is kept. This module does not
//! know what a difference means.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use vrdma_api::Name;
use vrdma_keep::{Capacity, Full, Inherited, LARGE_BYTES, Record, Records, SlotId};

use crate::{Difference, Inventory, Object};
use serde::{Deserialize, Serialize};

/// Capacity of the area: some records for each adapter that a daemon may have, and long lists of stations. Pages that
/// were never written take no memory.
pub const CAPACITY: Capacity = Capacity {
    small: 1 << 16,
    large: 1 << 16,
};

/// Kind of the area's records.
const DIFFERENCE: u16 = 1;

/// Bits of a key that hold the number of the part.
const PART_BITS: u32 = 16;

/// Content of a record.
#[derive(PartialEq, Debug, Serialize, Deserialize)]
struct Kept {
    difference: Difference,
    /// Checksum of the object in the configuration at that time, if the object was in it.
    configured: Option<u32>,
    /// Descriptor of a connection that holds the adapter: the adapter is removed when this connection or one of the
    /// others ends.
    held_by: Option<RawFd>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    also_held_by: Vec<RawFd>,
}

impl Kept {
    fn holders(&self) -> impl Iterator<Item = RawFd> {
        self.held_by
            .into_iter()
            .chain(self.also_held_by.iter().copied())
    }
}

/// The records of one difference.
#[derive(Debug)]
struct Slots {
    slots: Vec<SlotId>,
}

#[derive(Debug)]
struct Store {
    records: Records,
    /// Records of each object's difference.
    places: BTreeMap<Object, Slots>,
}

/// Differences of objects from the configuration, and the connections that hold adapters; see the module.
#[derive(Debug, Default)]
pub struct Changes {
    store: Option<Store>,
    /// Objects of the configuration, with a checksum of each.
    configured: BTreeMap<Object, u32>,
    /// Connections that hold adapters.
    holds: BTreeMap<Name, Vec<RawFd>>,
    /// Connections that held adapters of the previous worker, until a caller takes them to wait for their ends.
    claimed: Vec<(Name, OwnedFd)>,
}

/// Differences that the previous worker left.
#[derive(Debug)]
pub struct Found {
    store: Store,
    kept: Vec<Kept>,
    holds: Vec<(Name, OwnedFd)>,
}

impl Found {
    /// Opens the area. Records that cannot be read are logged and removed.
    ///
    /// # Errors
    /// The descriptor is no such area, or cannot be mapped.
    pub fn open(area: BorrowedFd<'_>) -> io::Result<Self> {
        let (records, found, damaged) = Records::open(area, number_of)?;
        if damaged > 0 {
            tracing::warn!("{damaged} records of changes of the configuration were damaged");
        }
        let mut parts = BTreeMap::<u32, Vec<Record>>::new();
        for record in found {
            let of_number = parts.entry(number_of(&record)).or_default();
            of_number.push(record);
        }
        let (mut places, mut all) = (BTreeMap::new(), Vec::new());
        for mut parts in parts.into_values() {
            parts.sort_unstable_by_key(|part| part.key);
            let slots = parts.iter().map(|part| part.slot).collect();
            let place = Slots { slots };
            if let Some(kept) = read(&parts) {
                places.insert(kept.difference.object(), place);
                all.push(kept);
            } else {
                tracing::warn!("a change of the configuration is lost: its record is damaged");
                place.remove_from(&records);
            }
        }
        records.commit();
        Ok(Self {
            store: Store { records, places },
            kept: all,
            holds: Vec::new(),
        })
    }

    /// Takes the connections that hold adapters. An adapter whose connection is gone is gone with it.
    pub fn claim(&mut self, inherited: &mut Inherited) {
        let (store, holds) = (&mut self.store, &mut self.holds);
        self.kept.retain(|kept| {
            let Object::Adapter(name) = kept.difference.object() else {
                return true;
            };
            let connections: Vec<_> = kept
                .holders()
                .map(|number| inherited.claim(number))
                .collect();
            let is_held = connections.iter().all(Option::is_some);
            if is_held {
                let connections = connections.into_iter().flatten();
                holds.extend(connections.map(|connection| (name.clone(), connection)));
            }
            if !is_held {
                store.forget(&Object::Adapter(name));
            }
            is_held
        });
    }
}

impl Slots {
    fn remove_from(&self, records: &Records) {
        for slot in &self.slots {
            records.remove(*slot);
        }
    }
}

impl Store {
    /// Records a difference in place of the object's last one; without one, the object is as the configuration says.
    fn put(&mut self, object: &Object, kept: Option<&Kept>) -> Result<(), Full> {
        let place = kept.map(|kept| self.write(kept)).transpose()?;
        if let Some(before) = self.places.remove(object) {
            before.remove_from(&self.records);
        }
        self.places
            .extend(place.map(|place| (object.clone(), place)));
        self.records.commit();
        Ok(())
    }

    /// Forgets the difference of an object that is as the configuration says.
    fn forget(&mut self, object: &Object) {
        let forgotten = self.put(object, None);
        debug_assert_eq!(forgotten, Ok(()), "nothing is added");
    }

    fn write(&self, kept: &Kept) -> Result<Slots, Full> {
        let bytes = serde_json::to_vec(kept).map_err(|_| Full::Length)?;
        let number = u64::from(self.records.fresh_number()) << PART_BITS;
        let mut place = Slots { slots: Vec::new() };
        for (part, bytes) in bytes.chunks(LARGE_BYTES).enumerate() {
            let key = number | part as u64;
            match self.records.insert(DIFFERENCE, key, bytes) {
                Ok(slot) => place.slots.push(slot),
                Err(full) => {
                    place.remove_from(&self.records);
                    return Err(full);
                }
            }
        }
        Ok(place)
    }
}

impl Changes {
    /// Restores the inventory from the configuration and the differences, and goes on recording changes.
    pub fn follow(found: Option<Found>, inventory: &mut Inventory) -> Self {
        // Without a store, nothing is compared with the configuration, which may be long.
        let Some(Found {
            mut store,
            kept,
            holds: mut claimed,
        }) = found
        else {
            return Self::default();
        };
        let objects = inventory.objects().into_iter();
        let configured: BTreeMap<_, _> = objects
            .map(|object| {
                let says = checksum(&inventory.difference(&object));
                (object, says)
            })
            .collect();
        let counts = |it: &Kept| configured.get(&it.difference.object()).copied() == it.configured;
        let (kept, edited): (Vec<_>, Vec<_>) = kept.into_iter().partition(counts);
        for object in edited.iter().map(|it| it.difference.object()) {
            tracing::info!("{object} is as the configuration says, which was changed");
            store.forget(&object);
        }
        let hold = |it: &Kept| match it.difference.object() {
            Object::Adapter(name) => Some((name, it.holders().collect::<Vec<_>>())),
            _ => None,
        };
        let mut holds: BTreeMap<_, _> = kept.iter().filter_map(hold).collect();
        holds.retain(|_, connections| !connections.is_empty());
        let differences: Vec<_> = kept.into_iter().map(|it| it.difference).collect();
        for (object, refusal) in inventory.follow(&differences) {
            tracing::warn!(
                "{object} is not as it was, since the configuration was changed: {refusal}"
            );
            store.forget(&object);
            if let Object::Adapter(name) = &object {
                holds.remove(name);
            }
        }
        // An adapter of the edited configuration that has the name of a held one is not held.
        claimed.retain(|(name, _)| holds.contains_key(name));
        Self {
            store: Some(store),
            configured,
            holds,
            claimed,
        }
    }

    /// Returns the previous worker's connections that hold adapters; later calls return none.
    pub fn take_claimed(&mut self) -> Vec<(Name, OwnedFd)> {
        std::mem::take(&mut self.claimed)
    }

    /// Adds the connection with this descriptor to those that hold an adapter.
    pub fn hold(&mut self, adapter: &Name, connection: RawFd, inventory: &Inventory) {
        let holders = self.holds.entry(adapter.clone()).or_default();
        if !holders.contains(&connection) {
            holders.push(connection);
        }
        self.keep(&Object::Adapter(adapter.clone()), inventory);
    }

    /// Forgets the connections of an adapter that is gone.
    pub fn release(&mut self, adapter: &Name) {
        self.holds.remove(adapter);
    }

    /// Records a changed object as it is now.
    pub fn keep(&mut self, object: &Object, inventory: &Inventory) {
        let Some(store) = &mut self.store else { return };
        let difference = inventory.difference(object);
        let configured = self.configured.get(object).copied();
        let is_gone = matches!(difference, Difference::Removed(_));
        let holders = match object {
            Object::Adapter(name) => self.holds.get(name).cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        let kept = Kept {
            difference,
            configured,
            held_by: holders.first().copied(),
            also_held_by: holders.into_iter().skip(1).collect(),
        };
        let is_kept = !is_gone || configured.is_some();
        if let Err(full) = store.put(object, is_kept.then_some(&kept)) {
            tracing::warn!("{object} will not be as it is now after a crash: {full}");
        }
    }
}

fn number_of(record: &Record) -> u32 {
    (record.key >> PART_BITS) as u32
}

fn checksum(difference: &Difference) -> u32 {
    let text = serde_json::to_vec(difference);
    crc32fast::hash(&text.unwrap_or_default())
}

/// Joins the parts of a record and decodes them.
fn read(parts: &[Record]) -> Option<Kept> {
    let text: Vec<u8> = parts.iter().flat_map(|part| part.bytes.clone()).collect();
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests;
