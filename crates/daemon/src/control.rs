//! The control plane: changes the inventory and the data path together, and answers questions about both.
//!
//! Changes run one at a time and to their end, even if the client that asked hangs up. The data path is told first and
//! the inventory last: a new adapter is shown once it works, and a removed one leaves the data path before its name is
//! free.

mod addresses;
mod answer;
mod digest;
mod following;
mod hold;
mod migration;
mod moving;
mod routes;
mod told;
mod uplinks;
mod usage;

use std::fs::{self, Permissions};
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::UnixListener;
use tokio::sync::watch;
use vrdma_adapter::ShardId;
use vrdma_api::{
    Adapter, AdapterChange, AdapterKind, AdapterRequest, MoveRequest, Name, Origin, PortGroup,
    PortGroupChange, PortGroupRequest, Protection,
};
use vrdma_ethernet::{Behind, EthernetHandle, EthernetPort};
use vrdma_inventory::changes::Changes;
use vrdma_inventory::counts::Counts;
use vrdma_inventory::{AdapterSpec, Coming, Inventory, MigrationSpec, Object, ShardOptions};
use vrdma_sandbox::interfaces::Interfaces;
use vrdma_shard::legacy::Legacy;
use vrdma_shard::plane::Shards;
use vrdma_shard::process_socket;
use vrdma_switch::PortId;
use vrdma_threads::socket::BoundSocket;
use vrdma_threads::{NotDone, PortPast};
use vrdma_uplink::Tap;

use crate::locations::Locations;
use answer::Problem;
use hold::Connection;
use migration::Contexts;
use moving::Moving;

/// Mode of the adapters' sockets: QEMU may run as another user of the daemon's group.
const ADAPTER_MODE: u32 = 0o660;

/// Facts that do not change while the daemon runs.
#[derive(Debug)]
pub struct Facts {
    /// The configuration file, if there is one.
    pub config: Option<PathBuf>,
    /// Folder of the adapters' sockets.
    pub run_dir: PathBuf,
    /// How the shards run.
    pub shards: ShardOptions,
    /// Rights that the daemon has given up.
    pub protections: Vec<Protection>,
    /// The helper process that opens interfaces.
    pub interfaces: Interfaces,
    /// State handed down by the keeper, if there is one.
    pub legacy: Legacy,
    /// How contexts are sent to and received from other daemons, if they are.
    pub migration: Option<MigrationSpec>,
    /// When it was started.
    pub started: Instant,
}

/// State kept for the next worker or daemon.
#[derive(Debug)]
pub struct Memory {
    /// Changes that requests made to the configuration, for the next worker.
    pub changes: Changes,
    /// Adapters that moved, for the next daemon.
    pub locations: Locations,
    /// Counts of earlier workers.
    pub counts: Counts,
}

/// Everything the API acts on.
#[derive(Debug)]
pub struct Control {
    /// Held during a whole change, so that changes do not overlap.
    changes: tokio::sync::Mutex<()>,
    /// Never held while waiting for a thread, so that a query does not wait for a change.
    inventory: Mutex<Inventory>,
    shards: Shards,
    ethernet: EthernetHandle,
    facts: Facts,
    /// Contexts of adapters that are on their way here.
    contexts: Contexts,
    /// Adapters that are moving to another shard.
    moving: Moving,
    memory: Mutex<Memory>,
    /// Set when the daemon is to end.
    stopping: watch::Sender<bool>,
}

impl Control {
    /// Takes running threads. The caller plugs the adapters that the inventory already has.
    pub fn new(
        inventory: Inventory,
        shards: Shards,
        ethernet: EthernetHandle,
        facts: Facts,
        memory: Memory,
    ) -> Self {
        Self {
            changes: tokio::sync::Mutex::default(),
            inventory: Mutex::new(inventory),
            shards,
            ethernet,
            facts,
            contexts: Contexts::default(),
            moving: Moving::default(),
            memory: Mutex::new(memory),
            stopping: watch::Sender::new(false),
        }
    }

    // Sound after a panic: each change to the inventory is there completely or not at all.
    fn inventory(&self) -> MutexGuard<'_, Inventory> {
        self.inventory
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    // Sound after a panic: a write is one step.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that an object was added, changed or removed.
    fn keep(&self, object: &Object, inventory: &Inventory) {
        self.memory().changes.keep(object, inventory);
    }

    /// Tells the data path of an adapter. The error is a sentence, and nothing is left behind.
    pub async fn plug(&self, spec: AdapterSpec) -> Result<(), NotDone> {
        let behind = match spec.kind {
            AdapterKind::Vm => self.bind_ethernet(&spec.sockets.ethernet())?,
            AdapterKind::Process => Behind::Nobody(spec.addresses()),
            AdapterKind::Tap => Behind::Host(self.open_tap(&spec)?),
        };
        let port = EthernetPort {
            name: spec.name.clone(),
            port: spec.port,
            group: spec.group,
            segment: spec.segment,
            mac: spec.mac,
            may_send_roce: spec.may_send_roce,
            kept: spec.kept(),
            away: spec.away,
            behind,
            past: match spec.kind {
                AdapterKind::Vm => self.facts.legacy.port(&spec.name),
                AdapterKind::Process | AdapterKind::Tap => PortPast::default(),
            },
        };
        let (number, kind) = (spec.port, spec.kind);
        let sockets = spec.sockets.clone();
        self.ethernet.add_port(port).await?;
        if kind == AdapterKind::Tap {
            // The shard serves RDMA, which this adapter does not have.
            return Ok(());
        }
        let added = self.shards.add_adapter(spec).await;
        match &added {
            Ok(()) if kind == AdapterKind::Vm => share_with_group(&sockets.vfio_user()),
            Ok(()) => {}
            Err(_) => self.ethernet.remove_port(number).await?,
        }
        added
    }

    /// Tells the threads that all adapters of the previous worker are plugged.
    ///
    /// # Errors
    /// A sentence.
    pub async fn go_on(&self) -> Result<(), NotDone> {
        self.shards.go_on().await?;
        self.ethernet.go_on().await
    }

    /// Binds the socket that a guest's QEMU connects to. The error is a sentence.
    fn bind_ethernet(&self, path: &Path) -> Result<Behind, String> {
        let left = self.facts.legacy.listener(path);
        let bound = BoundSocket::follow(path, ADAPTER_MODE, left);
        bound.map(Behind::Guest).map_err(|error| error.to_string())
    }

    /// Opens the interface of an adapter of the host's own IP stack. The error is a sentence.
    fn open_tap(&self, spec: &AdapterSpec) -> Result<Tap, String> {
        let Facts {
            interfaces, legacy, ..
        } = &self.facts;
        let addresses = format!("{:?} {:?}", spec.mac, spec.only_ip());
        if let Some(left) = legacy.interface(&spec.name, &addresses) {
            legacy.note_interface(&spec.name, left.as_fd(), &addresses);
            return Ok(Tap::from_parts(left, true));
        }
        let tap = interfaces.tap(spec.name.as_str(), spec.mac, spec.only_ip())?;
        if !tap.is_ours() {
            tracing::warn!(
                "{}: the interface keeps the addresses and the state that its maker gave it",
                spec.name
            );
        }
        legacy.note_interface(&spec.name, tap.as_fd(), &addresses);
        Ok(tap)
    }

    async fn unplug(&self, name: &Name, port: PortId) -> Result<(), NotDone> {
        self.contexts.take(port);
        self.facts.legacy.forget_port(name);
        let shard = self.shards.remove_adapter(port).await;
        self.ethernet.remove_port(port).await?;
        shard
    }

    async fn add_adapter(&self, request: &AdapterRequest) -> Result<Adapter, Problem> {
        let _change = self.changes.lock().await;
        let spec = {
            let mut inventory = self.inventory();
            let spec = inventory.add_adapter(request, Origin::Runtime)?;
            inventory.hide(Coming::Adapter(request.name.clone()));
            spec
        };
        let plugged = self.plug(spec).await;
        let mut inventory = self.inventory();
        inventory.show();
        if let Err(not_done) = plugged {
            inventory.remove_adapter(&request.name)?;
            return Err(not_done.into());
        }
        self.note_shard(&mut inventory, &request.name)?;
        self.keep(&Object::Adapter(request.name.clone()), &inventory);
        tracing::info!("adapter {} added", request.name);
        Ok(inventory.adapter(&request.name)?)
    }

    /// Writes into the inventory which shard an adapter is on.
    fn note_shard(&self, inventory: &mut Inventory, name: &Name) -> Result<(), Problem> {
        let shard = self.shards.shard_of(inventory.port(name)?);
        inventory.place(name, shard.map(|shard| shard.0));
        Ok(())
    }

    /// The same for all adapters of the configuration, which were plugged without a request.
    pub async fn note_shards(&self) {
        let _change = self.changes.lock().await;
        let mut inventory = self.inventory();
        let placed = inventory
            .ports()
            .map(|(name, port)| (name.clone(), self.shards.shard_of(port)));
        for (name, shard) in placed.collect::<Vec<_>>() {
            inventory.place(&name, shard.map(|shard| shard.0));
        }
    }

    async fn move_adapter(&self, name: &Name, request: &MoveRequest) -> Result<Adapter, Problem> {
        let _move = self.moving.begin(name)?;
        let _change = self.changes.lock().await;
        let port = self.inventory().port(name)?;
        self.inventory().check_shard_number(request.shard)?;
        let moved = self.shards.move_adapter(port, ShardId(request.shard));
        let moved = moved.await;
        let mut inventory = self.inventory();
        self.note_shard(&mut inventory, name)?;
        self.keep(&Object::Adapter(name.clone()), &inventory);
        moved.map_err(|not_done| Problem::of(not_done, Problem::conflict))?;
        tracing::info!("adapter {name} moved to shard {}", request.shard);
        Ok(inventory.adapter(name)?)
    }

    async fn change_adapter(
        &self,
        name: &Name,
        change: &AdapterChange,
    ) -> Result<Adapter, Problem> {
        let _change = self.changes.lock().await;
        self.inventory().check_change(name, change)?;
        if let Some(ip) = &change.ip {
            let before = self.inventory().adapter(name)?.ip;
            let port = self.inventory().port(name)?;
            self.keep_to(port, ip, &before).await?;
        }
        let mut inventory = self.inventory();
        let changed = inventory.change_adapter(name, change)?;
        if change.users.is_some() || change.groups.is_some() {
            let admitted = inventory.admitted(name)?;
            if let Some(socket) = &changed.process_socket {
                process_socket::let_connect(socket, &admitted);
            }
            self.shards.admit(inventory.port(name)?, admitted);
        }
        self.keep(&Object::Adapter(name.clone()), &inventory);
        tracing::info!("adapter {name} changed");
        Ok(changed)
    }

    async fn remove_adapter(&self, name: &Name) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let port = self.inventory().port(name)?;
        self.unplug(name, port).await?;
        let mut inventory = self.inventory();
        inventory.remove_adapter(name)?;
        self.memory().changes.release(name);
        self.memory().counts.forget(name);
        self.keep(&Object::Adapter(name.clone()), &inventory);
        tracing::info!("adapter {name} removed");
        Ok(())
    }

    async fn add_portgroup(&self, request: &PortGroupRequest) -> Result<PortGroup, Problem> {
        let _change = self.changes.lock().await;
        let mut inventory = self.inventory();
        let added = inventory.add_portgroup(request, Origin::Runtime)?;
        self.keep(&Object::PortGroup(request.name.clone()), &inventory);
        Ok(added)
    }

    async fn change_portgroup(
        &self,
        name: &Name,
        change: &PortGroupChange,
    ) -> Result<PortGroup, Problem> {
        let _change = self.changes.lock().await;
        let mut inventory = self.inventory();
        let changed = inventory.change_portgroup(name, change)?;
        self.keep(&Object::PortGroup(name.clone()), &inventory);
        tracing::info!("port group {name} changed");
        Ok(changed)
    }

    async fn remove_portgroup(&self, name: &Name) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let mut inventory = self.inventory();
        inventory.remove_portgroup(name)?;
        self.keep(&Object::PortGroup(name.clone()), &inventory);
        Ok(())
    }
}

/// Lets the group use a socket. The data path makes it for the daemon's user alone; if this fails, an adapter that only
/// this user can use is better than none.
fn share_with_group(socket: &Path) {
    if let Err(error) = fs::set_permissions(socket, Permissions::from_mode(ADAPTER_MODE)) {
        tracing::warn!(
            "cannot let the daemon's group use {}: {error}",
            socket.display()
        );
    }
}

/// Serves the API until `stop`, then lets requests under way finish for at most `drain`.
pub async fn serve(
    listener: UnixListener,
    control: Arc<Control>,
    stop: impl Future<Output = ()> + Send + 'static,
    drain: Duration,
) -> io::Result<()> {
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let told = Arc::clone(&control);
    let shutdown = async move {
        stop.await;
        told.stopping.send_replace(true);
        let _ = stopping.send(());
    };
    let router = routes::router(control).into_make_service_with_connect_info::<Connection>();
    let server = axum::serve(listener, router).with_graceful_shutdown(shutdown);
    let deadline = async move {
        let _ = stopped.await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        outcome = server => outcome,
        () = deadline => Ok(()),
    }
}

#[cfg(test)]
mod tests;
