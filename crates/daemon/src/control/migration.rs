//! An adapter of a VM that goes to another host, or has come from there: contexts, and pages of the guest's memory.
//!
//! ```text
//!   source        freeze ──► records and written pages ──► bytes
//!   destination   bytes ──► context, kept ──► restore: pages into the guest's memory, records to the shard ──► activate
//! ```
//! It does not know who asks in which order; what a state does not allow is refused with a sentence.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use vrdma_api::{ArrivedContext, CONTEXT_BYTES_MAX, Name, RestoreRequest, TrackedAdapter};
use vrdma_inventory::Object;
use vrdma_memory::{DirtyRun, PAGE, Space};
use vrdma_pvrdma::{Context, DeviceConfig, WrittenPages};
use vrdma_shard::plane::MigrationStep;
use vrdma_shard::{Frozen, Restoring};
use vrdma_switch::PortId;
use vrdma_threads::NotDone;
use vrdma_verbs::object::Identity;
use vrdma_wire::Mac;

use super::Control;
use super::answer::Problem;

/// Bytes of all contexts that are kept.
const KEPT_BYTES_MAX: usize = 1 << 30;

/// Guest addresses that are looked through at a time, and where they end (PCI has 64 bits, processors 52).
const LOOK_BYTES: u64 = 64 << 30;
const ADDRESSES_END: u64 = 1 << 52;

/// Bytes that are copied under one view of the memory, which a shard may wait for.
pub(super) const PIECE: usize = 64 << 10;

/// Contexts that have come, by adapter.
#[derive(Debug, Default)]
pub(super) struct Contexts(Mutex<BTreeMap<PortId, Arc<Kept>>>);

#[derive(Debug)]
struct Kept {
    context: Context,
    bytes: usize,
}

impl Contexts {
    // What a task that panicked left is a map that was changed or was not.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PortId, Arc<Kept>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was one.
    pub(super) fn take(&self, port: PortId) -> bool {
        self.lock().remove(&port).is_some()
    }

    fn get(&self, port: PortId) -> Option<Arc<Kept>> {
        self.lock().get(&port).cloned()
    }

    fn keep(&self, port: PortId, kept: Kept) -> Result<(), Problem> {
        let mut all = self.lock();
        let others = all.iter().filter(|(other, _)| **other != port);
        let bytes: usize = others.map(|(_, kept)| kept.bytes).sum();
        if bytes + kept.bytes > KEPT_BYTES_MAX {
            return Err(Problem::conflict(format!(
                "contexts of other adapters fill the {KEPT_BYTES_MAX} bytes that the daemon keeps: let one of those \
                 migrations end first"
            )));
        }
        all.insert(port, Arc::new(kept));
        Ok(())
    }
}

impl Control {
    /// Notes what the adapter writes from now on.
    pub(super) async fn track(&self, name: &Name) -> Result<TrackedAdapter, Problem> {
        let port = self.inventory().port(name)?;
        let tracked = self.shards.migrate(port, MigrationStep::Track);
        let config_space = tracked.await.map_err(conflict)?;
        Ok(TrackedAdapter { config_space })
    }

    /// Stops the adapter; its context as bytes.
    pub(super) async fn freeze(&self, name: &Name) -> Result<Vec<u8>, Problem> {
        let (port, mac) = self.port_and_mac(name)?;
        let frozen = self.shards.migrate(port, MigrationStep::Freeze);
        let frozen = frozen.await.map_err(conflict)?;
        let encoded = apart(move || encode(mac, *frozen)).await;
        match encoded {
            Ok(bytes) => {
                tracing::info!(
                    "adapter {name} frozen: its context has {} bytes",
                    bytes.len()
                );
                Ok(bytes)
            }
            Err(problem) => {
                self.thaw(name).await?;
                Err(problem)
            }
        }
    }

    /// The adapter's context as bytes; it stands still no longer than that takes.
    pub(super) async fn save(&self, name: &Name) -> Result<Vec<u8>, Problem> {
        let context = self.freeze(name).await?;
        self.thaw(name).await?;
        Ok(context)
    }

    /// The adapter goes on.
    pub(super) async fn thaw(&self, name: &Name) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let port = self.inventory().port(name)?;
        if self.inventory().adapter(name)?.away {
            return Err(Problem::conflict(format!(
                "the VM of adapter {name} is on another host, which has the adapter: it cannot go on here"
            )));
        }
        let thawed = self.shards.migrate(port, MigrationStep::Thaw);
        thawed.await.map_err(conflict)?;
        tracing::info!("adapter {name} goes on here");
        Ok(())
    }

    /// The adapter is another daemon's.
    pub(super) async fn release(&self, name: &Name) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let port = self.inventory().port(name)?;
        // First, so that no daemon after this one takes a device that was reset for one that goes on.
        self.note_location(name, true)?;
        let released = self.shards.migrate(port, MigrationStep::Release);
        if let Err(not_done) = released.await {
            let is_away = self.inventory().adapter(name)?.away;
            self.note_location(name, is_away)?;
            return Err(conflict(not_done));
        }
        self.note_away(name, true);
        self.set_away(port, true).await?;
        tracing::info!("adapter {name} released: it goes on at another host");
        Ok(())
    }

    /// Keeps a context that has come.
    pub(super) async fn keep_context(
        &self,
        name: &Name,
        bytes: Bytes,
    ) -> Result<ArrivedContext, Problem> {
        let (port, mac) = self.port_and_mac(name)?;
        let length = bytes.len();
        let context = apart(move || {
            Context::decode(&bytes).map_err(|error| Problem::conflict(error.to_string()))
        });
        let context = context.await?;
        if context.mac != mac {
            return Err(Problem::conflict(format!(
                "the context is of an adapter with MAC address {}, and {name} has {mac}: give both the same",
                context.mac
            )));
        }
        let fits = context.check(&DeviceConfig::new(Identity { mac, seed: 0 }));
        fits.map_err(|error| Problem::conflict(error.to_string()))?;
        let arrived = arrived(&context, false);
        let kept = Kept {
            context,
            bytes: length,
        };
        self.contexts.keep(port, kept)?;
        Ok(arrived)
    }

    /// The context that has come, if the adapter was restored from it, or can be as things are.
    pub(super) async fn arrived_context(&self, name: &Name) -> Result<ArrivedContext, Problem> {
        let port = self.inventory().port(name)?;
        let kept = self.kept_context(name, port)?;
        let restored = self.shards.migrate(port, MigrationStep::IsRestored).await;
        let restored = restored.map_err(conflict)?;
        if !restored {
            let memory = self.shards.migrate(port, MigrationStep::Memory);
            memory.await.map_err(conflict)?;
        }
        Ok(arrived(&kept.context, restored))
    }

    fn kept_context(&self, name: &Name, port: PortId) -> Result<Arc<Kept>, Problem> {
        self.contexts.get(port).ok_or_else(|| {
            Problem::conflict(format!(
                "no context has come for adapter {name}: PUT it first"
            ))
        })
    }

    /// Nobody is going to activate it.
    pub(super) async fn forget_context(&self, name: &Name) -> Result<(), Problem> {
        let port = self.inventory().port(name)?;
        if self.contexts.take(port) {
            let discarded = self.shards.migrate(port, MigrationStep::Discard);
            discarded.await.map_err(conflict)?;
        }
        Ok(())
    }

    /// The adapter is made from its context, and does nothing yet: the source may still go on.
    pub(super) async fn restore(
        &self,
        name: &Name,
        request: &RestoreRequest,
    ) -> Result<(), Problem> {
        let port = self.inventory().port(name)?;
        let kept = self.kept_context(name, port)?;
        let memory = self.shards.migrate(port, MigrationStep::Memory);
        let memory = memory.await.map_err(conflict)?;
        let pages = Arc::clone(&kept);
        let follows = request.memory_follows;
        apart(move || write_pages(&memory, &pages.context.pages, follows)).await?;
        let restored = self.shards.migrate(port, |reply| {
            let restoring = Restoring {
                records: kept.context.records.clone(),
                config_space: kept
                    .context
                    .config_space()
                    .map(Vec::from)
                    .unwrap_or_default(),
                msix_table: request.msix_table,
                end_connections: request.end_connections,
                memory_follows: request.memory_follows,
                reply,
            };
            MigrationStep::Restore(Box::new(restoring))
        });
        restored.await.map_err(conflict)
    }

    /// The adapter that was restored goes on where its context left off.
    pub(super) async fn activate(&self, name: &Name) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let port = self.inventory().port(name)?;
        let was_away = self.inventory().adapter(name)?.away;
        self.note_location(name, false)?;
        self.set_away(port, false).await?;
        let activated = self.shards.migrate(port, MigrationStep::Activate);
        if let Err(not_done) = activated.await {
            self.set_away(port, was_away).await?;
            self.note_location(name, was_away)?;
            return Err(conflict(not_done));
        }
        self.note_away(name, false);
        self.contexts.take(port);
        tracing::info!("adapter {name} goes on here, where another host's left off");
        Ok(())
    }

    pub(super) fn note_away(&self, name: &Name, is_away: bool) {
        let mut inventory = self.inventory();
        inventory.set_away(name, is_away);
        self.keep(&Object::Adapter(name.clone()), &inventory);
    }

    pub(super) fn note_location(&self, name: &Name, away: bool) -> Result<(), Problem> {
        let noted = self.memory().locations.set(name, away);
        noted.map_err(Problem::conflict)
    }

    /// Both halves of the switch: frames, and messages.
    async fn set_away(&self, port: PortId, is_away: bool) -> Result<(), Problem> {
        self.shards.set_away(port, is_away).await?;
        Ok(self.ethernet.set_away(port, is_away).await?)
    }

    fn port_and_mac(&self, name: &Name) -> Result<(PortId, Mac), Problem> {
        let inventory = self.inventory();
        let mac = Mac(inventory.adapter(name)?.mac.octets());
        Ok((inventory.port(name)?, mac))
    }
}

fn arrived(context: &Context, restored: bool) -> ArrivedContext {
    ArrivedContext {
        restored,
        config_space: context.config_space().map(Vec::from).unwrap_or_default(),
        records: context.records.len() as u64,
        pages: context.page_count(),
    }
}

pub(super) fn conflict(not_done: NotDone) -> Problem {
    Problem::of(not_done, Problem::conflict)
}

/// Work of milliseconds, off the thread that serves all requests.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Problem::internal(format!(
            "a context was not finished: {error}"
        ))),
    }
}

fn encode(mac: Mac, frozen: Frozen) -> Result<Vec<u8>, Problem> {
    let pages = written_pages(&frozen.memory)?;
    if frozen.memory.generation() != frozen.generation {
        return Err(mapped_anew());
    }
    let context = Context {
        mac,
        records: frozen.records,
        pages,
    };
    let bytes = context.encode();
    match bytes.len() <= CONTEXT_BYTES_MAX {
        true => Ok(bytes),
        false => Err(too_much()),
    }
}

/// What the log has, with what is in the pages.
fn written_pages(memory: &Space) -> Result<Vec<WrittenPages>, Problem> {
    let mut pages = Vec::new();
    let mut bytes = 0;
    for start in (0..ADDRESSES_END).step_by(LOOK_BYTES as usize) {
        for run in memory.dirty_log().take(start..start + LOOK_BYTES) {
            bytes += run.pages * PAGE;
            if bytes > CONTEXT_BYTES_MAX as u64 || pages.len() >= vrdma_pvrdma::RUNS_MAX as usize {
                return Err(too_much());
            }
            pages.push(read_pages(memory, run)?);
        }
    }
    Ok(pages)
}

fn too_much() -> Problem {
    Problem::conflict(format!(
        "the adapter has written more than {CONTEXT_BYTES_MAX} bytes of its guest's memory since it is tracked, or \
         65536 pages here and there: migrate when it writes less"
    ))
}

pub(super) fn mapped_anew() -> Problem {
    Problem::conflict(
        "the guest's memory was mapped anew while the adapter was frozen: begin the migration again"
            .to_owned(),
    )
}

fn read_pages(memory: &Space, run: DirtyRun) -> Result<WrittenPages, Problem> {
    let mut bytes = vec![0; (run.pages * PAGE) as usize];
    for (at, piece) in (run.iova..).step_by(PIECE).zip(bytes.chunks_mut(PIECE)) {
        let read = memory.view().read(at, piece);
        read.map_err(|_| mapped_anew())?;
    }
    Ok(WrittenPages {
        address: run.iova,
        bytes,
    })
}

/// Before the device goes on. Bus mastering, which QEMU may not have switched on yet, is the device's to set. Where memory
/// follows, a page that is not there comes from the source as the adapter left it, and must not be there before.
fn write_pages(memory: &Space, pages: &[WrittenPages], follows: bool) -> Result<(), Problem> {
    memory.set_bus_master(true);
    let piece_bytes = if follows { PAGE as usize } else { PIECE };
    for run in pages {
        let pieces = run.bytes.chunks(piece_bytes);
        for (at, piece) in (run.address..).step_by(piece_bytes).zip(pieces) {
            let view = memory.view();
            if follows && !view.has_page(at) {
                continue;
            }
            view.write(at, piece).map_err(|_| {
                Problem::conflict(format!(
                    "the guest has no memory at {at:#x} here: start both QEMUs with the same memory"
                ))
            })?;
        }
    }
    Ok(())
}
