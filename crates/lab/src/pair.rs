//! Two guests that reach each other, at 10.10.0.1 and 10.10.0.2.
//!
//! ```text
//!   guest a --vfio-user, ethernet--> vrdmad <--vfio-user, ethernet-- guest b
//!   guest a <------------ datagram sockets (no daemon) ------------> guest b
//!   guest a <--> vrdmad, or TAP <====== wire ======> vrdmad, or TAP <--> guest b
//!                                              `---> TAP <--> a third one with rxe, if asked for
//! ```
//!
//! Both know both addresses as `$A` and `$B`. Booting takes seconds, so a test
//! boots one pair and runs many commands in it.

mod cluster;
mod config;
mod kept;
mod mixed;
mod run_dir;
mod travelling;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::daemon::{Daemon, Host};
use crate::guest::Guest;
use crate::image::{Accelerator, Image};
use crate::place;
pub use crate::place::Outcome;
use crate::wire::{INTERFACE, PORT, WiredHosts};
pub use cluster::{Cluster, ClusterConfig, guest_name};
pub use config::{Network, PairConfig, QEMUS, Side};
pub use kept::KeptPair;
pub use mixed::{HOST_STACK, Mixed};
pub use run_dir::RunDir;
pub use travelling::Arriving;

/// Two running guests and what is between them.
///
/// Fields are in the order in which they must end.
#[derive(Debug)]
pub struct Pair {
    guests: [Guest; 2],
    /// The third guest.
    beside: Option<Guest>,
    daemons: Vec<Daemon>,
    wire: Option<WiredHosts>,
    image: Image,
    accelerator: Accelerator,
    run_dir: RunDir,
    config: PairConfig,
    /// The host of each guest.
    places: [Side; 2],
    moves: u32,
}

impl Pair {
    /// Starts everything and waits until both guests are ready. Builds the
    /// image first when it is missing.
    ///
    /// # Errors
    /// When anything does not start, with the ends of the logs.
    pub fn start(config: &PairConfig) -> Result<Self> {
        let image = Image::ensure()?;
        let accelerator = Accelerator::choose(&image)?;
        let run_dir = RunDir::create(config.lifetime)?;
        let wire = config
            .wire()
            .map(|wire| WiredHosts::create(wire, run_dir.path(), config.lifetime));
        let wire = wire.transpose()?;
        let daemons = start_daemons(config, wire.as_ref(), run_dir.path())?;
        let start = |side| {
            let host = wire.as_ref().map(|wire| wire.host(side).clone());
            Guest::start(
                &image,
                accelerator,
                &config.guest(side, run_dir.path(), host),
            )
        };
        let guests = [start(Side::A)?, start(Side::B)?];
        let third = wire.as_ref().filter(|_| config.rxe_beside);
        let third = third.map(|wire| {
            let config = config.beside(run_dir.path(), wire.host(Side::B).clone());
            Guest::start(&image, accelerator, &config)
        });
        let pair = Self {
            guests,
            beside: third.transpose()?,
            daemons,
            wire,
            image,
            accelerator,
            run_dir,
            config: config.clone(),
            places: [Side::A, Side::B],
            moves: 0,
        };
        let ready = wait_all(&pair.all());
        ready.map_err(|error| pair.explain(&error))?;
        Ok(pair)
    }

    fn all(&self) -> Vec<&Guest> {
        self.guests.iter().chain(&self.beside).collect()
    }

    /// The third guest, with [`PairConfig::rxe_beside`].
    #[must_use]
    pub fn beside(&self) -> Option<&Guest> {
        self.beside.as_ref()
    }

    /// A guest.
    #[must_use]
    pub fn guest(&self, side: Side) -> &Guest {
        &self.guests[side.index()]
    }

    /// The daemons: one with [`Network::Daemon`], one for each vrdma guest with [`Network::Wire`], in the order of the
    /// guests.
    #[must_use]
    pub fn daemons(&self) -> &[Daemon] {
        &self.daemons
    }

    /// The hosts, with [`Network::Wire`].
    #[must_use]
    pub fn wire(&self) -> Option<&WiredHosts> {
        self.wire.as_ref()
    }

    /// Folder of all sockets and logs.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        self.run_dir.path()
    }

    /// Runs a server in guest a and, once it is ready, its client in guest b. The client is run once, whatever its
    /// outcome.
    ///
    /// # Errors
    /// When a guest dies, the client's limit passes, or the server fails before the client.
    pub fn run(&self, server: &str, client: &str, limit: Duration) -> Result<Outcome> {
        self.run_between([Side::A, Side::B], server, client, limit)
    }

    /// The same with the server in guest b and the client in guest a.
    ///
    /// # Errors
    /// As [`Pair::run`].
    pub fn run_reversed(&self, server: &str, client: &str, limit: Duration) -> Result<Outcome> {
        self.run_between([Side::B, Side::A], server, client, limit)
    }

    /// The same with both programs in guest a.
    ///
    /// # Errors
    /// As [`Pair::run`].
    pub fn run_alone(&self, server: &str, client: &str, limit: Duration) -> Result<Outcome> {
        self.run_between([Side::A; 2], server, client, limit)
    }

    fn run_between(
        &self,
        sides: [Side; 2],
        server: &str,
        client: &str,
        limit: Duration,
    ) -> Result<Outcome> {
        let [a, b] = sides.map(|side| self.guest(side).control());
        place::run([a, b], server, client, limit).map_err(|error| self.explain(&error))
    }

    /// Ends a guest as if its power had failed, and starts it again with a new QEMU.
    ///
    /// # Errors
    /// As [`Pair::start`].
    pub fn restart_guest(&mut self, side: Side) -> Result<()> {
        let index = side.index();
        let config = self.guests[index].config().clone();
        self.guests[index].kill();
        self.guests[index] = Guest::start(&self.image, self.accelerator, &config)?;
        self.guests[index]
            .wait_ready()
            .map_err(|error| self.explain(&error))?;
        Ok(())
    }

    /// The ends of the consoles and of the daemons' logs.
    #[must_use]
    pub fn logs(&self) -> String {
        let daemons = self
            .daemons
            .iter()
            .map(|daemon| ("daemon", daemon.log_tail()));
        let consoles = self.all().into_iter();
        let consoles = consoles.map(|guest| (guest.name(), guest.console_tail()));
        let logs = consoles
            .chain(daemons)
            .map(|(name, tail)| format!("--- {name}\n{tail}\n"));
        logs.collect()
    }

    /// Puts the error first, then the ends of the logs.
    fn explain(&self, error: &anyhow::Error) -> anyhow::Error {
        anyhow!("{error:#}\n{}", self.logs())
    }

    /// Records a pair of [`Lifetime::Kept`](crate::process::Lifetime::Kept) for other processes.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn keep(&self) -> Result<KeptPair> {
        let daemons = self.daemons.iter().map(Daemon::process_id);
        let hosts = self.wire.iter().flat_map(WiredHosts::processes);
        let processes = self
            .all()
            .into_iter()
            .map(Guest::process_id)
            .chain(daemons)
            .chain(hosts)
            .collect();
        KeptPair::record(self.run_dir(), processes)
    }
}

fn start_daemons(
    config: &PairConfig,
    wire: Option<&WiredHosts>,
    run_dir: &Path,
) -> Result<Vec<Daemon>> {
    let sides = [Side::A, Side::B];
    match (&config.network, wire) {
        (Network::Daemon(program), _) => {
            let adapters = sides.map(|side| config.adapters(side)).concat();
            let daemon = match config.supervised {
                true => Daemon::start_kept(program, run_dir, &adapters, None, config.lifetime),
                false => Daemon::start(program, run_dir, &adapters, None, config.lifetime),
            };
            Ok(vec![daemon?])
        }
        (Network::Wire { program, .. }, Some(wire)) => {
            let started = sides.map(|side| start_on(config, wire, side, program, run_dir));
            Ok(started
                .into_iter()
                .collect::<Result<Vec<_>>>()?
                .into_iter()
                .flatten()
                .collect())
        }
        (Network::Direct | Network::Lent(_) | Network::Wire { .. }, _) => Ok(Vec::new()),
    }
}

/// Starts what a guest needs on its host: a daemon, or a TAP for its own RDMA.
fn start_on(
    config: &PairConfig,
    wire: &WiredHosts,
    side: Side,
    program: &Path,
    run_dir: &Path,
) -> Result<Option<Daemon>> {
    let has_daemon = config.travels || !config.has_tap(side);
    if !has_daemon {
        wire.add_tap(side)?;
        return Ok(None);
    }
    if config.has_bridge(side) {
        wire.add_tap_and_port(side)?;
    }
    let mut adapters = Vec::new();
    if !config.has_tap(side) {
        adapters.extend(config.adapters(side));
    }
    let folder = config.daemon_dir(side, run_dir);
    fs::create_dir(&folder)?;
    let host = Host {
        entry: wire.host(side),
        side,
        wire: wire.config(),
        interface: match config.has_bridge(side) {
            true => PORT,
            false => INTERFACE,
        },
    };
    if config.travels {
        adapters.extend(config.away(side.other()));
    }
    adapters.extend(config.qemus_adapter(side));
    let start = match config.supervised {
        true => Daemon::start_kept,
        false => Daemon::start,
    };
    start(program, &folder, &adapters, Some(host), config.lifetime).map(Some)
}

/// Waits for all guests at the same time: they boot in parallel, and their set-up should too.
fn wait_all(guests: &[&Guest]) -> Result<()> {
    thread::scope(|scope| {
        let ready: Vec<_> = guests
            .iter()
            .map(|guest| scope.spawn(|| guest.wait_ready()))
            .collect();
        for waiter in ready {
            waiter.join().expect("waiting does not panic")?;
        }
        Ok(())
    })
}
