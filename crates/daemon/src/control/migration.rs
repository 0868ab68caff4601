//! Adapters of VMs that migrate to or from another host: contexts, and pages of the guest's memory.
//!
//! ```text
//!   source        freeze ──► records and written pages ──► bytes
//!   destination   bytes ──► context, kept ──► restore: pages into the guest's memory, a device of the records ──► activate
//! ```
//! This module does not know the order in which requests come. A request that the current state does not allow is
//! refused with a sentence.

mod handing_over;
mod pages;
mod resending;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use vrdma_api::{ArrivedContext, FreezeRequest, Name, RestoreRequest, Ticket, TrackedAdapter};
use vrdma_inventory::Object;
use vrdma_pvrdma::{BadContext, Context, DeviceConfig};
use vrdma_shard::plane::MigrationStep;
use vrdma_shard::{Maker, Restoring};
use vrdma_switch::PortId;
use vrdma_threads::NotDone;
use vrdma_verbs::object::Identity;
use vrdma_wire::Mac;

use super::Control;
use super::answer::Problem;
pub(super) use pages::{PIECE, mapped_anew};
use pages::{encode, write_pages};

/// Limit on the bytes of all contexts that are kept.
const KEPT_BYTES_MAX: usize = 1 << 30;

/// Contexts that have arrived, by adapter.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    kept: Mutex<BTreeMap<PortId, Arc<Kept>>>,
    /// The ticket with which another daemon may bring each adapter's context.
    expected: Mutex<BTreeMap<PortId, Ticket>>,
}

#[derive(Debug)]
struct Kept {
    context: Context,
    bytes: usize,
    /// Inputs for making the device once the guest's memory is there, if the memory follows later.
    later: Mutex<Option<Making>>,
}

/// Inputs for making a device, besides its records.
#[derive(Debug)]
struct Making {
    maker: Maker,
    end_connections: bool,
}

impl Kept {
    // Sound after a panic: the value is set or not.
    fn later(&self) -> MutexGuard<'_, Option<Making>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contexts {
    // Sound after a panic: each change to the map is done or not.
    fn kept(&self) -> MutexGuard<'_, BTreeMap<PortId, Arc<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Sound for the same reason.
    fn expected(&self) -> MutexGuard<'_, BTreeMap<PortId, Ticket>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the context and the ticket of an adapter. Returns whether there was a context.
    pub(super) fn take(&self, port: PortId) -> bool {
        self.expected().remove(&port);
        self.kept().remove(&port).is_some()
    }

    fn get(&self, port: PortId) -> Option<Arc<Kept>> {
        self.kept().get(&port).cloned()
    }

    fn keep(&self, port: PortId, kept: Kept) -> Result<(), Problem> {
        let mut all = self.kept();
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
    /// Tracks the pages that the adapter writes from now on.
    pub(super) async fn track(&self, name: &Name) -> Result<TrackedAdapter, Problem> {
        let port = self.inventory().port(name)?;
        let tracked = self.shards.migrate(port, MigrationStep::Track);
        let config_space = tracked.await.map_err(conflict)?;
        Ok(TrackedAdapter { config_space })
    }

    /// Stops the adapter and returns its context as bytes.
    pub(super) async fn freeze(
        &self,
        name: &Name,
        request: FreezeRequest,
    ) -> Result<Vec<u8>, Problem> {
        let (port, mac) = self.port_and_mac(name)?;
        let frozen = self.shards.migrate(port, MigrationStep::Freeze);
        let frozen = frozen.await.map_err(conflict)?;
        let encoded = apart(move || encode(mac, *frozen, request.leaves_pages)).await;
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

    /// Returns the adapter's context as bytes. The adapter stands still only for as long as that takes.
    pub(super) async fn save(&self, name: &Name) -> Result<Vec<u8>, Problem> {
        let context = self.freeze(name, FreezeRequest::default()).await?;
        self.thaw(name).await?;
        Ok(context)
    }

    /// Lets the adapter go on.
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

    /// Gives the adapter up: it is another daemon's now.
    pub(super) async fn release(&self, name: &Name) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let port = self.inventory().port(name)?;
        // First, so that a later daemon does not take a device that was reset for one that goes on.
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

    /// Keeps a context that has arrived.
    pub(super) async fn keep_context(
        &self,
        name: &Name,
        bytes: Bytes,
    ) -> Result<ArrivedContext, Problem> {
        let (port, kept) = self.decode_context(name, bytes).await?;
        let arrived = arrived(&kept.context, false);
        self.contexts.keep(port, kept)?;
        Ok(arrived)
    }

    async fn decode_context(&self, name: &Name, bytes: Bytes) -> Result<(PortId, Kept), Problem> {
        let (port, mac) = self.port_and_mac(name)?;
        let length = bytes.len();
        let own = name.clone();
        let context = apart(move || decode(&bytes, &own, mac)).await?;
        let kept = Kept {
            context,
            bytes: length,
            later: Mutex::default(),
        };
        Ok((port, kept))
    }

    /// Returns the context that has arrived, if the adapter was restored from it or can be as things are.
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

    /// Forgets a context that nobody is going to activate.
    pub(super) async fn forget_context(&self, name: &Name) -> Result<(), Problem> {
        let port = self.inventory().port(name)?;
        if self.contexts.take(port) {
            let discarded = self.shards.migrate(port, MigrationStep::Discard);
            discarded.await.map_err(conflict)?;
        }
        Ok(())
    }

    /// Makes the adapter from its context. It does nothing yet, because the source may still go on.
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
        let config_space = kept.context.config_space();
        let maker = self.shards.migrate(port, |reply| {
            let restoring = Restoring {
                config_space: config_space.map(Vec::from).unwrap_or_default(),
                msix_table: request.msix_table,
                reply,
            };
            MigrationStep::Restore(Box::new(restoring))
        });
        let making = Making {
            maker: maker.await.map_err(conflict)?,
            end_connections: request.end_connections,
        };
        if follows {
            *kept.later() = Some(making);
            return Ok(());
        }
        self.make(port, kept, making).await
    }

    /// Makes the adapter's device outside its shard, which then takes it.
    async fn make(&self, port: PortId, kept: Arc<Kept>, making: Making) -> Result<(), Problem> {
        let made = apart(move || {
            let Making {
                maker,
                end_connections,
            } = making;
            let made = maker.make(&kept.context.records, end_connections);
            made.map(Box::new).map_err(Problem::conflict)
        });
        let taken = match made.await {
            Ok(made) => {
                let taken = self
                    .shards
                    .migrate(port, |reply| MigrationStep::TakeMade(made, reply));
                taken.await.map_err(conflict)
            }
            Err(problem) => Err(problem),
        };
        if taken.is_err() {
            // Otherwise its QEMU would wait for the device. A shard that does not answer is in the log already.
            let _ = self.shards.migrate(port, MigrationStep::Discard).await;
        }
        taken
    }

    /// Makes the device whose guest's memory has followed, unless it is no longer waited for.
    async fn make_late(&self, port: PortId) -> Result<(), Problem> {
        let Some(kept) = self.contexts.get(port) else {
            return Ok(());
        };
        let making = kept.later().take();
        let Some(making) = making else {
            return Ok(());
        };
        let is_awaited = self.shards.migrate(port, MigrationStep::IsRestored).await;
        match is_awaited.map_err(conflict)? {
            true => self.make(port, kept, making).await,
            false => Ok(()),
        }
    }

    /// Lets the restored adapter go on where its context left off.
    pub(super) async fn activate(&self, name: &Name) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let port = self.inventory().port(name)?;
        let was_away = self.inventory().adapter(name)?.away;
        self.make_late(port).await?;
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

    /// Tells both halves of the switch: frames and messages.
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

/// Decodes a context that has come for an adapter, and checks that it is that adapter's.
fn decode(bytes: &[u8], name: &Name, mac: Mac) -> Result<Context, Problem> {
    let unusable = |error: BadContext| Problem::conflict(error.to_string());
    let context = Context::decode(bytes).map_err(unusable)?;
    if context.mac != mac {
        return Err(Problem::conflict(format!(
            "the context is of an adapter with MAC address {}, and {name} has {mac}: give both the same",
            context.mac
        )));
    }
    let config = DeviceConfig::new(Identity { mac, seed: 0 });
    context.check(&config).map_err(unusable)?;
    Ok(context)
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

/// Does work of milliseconds off the thread that serves all requests.
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
