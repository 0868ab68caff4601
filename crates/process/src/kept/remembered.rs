//! The records of a process that ended, sorted by adapter.
//!
//! A client with a missing or wrong record is let go, and its socket closed: its library tells the program that the
//! device is gone. An adapter whose records contradict each other loses all its clients.

use std::collections::BTreeMap;
use std::os::fd::RawFd;

use prost::Message;
use vrdma_keep::{Inherited, Record, Records, SlotId};
use vrdma_verbs::saved::{RestoreError, region_name};

use super::record::{self, Backing};
use super::reviving::Reviving;
use super::{Kind, Recorder};
use crate::registry::Registry;
use crate::sessions::OpenSession;
use crate::{Process, ProcessSpec};

/// The records of a process that ended, by adapter.
#[derive(Debug, Default)]
pub struct Remembered {
    adapters: BTreeMap<u32, Vec<Noted>>,
    by_name: BTreeMap<String, u32>,
}

/// One record.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) kind: u16,
    pub(super) id: u32,
    slot: SlotId,
    pub(super) bytes: Vec<u8>,
}

impl Noted {
    /// The descriptors that the record names. `foreign` reads records of other front ends.
    fn descriptors(&self, foreign: impl Fn(u16, &[u8]) -> Vec<RawFd>) -> Vec<RawFd> {
        let bytes = &*self.bytes;
        let Some(kind) = Kind::from_number(self.kind) else {
            return foreign(self.kind, bytes);
        };
        let numbers = match kind {
            Kind::Context => record::Context::decode(bytes).map(|it| it.descriptors()),
            Kind::Answer => record::Answer::decode(bytes).map(|it| it.descriptors),
            Kind::Channel => record::Channel::decode(bytes).map(|it| vec![it.pipe]),
            Kind::Cq => record::Cq::decode(bytes).map(|it| vec![it.area]),
            Kind::Srq => record::Srq::decode(bytes).map(|it| vec![it.area]),
            Kind::Qp => record::Qp::decode(bytes).map(|it| vec![it.area]),
            Kind::Mr => return self.file(),
            _ => return Vec::new(),
        };
        numbers.unwrap_or_default()
    }

    /// The descriptor of a region that is a file.
    fn file(&self) -> Vec<RawFd> {
        let place =
            region_name(&self.bytes).and_then(|name| record::RegionRecord::decode(&*name).ok());
        match place.and_then(|place| place.backing) {
            Some(Backing::File(file) | Backing::Partly(record::Partly { file, .. })) => {
                vec![file.descriptor]
            }
            _ => Vec::new(),
        }
    }
}

/// The records of an adapter of another front end.
pub struct Taken {
    /// Kind, number and contents of each.
    pub records: Vec<(u16, u32, Vec<u8>)>,
    /// Recorder to go on with.
    pub recorder: Recorder,
}

/// An adapter that goes on, with its clients' sessions.
pub struct Revived {
    /// The adapter.
    pub process: Process,
    /// Its clients, to be [adopted](crate::Sessions::adopt_open).
    pub sessions: Vec<OpenSession>,
}

/// The reasons why an adapter does not go on.
#[derive(Debug, thiserror::Error)]
pub enum Lost {
    /// There is no description of the adapter.
    #[error("the record of the adapter itself is missing or damaged")]
    Adapter,
    /// The adapter's objects contradict each other.
    #[error(transparent)]
    Engine(#[from] RestoreError),
}

/// The means for an adapter to go on.
pub struct Means<'a> {
    /// The area that has the adapter's records, for those from now on.
    pub records: Records,
    /// The users of its clients, and which of them to trust.
    pub registry: &'a Registry,
    /// The descriptors that the earlier process has left open.
    pub inherited: &'a mut Inherited,
    /// Seed that makes numbers of objects that are gone stale.
    pub seed: u64,
}

impl Remembered {
    /// Sorts records by adapter. Records that belong to no adapter are removed.
    pub fn new(found: Vec<Record>, records: &Records) -> Self {
        let mut remembered = Self::default();
        for record in found {
            let kind = record.kind;
            let (adapter, id) = ((record.key >> 32) as u32, record.key as u32);
            if kind == Kind::Adapter as u16
                && let Ok(described) = record::Adapter::decode(&*record.bytes)
            {
                remembered.by_name.insert(described.name, adapter);
            }
            let noted = Noted {
                kind,
                id,
                slot: record.slot,
                bytes: record.bytes,
            };
            remembered.adapters.entry(adapter).or_default().push(noted);
        }
        let named: Vec<u32> = remembered.by_name.values().copied().collect();
        remembered.adapters.retain(|adapter, all| {
            let is_named = named.contains(adapter);
            if !is_named {
                all.iter().for_each(|noted| records.remove(noted.slot));
            }
            is_named
        });
        records.commit();
        remembered
    }

    /// Returns the numbers of all descriptors that the records name. `foreign` finds those in records of other front
    /// ends.
    pub fn descriptors(&self, foreign: impl Fn(u16, &[u8]) -> Vec<RawFd>) -> Vec<RawFd> {
        let all = self.adapters.values().flatten();
        all.flat_map(|noted| noted.descriptors(&foreign)).collect()
    }

    /// Removes the records that are left.
    pub fn forget(self, records: &Records) {
        let left = self.adapters.values().flatten();
        left.for_each(|noted| records.remove(noted.slot));
        records.commit();
    }

    /// Whether there are records of an adapter with that name.
    pub fn knows(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Restores an adapter; `None` if there are no records of that name. If the adapter cannot go on, its records are
    /// removed, and its clients' descriptors closed.
    pub fn revive(&mut self, spec: ProcessSpec, means: Means<'_>) -> Option<Result<Revived, Lost>> {
        let (noted, recorder) = self.take_noted(&spec.name, &means.records)?;
        Some(Reviving::new(spec, &noted, means).finish(recorder))
    }

    /// Takes the records of an adapter of another front end, if there are some of that name.
    pub fn take(&mut self, name: &str, records: &Records) -> Option<Taken> {
        let (noted, recorder) = self.take_noted(name, records)?;
        let records = noted.into_iter().map(|it| (it.kind, it.id, it.bytes));
        Some(Taken {
            records: records.collect(),
            recorder,
        })
    }

    fn take_noted(&mut self, name: &str, records: &Records) -> Option<(Vec<Noted>, Recorder)> {
        let adapter = self.by_name.remove(name)?;
        let noted = self.adapters.remove(&adapter)?;
        let mut recorder = Recorder::of(records.clone(), adapter);
        for Noted { kind, id, slot, .. } in &noted {
            match recorder.slots.get_mut(usize::from(*kind)) {
                Some(slots) => slots.put(*id, *slot),
                None => records.remove(*slot),
            }
        }
        Some((noted, recorder))
    }
}
