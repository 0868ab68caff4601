//! What a worker leaves to the next one: its records and descriptors.
//!
//! ```text
//!   root area (the keeper's) ── where the area of each shard is, and that of changes
//!   area of a shard ── records of its adapters ([`vrdma_process`])
//!   area of changes ── what requests made of the configuration ([`vrdma_inventory::changes`])
//!   area of rdma_cm ── clients and connections of programs ([`vrdma_process::cm`])
//!   area of Ethernet ── which QEMU is connected at which port
//!   area of counts ── what was told of counters ([`vrdma_inventory::counts`])
//! ```
//! Adapters go on with their records when they are plugged in again. Records of adapters that are not plugged in by the
//! end of the start are forgotten then.

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

/// Format of everything that a worker leaves: the records of each room, the meaning of descriptors, and how keepers
/// follow each other. Raise it with any change of their meaning.
pub const FORMAT: u32 = 5;

/// The oldest format from which a worker can go on. Fields of newer records are missing in older ones, and their
/// default means what was so then.
pub const OLDEST: u32 = 4;

/// Capacity of the root area: a record for each shard that ever existed, and four more.
pub const ROOT: Capacity = Capacity {
    small: 1024,
    large: 1,
};

/// The legacy; see the module. Nothing is recorded without a keeper.
#[derive(Clone, Debug, Default)]
pub struct Legacy(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    /// Number of workers before this one.
    number: u32,
    line: WorkerLine,
    /// One area for each shard, with its descriptor.
    areas: Vec<ShardArea>,
    cm: Records,
    ethernet: Arc<ethernet::Ports>,
    /// Descriptors kept open for the next worker.
    _open: [OwnedFd; 4],
    past: Mutex<Past>,
}

/// What the worker before left and nobody has taken up yet.
#[derive(Debug)]
struct Past {
    remembered: Vec<(Records, Remembered)>,
    descriptors: Inherited,
    changes: Option<changes::Found>,
    cm: Option<cm::Past>,
    counts: Option<Counts>,
    /// Listeners by the paths of their sockets.
    listeners: BTreeMap<PathBuf, OwnedFd>,
}

impl Legacy {
    /// Reads what the worker before has left, for this number of shards.
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
        // After the others have claimed theirs: if a connection ended with the worker, a client may have its number by
        // now.
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

    /// Returns what requests have changed of the configuration, once.
    pub fn changes(&self) -> Option<changes::Found> {
        let mut past = self.0.as_ref()?.past.lock();
        let past = past.as_mut().unwrap_or_else(|poisoned| poisoned.get_mut());
        past.changes.take()
    }

    /// Returns what workers before have counted of adapters that exist, once.
    pub fn counts(&self, inventory: &Inventory) -> Counts {
        let Some(inner) = self.0.as_ref() else {
            return Counts::default();
        };
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = past.counts.take().unwrap_or_default();
        counts.follow(inventory);
        counts
    }

    /// Returns the records of rdma_cm, and what the worker before has left of it, once.
    pub(crate) fn cm(&self) -> Option<(Records, cm::Past)> {
        let inner = self.0.as_ref()?;
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        Some((inner.cm.clone(), past.cm.take()?))
    }

    /// Returns the listener that the worker before has left at a path, once: clients that connect meanwhile wait in it.
    /// `None` if its file is gone, so that nobody would find it.
    pub fn listener(&self, path: &Path) -> Option<OwnedFd> {
        let inner = self.0.as_ref()?;
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = past.listeners.remove(path)?;
        let is_there = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
        is_there.then_some(listener)
    }

    /// Returns what the Ethernet port of a VM begins with.
    pub fn port(&self, name: &Name) -> PortPast {
        let ports = self.0.as_ref().map(|inner| Arc::clone(&inner.ethernet));
        PortPast {
            left: ports.as_ref().and_then(|it| it.take_stream(name.as_str())),
            records: ports.map(|ports| ports as Arc<dyn StreamRecords>),
        }
    }

    /// Returns the descriptor of the interface that the worker before made with these addresses.
    pub fn interface(&self, name: &Name, addresses: &str) -> Option<OwnedFd> {
        let inner = self.0.as_ref()?;
        inner.ethernet.take_interface(name.as_str(), addresses)
    }

    /// Records an interface that was made with these addresses.
    pub fn note_interface(&self, name: &Name, device: BorrowedFd<'_>, addresses: &str) {
        if let Some(inner) = &self.0 {
            inner.ethernet.note_interface(name, device, addresses);
        }
    }

    /// Forgets what is connected at a port. Call it before that is closed.
    pub fn forget_port(&self, name: &Name) {
        if let Some(inner) = &self.0 {
            inner.ethernet.forget(name);
        }
    }

    /// Tells the keeper that this worker serves.
    pub fn tell_ready(&self) {
        if let Some(inner) = &self.0 {
            inner.line.tell_ready();
        }
    }

    /// Returns what is known of the keeper, if there is one.
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

    /// Makes the sessions of a shard.
    pub(crate) fn sessions(
        &self,
        shard: ShardId,
        listener: Option<OwnedFd>,
        registry: &Registry,
    ) -> Sessions {
        Sessions::new(shard, listener, registry.clone(), self.is_kept())
    }

    /// Returns where a shard records what its adapters do.
    pub(crate) fn records(&self, shard: ShardId) -> Option<Records> {
        let inner = self.0.as_ref()?;
        let (records, _) = inner.areas.get(usize::from(shard.0))?;
        Some(records.clone())
    }

    /// Returns an adapter of processes that goes on; `None` if nothing is known of it.
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

    /// Returns a VM that goes on; `None` if nothing usable is known of it.
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

    /// Returns where it is recorded what a VM does.
    pub(crate) fn recorder(&self, shard: ShardId, name: &str) -> Option<Recorder> {
        Recorder::named(self.records(shard)?, name)
    }

    /// Forgets what is left, since all adapters are plugged in and it belongs to none of them.
    pub fn forget_rest(&self) {
        let Some(inner) = &self.0 else { return };
        let mut past = inner.past.lock().unwrap_or_else(PoisonError::into_inner);
        for (records, remembered) in std::mem::take(&mut past.remembered) {
            remembered.forget(&records);
        }
        let descriptors = std::mem::replace(&mut past.descriptors, Inherited::none());
        let listeners = std::mem::take(&mut past.listeners);
        let ports = inner.ethernet.take_rest();
        // Closing what a client sent takes as long as the client likes.
        let closing = thread::Builder::new().name("closing".to_owned());
        if let Err(error) = closing.spawn(|| {
            drop((listeners, ports));
            descriptors.close_rest().is_ok()
        }) {
            tracing::warn!("descriptors of the worker before stay open: {error}");
        }
    }
}
