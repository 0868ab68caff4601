//! A pair of a guest and programs of a host.
//!
//! ```text
//!   guest a --vfio-user, ethernet--> vrdmad <--process socket-- programs of a host, as adapter b
//!                                       ^------ TAP ----------- the host's own TCP
//!
//!   over a wire, each on a host of its own:
//!   guest a <--> vrdmad, or TAP <====== wire ======> vrdmad <--> programs, the host's own TCP
//! ```

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Result, anyhow};

use super::config::{Network, PairConfig, Side};
use super::run_dir::RunDir;
use super::start_on;
use crate::daemon::{Adapter, Daemon, Host, User};
use crate::guest::{Guest, Kind};
use crate::image::{Accelerator, Image};
use crate::namespace::{Entry, Namespace};
use crate::wire::{INTERFACE, WireConfig, WiredHosts};

/// The host's own address for TCP; its programs' adapter has another.
pub const HOST_STACK: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 3);

const HOST_STACK_MAC: &str = "52:54:00:00:00:03";

/// The hosts of the daemons and the programs.
#[derive(Debug)]
enum Ground {
    /// One host with both.
    One(Namespace),
    /// Two hosts: the guest's and the programs'.
    Two(WiredHosts),
}

/// A guest at [`Side::A`]'s address, an adapter of processes at [`Side::B`]'s and the IP stack of the processes' host
/// at [`HOST_STACK`], in one port group. Hosts are network namespaces.
///
/// Fields are in the order in which they must end.
#[derive(Debug)]
pub struct Mixed {
    guest: Guest,
    daemons: Vec<Daemon>,
    ground: Ground,
    run_dir: RunDir,
}

impl Mixed {
    /// Starts the guest and the programs' adapter at one daemon and waits until the guest is ready.
    ///
    /// # Errors
    /// When anything does not start, with the ends of the logs.
    pub fn start(program: &Path) -> Result<Self> {
        let config = PairConfig::new(Network::Daemon(program.to_owned()));
        let run_dir = RunDir::create(config.lifetime)?;
        let host = Namespace::create("host", run_dir.path(), config.lifetime)?;
        host.entry().ip("link set lo up\n")?;
        let adapters = [&[config.adapter(Side::A)], &of_processes(&config)[..]].concat();
        let (folder, lifetime) = (run_dir.path(), config.lifetime);
        let daemon = Daemon::start_on(host.entry(), program, folder, &adapters, lifetime)?;
        Self::boot(&config, vec![daemon], Ground::One(host), run_dir)
    }

    /// Starts each on a host of its own. A guest of another kind than [`Kind::Vrdma`] has no daemon.
    ///
    /// # Errors
    /// As [`Mixed::start`].
    pub fn across(program: &Path, kind: Kind, wire: WireConfig) -> Result<Self> {
        let network = Network::Wire {
            program: program.to_owned(),
            wire: wire.clone(),
        };
        let config = PairConfig {
            kinds: [kind, Kind::Vrdma],
            ..PairConfig::new(network)
        };
        let run_dir = RunDir::create(config.lifetime)?;
        let wire = WiredHosts::create(&wire, run_dir.path(), config.lifetime)?;
        let beside_guest = start_on(&config, &wire, Side::A, program, run_dir.path())?;
        let folder = config.daemon_dir(Side::B, run_dir.path());
        fs::create_dir(&folder)?;
        let host = Host {
            entry: wire.host(Side::B),
            side: Side::B,
            wire: wire.config(),
            interface: INTERFACE,
        };
        let (adapters, lifetime) = (of_processes(&config), config.lifetime);
        let daemon = Daemon::start(program, &folder, &adapters, Some(host), lifetime)?;
        let daemons = [daemon].into_iter().chain(beside_guest).collect();
        Self::boot(&config, daemons, Ground::Two(wire), run_dir)
    }

    fn boot(
        config: &PairConfig,
        daemons: Vec<Daemon>,
        ground: Ground,
        run_dir: RunDir,
    ) -> Result<Self> {
        let image = Image::ensure()?;
        let accelerator = Accelerator::choose(&image)?;
        let host = match &ground {
            Ground::One(_) => None,
            Ground::Two(wire) => Some(wire.host(Side::A).clone()),
        };
        let mut guest = config.guest(Side::A, run_dir.path(), host);
        guest
            .variables
            .push(("H".to_owned(), HOST_STACK.to_string()));
        let mixed = Self {
            guest: Guest::start(&image, accelerator, &guest)?,
            daemons,
            ground,
            run_dir,
        };
        match mixed.guest.wait_ready() {
            Ok(_device) => Ok(mixed),
            Err(error) => Err(anyhow!("{error:#}\n{}", mixed.logs())),
        }
    }

    /// The guest.
    #[must_use]
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// The programs' daemon, and the guest's if that is another one.
    #[must_use]
    pub fn daemons(&self) -> &[Daemon] {
        &self.daemons
    }

    /// The host of the programs: its network is its own, so that no other program uses its ports.
    #[must_use]
    pub fn host(&self) -> &Entry {
        match &self.ground {
            Ground::One(host) => host.entry(),
            Ground::Two(wire) => wire.host(Side::B),
        }
    }

    /// Folder of the guest's files.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        self.run_dir.path()
    }

    /// The ends of the console and of the daemons' logs.
    #[must_use]
    pub fn logs(&self) -> String {
        let console = ("guest", self.guest.console_tail());
        let daemons = self
            .daemons
            .iter()
            .map(|daemon| ("daemon", daemon.log_tail()));
        let all = [console].into_iter().chain(daemons);
        all.map(|(name, tail)| format!("--- {name}\n{tail}\n"))
            .collect()
    }
}

/// The adapters of the programs' host.
fn of_processes(config: &PairConfig) -> [Adapter; 2] {
    let processes = Adapter {
        user: User::Processes(Side::B.address()),
        ..config.adapter(Side::B)
    };
    let stack = Adapter {
        name: "h".to_owned(),
        mac: HOST_STACK_MAC.to_owned(),
        user: User::HostStack(HOST_STACK),
        is_away: false,
    };
    [processes, stack]
}
