//! What a worker left to the next one: its records and descriptors.
//!
//! ```text
//!   root area (the keeper's) ── where the area of each shard is, and that of changes
//!   area of a shard ── records of its adapters ([`vrdma_process`])
//!   area of changes ── what requests made of the configuration ([`vrdma_inventory::changes`])
//! ```
//! Adapters go on with their records when they are plugged in again. What belongs to none that is plugged in at
//! the start is forgotten then.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use vrdma_adapter::ShardId;
use vrdma_api::{Keeper, Upgrade, UpgradeOutcome};
use vrdma_keep::{Area, Capacity, Inherited, Life, Outcome, Record, Records, WorkerLine};
use vrdma_process::{Lost, Means, ProcessSpec, Recorder, Registry, Remembered, Revived, Sessions};

use vrdma_inventory::changes;

use crate::vm;

/// Of all that a worker leaves: the records of each room, what descriptors are, and how keepers follow each other. Whatever
/// changes what one of them means raises it. A daemon goes on for one with the same format only.
pub const FORMAT: u32 = 4;

/// The root area has a record for each shard that there ever was, and one more.
pub const ROOT: Capacity = Capacity {
    small: 1024,
    large: 1,
};

/// Of one shard: as many queue pairs, regions and the like as its adapters may have together. Pages that
/// nothing was written to take no memory.
const SHARD: Capacity = Capacity {
    small: 1 << 20,
    large: 1 << 18,
};

/// The kinds of the root area's records: where a shard's area is, and where that of changes.
const AREA: u16 = 1;
const CHANGES: u16 = 2;

/// See the module. Nothing is recorded without a keeper.
#[derive(Clone, Debug, Default)]
pub struct Legacy(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    /// How many workers there were before.
    number: u32,
    line: WorkerLine,
    /// One for each shard, and the descriptors of their areas.
    areas: Vec<(Records, OwnedFd)>,
    /// Open for the next worker.
    _changes: OwnedFd,
    past: Mutex<Past>,
}

/// What nobody has taken up yet.
#[derive(Debug)]
struct Past {
    remembered: Vec<(Records, Remembered)>,
    descriptors: Inherited,
    changes: Option<changes::Found>,
}

impl Legacy {
    /// Reads what the worker before has left, for so many shards.
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    pub fn open(life: Life<'_>, shards: usize) -> io::Result<Self> {
        let mut inherited = life.inherited;
        let (table, found, _) = Records::open(life.area, |_| 0)?;
        let mut places = found.iter().filter_map(place).collect::<Vec<_>>();
        places.sort_unstable();
        let (mut areas, mut remembered) = (Vec::new(), Vec::new());
        for (shard, number) in places {
            let Some(fd) = inherited
                .claim(number)
                .filter(|_| shard == areas.len() as u64)
            else {
                continue;
            };
            let (records, found, damaged) = Records::open(fd.as_fd(), adapter_of)?;
            if damaged > 0 {
                tracing::warn!(shard, "{damaged} records of the worker before were damaged");
            }
            remembered.push((records.clone(), Remembered::new(found, &records)));
            areas.push((records, fd));
        }
        for shard in areas.len()..shards {
            let fd = create(&table, AREA, shard as u64, SHARD)?;
            let (records, ..) = Records::open(fd.as_fd(), adapter_of)?;
            areas.push((records, fd));
        }
        let before = found.iter().find(|record| record.kind == CHANGES);
        let before = before.and_then(|record| inherited.claim(number(record)?));
        let changes = match before {
            Some(fd) => fd,
            None => create(&table, CHANGES, 0, changes::CAPACITY)?,
        };
        table.commit();
        let mut found_changes = changes::Found::open(changes.as_fd())?;
        let named = remembered
            .iter()
            .flat_map(|(_, it)| it.descriptors(vm::descriptors));
        let descriptors = inherited.split(named);
        // Afterwards: the number of a connection that ended as the worker did may be a client's by now.
        found_changes.claim(&mut inherited);
        inherited.close_rest()?;
        let past = Mutex::new(Past {
            remembered,
            descriptors,
            changes: Some(found_changes),
        });
        Ok(Self(Some(Arc::new(Inner {
            number: life.number,
            line: life.line,
            areas,
            _changes: changes,
            past,
        }))))
    }

    /// Whether another worker would go on for this one.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// What requests have made of the configuration, once.
    pub fn changes(&self) -> Option<changes::Found> {
        let mut past = self.0.as_ref()?.past.lock();
        let past = past.as_mut().unwrap_or_else(|poisoned| poisoned.get_mut());
        past.changes.take()
    }

    /// This worker serves.
    pub fn tell_ready(&self) {
        if let Some(inner) = &self.0 {
            inner.line.tell_ready();
        }
    }

    /// What is known of the keeper, if there is one.
    pub fn keeper(&self) -> Option<Keeper> {
        let inner = self.0.as_ref()?;
        let last = inner.line.last_attempt();
        Some(Keeper {
            pid: std::os::unix::process::parent_id(),
            workers: inner.number + 1,
            last_upgrade: last.map(|attempt| Upgrade {
                number: attempt.number,
                outcome: match attempt.outcome {
                    Outcome::Done => UpgradeOutcome::Done,
                    Outcome::Refused => UpgradeOutcome::Refused,
                    Outcome::WentBack => UpgradeOutcome::WentBack,
                },
                reason: attempt.sentence,
            }),
        })
    }

    /// The sessions of a shard.
    pub(crate) fn sessions(
        &self,
        shard: ShardId,
        listener: Option<OwnedFd>,
        registry: &Registry,
    ) -> Sessions {
        Sessions::new(shard, listener, registry.clone(), self.is_kept())
    }

    /// Where a shard writes down what its adapters do.
    pub(crate) fn records(&self, shard: ShardId) -> Option<Records> {
        let inner = self.0.as_ref()?;
        let (records, _) = inner.areas.get(usize::from(shard.0))?;
        Some(records.clone())
    }

    /// An adapter of processes that goes on; `None` if nothing is known of it.
    pub(crate) fn revive(
        &self,
        spec: &ProcessSpec,
        registry: &Registry,
        seed: u64,
    ) -> Option<Result<Revived, Lost>> {
        let inner = self.0.as_ref()?;
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        let Past {
            remembered,
            descriptors,
            ..
        } = &mut *past;
        let (records, remembered) = remembered
            .iter_mut()
            .find(|(_, remembered)| remembered.knows(&spec.name))?;
        let means = Means {
            records: records.clone(),
            registry,
            inherited: descriptors,
            seed,
        };
        remembered.revive(spec.clone(), means)
    }

    /// A VM that goes on; `None` if nothing that is of use is known of it.
    pub(crate) fn revive_vm(&self, name: &str) -> Option<vm::Past> {
        let inner = self.0.as_ref()?;
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        let Past {
            remembered,
            descriptors,
            ..
        } = &mut *past;
        let (records, remembered) = remembered
            .iter_mut()
            .find(|(_, remembered)| remembered.knows(name))?;
        let taken = remembered.take(name, records)?;
        vm::Past::claim(taken, descriptors)
    }

    /// Where it is written down what a VM does.
    pub(crate) fn recorder(&self, shard: ShardId, name: &str) -> Option<Recorder> {
        Recorder::named(self.records(shard)?, name)
    }

    /// All adapters are plugged in: what is left belongs to none.
    pub fn forget_rest(&self) {
        let Some(inner) = &self.0 else { return };
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        for (records, remembered) in std::mem::take(&mut past.remembered) {
            remembered.forget(&records);
        }
        let descriptors = std::mem::replace(&mut past.descriptors, Inherited::none());
        // To close what a client sent takes as long as it likes.
        let closing = thread::Builder::new().name("closing".to_owned());
        if let Err(error) = closing.spawn(|| descriptors.close_rest().is_ok()) {
            tracing::warn!("descriptors of the worker before stay open: {error}");
        }
    }
}

/// Which adapter a record is about.
fn adapter_of(record: &Record) -> u32 {
    (record.key >> 32) as u32
}

/// A shard and the number of its area's descriptor.
fn place(record: &Record) -> Option<(u64, RawFd)> {
    let number = number(record)?;
    (record.kind == AREA).then_some((record.key, number))
}

/// The number of an area's descriptor.
fn number(record: &Record) -> Option<RawFd> {
    let number = record.bytes.as_slice().try_into().ok()?;
    Some(RawFd::from_le_bytes(number))
}

/// A new area, which the next worker finds in the table.
fn create(table: &Records, kind: u16, key: u64, capacity: Capacity) -> io::Result<OwnedFd> {
    let fd = Area::create(capacity)?;
    let bytes = fd.as_raw_fd().to_le_bytes();
    table.insert(kind, key, &bytes).map_err(io::Error::other)?;
    Ok(fd)
}
