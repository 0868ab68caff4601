//! The daemon's life: claim the run folder, start the threads, open uplinks, plug the adapters, serve, clean up.
//!
//! ```text
//!   claim ──► bind ──► threads ──► adapters ──► READY ──SIGTERM, SIGINT──► drain ──► end
//!     └─────────┴─ refused: nothing was changed                │                      │
//!                                                              └─ a thread ends: 1    └─ one does not: 1
//! ```

mod ending;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::process::{Resource, getrlimit, setrlimit, umask};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use vrdma_api::Name;
use vrdma_ethernet::EthernetHandle;
use vrdma_inventory::changes::Changes;
use vrdma_inventory::config::Config;
use vrdma_inventory::{AdapterSpec, ShardOptions, UplinkSpec};
use vrdma_sandbox::Confinement;
use vrdma_shard::legacy::Legacy;
use vrdma_shard::plane::Shards;
use vrdma_shard::process_socket::ProcessSocket;
use vrdma_shard::shard;
use vrdma_switch::UplinkId;
use vrdma_threads::socket::BoundSocket;
use vrdma_threads::{Vital, mailbox};
use vrdma_uplink::PeerSpec;

use crate::control::{self, Control, Facts, Memory};
use crate::handover;
use crate::locations::Locations;
use crate::run_dir::RunDir;
use crate::watchdog::{self, Watch};
use ending::{Ending, StopSignals};

/// How long clients of the control API may take to finish when the daemon stops, which takes it less than a second.
const DRAIN: Duration = Duration::from_millis(300);

/// Only the daemon's user may use the control API.
const CONTROL_MODE: u32 = 0o600;

/// Why the daemon could not start or go on: a sentence.
#[derive(Debug)]
pub enum ServiceError {
    /// A path is wrong or taken; nothing was changed.
    Refused(String),
    /// Something failed underway.
    Broken(String),
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(sentence) | Self::Broken(sentence)) = self;
        f.write_str(sentence)
    }
}

impl std::error::Error for ServiceError {}

fn broken(what: &'static str) -> impl Fn(std::io::Error) -> ServiceError {
    move |error| ServiceError::Broken(format!("{what}: {error}"))
}

/// Runs until SIGTERM or SIGINT.
pub fn run(
    mut config: Config,
    keeps_core_dumps: bool,
    legacy: &Legacy,
) -> Result<(), ServiceError> {
    // Sockets and folders are private until their mode is set on purpose.
    umask(Mode::RWXG | Mode::RWXO);
    raise_descriptor_limit();
    let options = vrdma_sandbox::Options {
        is_on: config.sandbox,
        keeps_core_dumps,
    };
    let (mut protections, interfaces) = vrdma_sandbox::enter(options);
    let _claim = RunDir::claim(&config.run_dir).map_err(ServiceError::Refused)?;
    let mut changes = Changes::follow(legacy.changes(), &mut config.inventory);
    let holds = changes.take_claimed();
    let counts = legacy.counts(&config.inventory);
    let locations = follow_migrations(&mut config).map_err(ServiceError::Refused)?;
    let api = bind_api(&config.socket, legacy)?;
    let processes = ProcessSocket::bind(&config.run_dir, legacy).map_err(ServiceError::Refused)?;
    let confinement = options.confinement(socket_folders(&config));
    let path = DataPath::start(&processes, &config.shards, &confinement, legacy)?;
    protections.push(options.close_files(&confinement));
    let start = Start {
        uplinks: config.inventory.uplink_specs(),
        peers: config.inventory.peer_specs(),
        adapters: config.inventory.adapter_specs(),
        holds,
    };
    let facts = Facts {
        config: config.file,
        run_dir: config.run_dir,
        shards: config.shards,
        protections,
        interfaces,
        legacy: legacy.clone(),
        migration: config.migration,
        started: Instant::now(),
    };
    let memory = Memory {
        changes,
        locations,
        counts,
    };
    let control = Arc::new(Control::new(
        config.inventory,
        path.shards.clone(),
        path.ethernet.clone(),
        facts,
        memory,
    ));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(broken("cannot start the control plane"))?;
    let outcome = live(&runtime, &api, &control, start, path, legacy);
    // Its helper threads may wait for a thread that does not end.
    runtime.shutdown_background();
    outcome
}

/// Binds the socket of the control API, or takes over that of the previous worker.
fn bind_api(path: &Path, legacy: &Legacy) -> Result<BoundSocket, ServiceError> {
    let bound = BoundSocket::follow(path, CONTROL_MODE, legacy.listener(path));
    bound.map_err(|error| ServiceError::Refused(error.to_string()))
}

/// Puts adapters where migrations left them, as the previous daemon has noted. The error is a sentence.
fn follow_migrations(config: &mut Config) -> Result<Locations, String> {
    // From here on the inventory has them: this copy would last as long as the daemon.
    let adapters = std::mem::take(&mut config.adapters).into_iter();
    let configured = adapters.map(|spec| (spec.name, spec.away));
    let locations = Locations::open(&config.run_dir, configured.collect())?;
    for (name, away) in locations.moved() {
        tracing::info!(
            "adapter {name} is {}: it has migrated since the configuration was written",
            if away { "away" } else { "here" }
        );
        config.inventory.set_away(name, away);
    }
    Ok(locations)
}

/// Folders where sockets come and go while the daemon runs.
fn socket_folders(config: &Config) -> Vec<PathBuf> {
    let control = config.socket.parent();
    let folders = [Some(config.run_dir.as_path()), control].into_iter();
    folders.flatten().map(Path::to_owned).collect()
}

/// The threads of the data path.
struct DataPath {
    shards: Shards,
    ethernet: EthernetHandle,
    threads: Vec<JoinHandle<()>>,
}

impl DataPath {
    fn start(
        processes: &ProcessSocket,
        options: &ShardOptions,
        confinement: &Confinement,
        legacy: &Legacy,
    ) -> Result<Self, ServiceError> {
        let count = options.cores.len();
        let mailboxes: io::Result<Vec<_>> = (0..count).map(|_| mailbox()).collect();
        let mailboxes = mailboxes.map_err(broken("cannot start the Ethernet thread"))?;
        let (says, snooped): (Vec<_>, Vec<_>) = mailboxes.into_iter().unzip();
        let (shards, inboxes) = Shards::new(count).map_err(broken("cannot start the shards"))?;
        let (ethernet, ethernet_thread) =
            vrdma_ethernet::start(says, shards.known(), confinement.clone())
                .map_err(broken("cannot start the Ethernet thread"))?;
        let start = |listener| {
            shard::start_after(
                legacy,
                inboxes,
                snooped,
                listener,
                shards.known().clone(),
                options,
                confinement,
            )
        };
        let started = processes.listener().and_then(start);
        let mut threads = started.map_err(broken("cannot start the shards"))?;
        threads.push(ethernet_thread);
        Ok(Self {
            shards,
            ethernet,
            threads,
        })
    }

    fn vitals(&self) -> Vec<Arc<Vital>> {
        let shards = self.shards.vitals().cloned();
        shards.chain([Arc::clone(self.ethernet.vital())]).collect()
    }

    async fn end(self) -> Result<(), ServiceError> {
        let vitals = self.vitals();
        self.shards.stop();
        self.ethernet.stop();
        ending::end(&vitals, self.threads).await
    }
}

fn live(
    runtime: &Runtime,
    api: &BoundSocket,
    control: &Arc<Control>,
    start: Start,
    path: DataPath,
    legacy: &Legacy,
) -> Result<(), ServiceError> {
    runtime.block_on(async {
        let signals = StopSignals::new().map_err(broken("cannot wait for signals"))?;
        let watch = Watch::new(path.vitals());
        let limit = watchdog::limit(legacy.is_kept());
        tokio::spawn(watch.run(limit, || notify(sd_notify::NotifyState::Watchdog)));
        let vitals = path.vitals();
        let outcome = tokio::select! {
            outcome = serve(api, control, start, signals.first(), legacy) => outcome,
            () = ending::hang_up(legacy.is_kept()) => {
                control.tell_counts().await;
                vrdma_keep::give_way()
            }
            name = ending::first_end(&vitals) => Err(ServiceError::Broken(format!(
                "{name} has ended, see the log above; start the daemon again"
            ))),
        };
        outcome.and(path.end().await)
    })
}

/// Raises the limit on descriptors: a session takes some ten and a VM four, and the usual limit of 1024 is meant for
/// programs that use `select`.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("cannot raise the limit of descriptors: {error}");
    }
}

/// Objects that exist from the beginning.
struct Start {
    uplinks: Vec<UplinkSpec>,
    peers: Vec<(UplinkId, PeerSpec)>,
    adapters: Vec<AdapterSpec>,
    /// Connections that bound the life of some adapters.
    holds: Vec<(Name, OwnedFd)>,
}

async fn serve(
    api: &BoundSocket,
    control: &Arc<Control>,
    start: Start,
    stop: Ending,
    legacy: &Legacy,
) -> Result<(), ServiceError> {
    let refused = |not_done| ServiceError::Refused(format!("{not_done}"));
    for spec in &start.uplinks {
        control.plug_uplink(spec).await.map_err(refused)?;
    }
    for (uplink, peer) in start.peers {
        let plugged = control.plug_peer(uplink, peer);
        plugged.await.map_err(refused)?;
    }
    for spec in start.adapters {
        control.plug(spec).await.map_err(refused)?;
    }
    control.go_on().await.map_err(refused)?;
    legacy.forget_rest();
    control.note_shards().await;
    control.hold_on(start.holds);
    tokio::spawn(Arc::clone(control).follow_moves());
    take_contexts(control).map_err(ServiceError::Refused)?;
    let listener = api
        .listener()
        .try_clone()
        .and_then(UnixListener::from_std)
        .map_err(broken("cannot serve the control API"))?;
    legacy.tell_ready();
    announce(api.path());
    let stopped = async move {
        stop.await;
        tracing::info!("stopping");
        notify(sd_notify::NotifyState::Stopping);
    };
    control::serve(listener, Arc::clone(control), stopped, DRAIN)
        .await
        .map_err(broken("the control API failed"))
}

/// Listens for contexts of other daemons, if the configuration says so. The address is free once the listener of the
/// previous worker is closed. The error is a sentence.
fn take_contexts(control: &Arc<Control>) -> Result<(), String> {
    let Some(spec) = control.migration_spec() else {
        return Ok(());
    };
    let listener = handover::bind(spec.listen)?;
    tokio::spawn(handover::listen(
        listener,
        spec.keys.clone(),
        Arc::clone(control),
    ));
    Ok(())
}

fn announce(socket: &Path) {
    tracing::info!("ready; control API at {}", socket.display());
    notify(sd_notify::NotifyState::Ready);
}

/// Notifies the service supervisor. A failure is no reason to disturb the guests.
fn notify(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("cannot notify the service supervisor: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_are_where_migrations_left_them() {
        let folder = tempfile::tempdir().unwrap();
        let text =
            "[[portgroup]]\nname = \"blue\"\n\n[[adapter]]\nname = \"vm1\"\nportgroup = \"blue\"\n";
        let load = || Config::from_text(Path::new("x.toml"), text, folder.path()).unwrap();
        let name = "vm1".parse().unwrap();
        let mut locations = follow_migrations(&mut load()).unwrap();
        locations.set(&name, true).unwrap();
        let mut config = load();
        follow_migrations(&mut config).unwrap();
        assert!(config.inventory.adapter_specs()[0].away);
        assert!(config.inventory.adapter(&name).unwrap().away);
    }
}
