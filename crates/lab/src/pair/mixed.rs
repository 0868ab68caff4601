//! A pair of which only one is a guest.
//!
//! ```text
//!   guest a --vfio-user, ethernet--> vrdmad <--process socket-- programs of a host, as adapter b
//!                                       ^------ TAP ----------- the host's own TCP
//! ```

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Result, anyhow};

use super::config::{Network, PairConfig, Side};
use super::run_dir::RunDir;
use crate::daemon::{Adapter, Daemon, User};
use crate::guest::Guest;
use crate::image::{Accelerator, Image};
use crate::namespace::{Entry, Namespace};

/// The host's own address for TCP; its programs' adapter has another.
pub const HOST_STACK: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 3);

const HOST_STACK_MAC: &str = "52:54:00:00:00:03";

/// A guest at [`Side::A`]'s address, an adapter of processes at [`Side::B`]'s and the host's own IP stack at
/// [`HOST_STACK`], in one port group. The host is a network namespace.
///
/// Fields are in the order in which they must end.
#[derive(Debug)]
pub struct Mixed {
    guest: Guest,
    daemon: Daemon,
    host: Namespace,
    run_dir: RunDir,
}

impl Mixed {
    /// Starts both and waits until the guest is ready.
    ///
    /// # Errors
    /// When anything does not start, with the ends of the logs.
    pub fn start(program: &Path) -> Result<Self> {
        let config = PairConfig::new(Network::Daemon(program.to_owned()));
        let image = Image::ensure()?;
        let accelerator = Accelerator::choose(&image)?;
        let run_dir = RunDir::create(config.lifetime)?;
        let host = Namespace::create("host", run_dir.path(), config.lifetime)?;
        host.entry().ip("link set lo up\n")?;
        let processes = Adapter {
            user: User::Processes(Side::B.address()),
            ..config.adapter(Side::B)
        };
        let stack = Adapter {
            name: "h".to_owned(),
            mac: HOST_STACK_MAC.to_owned(),
            user: User::HostStack(HOST_STACK),
        };
        let adapters = [config.adapter(Side::A), processes, stack];
        let (folder, lifetime) = (run_dir.path(), config.lifetime);
        let daemon = Daemon::start_on(host.entry(), program, folder, &adapters, lifetime)?;
        let mut guest = config.guest(Side::A, folder, None);
        guest
            .variables
            .push(("H".to_owned(), HOST_STACK.to_string()));
        let guest = Guest::start(&image, accelerator, &guest)?;
        let mixed = Self {
            guest,
            daemon,
            host,
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

    /// The daemon of both.
    #[must_use]
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Where the programs run: their own network, so that their ports are nobody else's.
    #[must_use]
    pub fn host(&self) -> &Entry {
        self.host.entry()
    }

    /// Folder of all sockets and logs.
    #[must_use]
    pub fn run_dir(&self) -> &Path {
        self.run_dir.path()
    }

    /// The ends of the console and of the daemon's log.
    #[must_use]
    pub fn logs(&self) -> String {
        let (console, daemon) = (self.guest.console_tail(), self.daemon.log_tail());
        format!("--- guest\n{console}\n--- daemon\n{daemon}\n")
    }
}
