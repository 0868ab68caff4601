//! What a worker left to the next one: its records and descriptors.
//!
//! ```text
//!   root area (the keeper's) ── where the area of each shard is, and that of changes
//!   area of a shard ── records of its adapters ([`vrdma_process`])
//!   area of changes ── what requests made of the configuration ([`vrdma_inventory::changes`])
//!   area of rdma_cm ── clients and connections of programs ([`vrdma_process::cm`])
//!   area of Ethernet ── which QEMU is connected at which port
//!   area of counts ── what was told of counters ([`vrdma_inventory::counts`])
//! ```
//! Adapters go on with their records when they are plugged in again. What belongs to none that is plugged in at
//! the start is forgotten then.

mod areas;
mod ethernet;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use vrdma_adapter::ShardId;
use vrdma_api::{Keeper, Name, Upgrade, UpgradeOutcome};
use vrdma_keep::{Capacity, Inherited, Life, Outcome, Records, WorkerLine};
use vrdma_process::cm;
use vrdma_process::{Lost, Means, ProcessSpec, Recorder, Registry, Remembered, Revived, Sessions};

use vrdma_inventory::counts::{self, Counts};
use vrdma_inventory::{Inventory, changes};
use vrdma_threads::{PortPast, StreamRecords};

use crate::vm;
use areas::{
    CHANGES, CM, CM_CAPACITY, COUNTS, ETHERNET, ETHERNET_CAPACITY, ShardArea, ShardAreas, create,
    number, open_cm, open_shards,
};

/// Of all that a worker leaves: the records of each room, what descriptors are, and how keepers follow each other. Whatever
/// changes what one of them means raises it.
pub const FORMAT: u32 = 5;

/// The oldest format of which a worker can go on. What newer ones have in records is missing in those, and its default means
/// what was so then.
pub const OLDEST: u32 = 4;

/// The root area has a record for each shard that there ever was, and four more.
pub const ROOT: Capacity = Capacity {
    small: 1024,
    large: 1,
};

/// See the module. Nothing is recorded without a keeper.
#[derive(Clone, Debug, Default)]
pub struct Legacy(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    /// How many workers there were before.
    number: u32,
    line: WorkerLine,
    /// One for each shard, and the descriptors of their areas.
    areas: Vec<ShardArea>,
    cm: Records,
    ethernet: Arc<ethernet::Ports>,
    /// Open for the next worker.
    _open: [OwnedFd; 4],
    past: Mutex<Past>,
}

/// What nobody has taken up yet.
#[derive(Debug)]
struct Past {
    remembered: Vec<(Records, Remembered)>,
    descriptors: Inherited,
    changes: Option<changes::Found>,
    cm: Option<cm::Past>,
    counts: Option<Counts>,
    /// By the paths of their sockets.
    listeners: BTreeMap<PathBuf, OwnedFd>,
}

impl Legacy {
    /// Reads what the worker before has left, for so many shards.
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    pub fn open(life: Life<'_>, shards: usize) -> io::Result<Self> {
        let mut inherited = life.inherited;
        let (table, found, _) = Records::open(life.area, |_| 0)?;
        let ShardAreas { areas, remembered } = open_shards(&table, &found, &mut inherited, shards)?;
        let mut area = |kind, capacity| {
            let before = found.iter().find(|record| record.kind == kind);
            let before = before.and_then(|record| inherited.claim(number(record)?));
            before.map_or_else(|| create(&table, kind, 0, capacity), Ok)
        };
        let changes = area(CHANGES, changes::CAPACITY)?;
        let cm_area = area(CM, CM_CAPACITY)?;
        let ethernet_area = area(ETHERNET, ETHERNET_CAPACITY)?;
        let counts_area = area(COUNTS, counts::CAPACITY)?;
        table.commit();
        let (records, ports, _) = Records::open(ethernet_area.as_fd(), |_| 0)?;
        let ethernet = Arc::new(ethernet::Ports::new(records, &ports, &mut inherited));
        let (cm, mut cm_past) = open_cm(&cm_area)?;
        cm_past.claim(&mut inherited);
        let counts = Counts::open(counts_area.as_fd())?;
        let mut found_changes = changes::Found::open(changes.as_fd())?;
        let named = remembered
            .iter()
            .flat_map(|(_, it)| it.descriptors(vm::descriptors));
        let descriptors = inherited.split(named);
        // Afterwards: the number of a connection that ended as the worker did may be a client's by now.
        found_changes.claim(&mut inherited);
        let listeners = inherited.take_listeners();
        inherited.close_rest()?;
        let past = Mutex::new(Past {
            remembered,
            descriptors,
            changes: Some(found_changes),
            cm: Some(cm_past),
            counts: Some(counts),
            listeners,
        });
        Ok(Self(Some(Arc::new(Inner {
            number: life.number,
            line: life.line,
            areas,
            cm,
            ethernet,
            _open: [changes, cm_area, ethernet_area, counts_area],
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

    /// What workers before have counted of adapters that there are; once.
    pub fn counts(&self, inventory: &Inventory) -> Counts {
        let Some(inner) = self.0.as_ref() else {
            return Counts::default();
        };
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = past.counts.take().unwrap_or_default();
        counts.follow(inventory);
        counts
    }

    /// Where rdma_cm is written down, and what the worker before has left of it; once.
    pub(crate) fn cm(&self) -> Option<(Records, cm::Past)> {
        let inner = self.0.as_ref()?;
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        Some((inner.cm.clone(), past.cm.take()?))
    }

    /// The listener that the worker before has left at a path, once: who connects meanwhile waits in it. `None` if its file
    /// is gone, so that nobody would find it.
    pub fn listener(&self, path: &Path) -> Option<OwnedFd> {
        let inner = self.0.as_ref()?;
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = past.listeners.remove(path)?;
        let is_there = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
        is_there.then_some(listener)
    }

    /// What the Ethernet port of a VM begins with.
    pub fn port(&self, name: &Name) -> PortPast {
        let ports = self.0.as_ref().map(|inner| Arc::clone(&inner.ethernet));
        PortPast {
            left: ports.as_ref().and_then(|it| it.take_stream(name.as_str())),
            records: ports.map(|ports| ports as Arc<dyn StreamRecords>),
        }
    }

    /// The descriptor of the interface that the worker before made with these addresses.
    pub fn interface(&self, name: &Name, addresses: &str) -> Option<OwnedFd> {
        let inner = self.0.as_ref()?;
        inner.ethernet.take_interface(name.as_str(), addresses)
    }

    /// An interface was made with these addresses.
    pub fn note_interface(&self, name: &Name, device: BorrowedFd<'_>, addresses: &str) {
        if let Some(inner) = &self.0 {
            inner.ethernet.note_interface(name, device, addresses);
        }
    }

    /// What is connected at a port is closed next.
    pub fn forget_port(&self, name: &Name) {
        if let Some(inner) = &self.0 {
            inner.ethernet.forget(name);
        }
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
        let listeners = std::mem::take(&mut past.listeners);
        let ports = inner.ethernet.take_rest();
        // To close what a client sent takes as long as it likes.
        let closing = thread::Builder::new().name("closing".to_owned());
        if let Err(error) = closing.spawn(|| {
            drop((listeners, ports));
            descriptors.close_rest().is_ok()
        }) {
            tracing::warn!("descriptors of the worker before stay open: {error}");
        }
    }
}
