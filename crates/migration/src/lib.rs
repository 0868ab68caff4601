//! Takes a VM with its adapter from one host to another while it runs.
//!
//! ```text
//!               source                                            destination
//!   check       daemon and QEMU answer ............................ and wait
//!   track       daemon notes what the adapter writes
//!   copy        QEMU ────────────── memory, the VM runs ─────────► QEMU
//!   freeze      VM and adapter stand still; QEMU ──── the rest ──► QEMU
//!   hand over   daemon ──────────── context ─────────────────────► daemon keeps it
//!   switch over all of the rest is there ......................... QEMU, stopped
//!   configure                                                      PCI config space written again
//!   restore                                                        daemon makes the adapter from the context
//!  (verify)     daemon ─────── both memories compared ───────────  daemon
//!   release     daemon gives up the adapter             ◄── the point of no return
//!   activate                                                       daemon goes on with it
//!   resume                                                         VM runs
//!   quit        QEMU ends
//! ```
//!
//! What fails before the release is taken back: the context is forgotten, with what was made from it, the adapter thawed,
//! and the VM runs on at the source. All that may fail is done by then: to activate the adapter is to let it work.
//!
//! QEMU is as it is shipped: it neither migrates nor refuses a `vfio-user-pci` device, so somebody outside has to do what it
//! leaves out. This room knows QEMU's monitor and the control API. It does not know what a context is made of,
//! how QEMU's stream goes from host to host, or who started the four programs.

#![forbid(unsafe_code)]

pub mod blocks;
mod checks;
mod copying;
mod daemon;
mod error;
mod flow;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod machine;
mod pci;
mod progress;
pub mod qmp;
mod relay;
mod revive;
pub mod snapshot;
mod verify;

use std::path::PathBuf;

use vrdma_api::Name;

pub use checks::Plan;
pub use copying::Copying;
pub use error::{Cause, Error};
pub use progress::{MemoryProgress, Phase, PhaseTime, Progress, Report, Watcher};
pub use relay::{Relay, RelayProgram};
pub use revive::recover;

use daemon::Daemon;
use machine::{Machine, Side};
use pci::Address;
use qmp::Monitor;

/// The sockets of a host's two programs, as files of this one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostSockets {
    /// The daemon's control socket.
    pub control: PathBuf,
    /// The QMP socket of the VM's QEMU.
    pub qmp: PathBuf,
}

/// What goes where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The adapter, of the same name on both hosts.
    pub adapter: Name,
    /// Where it is.
    pub source: HostSockets,
    /// Where it goes.
    pub destination: HostSockets,
    /// How QEMU sends the memory.
    pub memory: Copying,
    /// Compare the guest's memory on both hosts before the source gives the adapter up, while the VM stands still.
    pub verify: bool,
}

/// One host, connected.
struct Host {
    daemon: Daemon,
    machine: Machine,
}

impl Host {
    fn connect(sockets: &HostSockets, adapter: &Name, side: Side) -> Result<Self, Cause> {
        let daemon = Daemon::new(&sockets.control, adapter, side)?;
        // Asked first: a daemon that is not there is the commoner mistake.
        daemon.adapter()?;
        let monitor = Monitor::connect(&sockets.qmp).map_err(|error| match side {
            Side::Alone => Cause::new(error.to_string()),
            Side::Source | Side::Destination => {
                Cause::new(format!("at the {}: {error}", side.name()))
            }
        })?;
        Ok(Self {
            daemon,
            machine: Machine::new(monitor, side),
        })
    }
}

struct Hosts {
    source: Host,
    destination: Host,
}

/// A migration that can begin.
pub struct Migration {
    hosts: Hosts,
    options: Options,
    plan: Plan,
    address: Address,
    relay: Option<Relay>,
}

impl Migration {
    /// Connects to both daemons and both QEMUs, and looks whether all is as it must be. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Unfit`] with what is wrong and how to mend it.
    pub fn prepare(options: Options) -> Result<Self, Error> {
        checks::check_paths(&options)?;
        let mut hosts = Hosts {
            source: Host::connect(&options.source, &options.adapter, Side::Source)?,
            destination: Host::connect(&options.destination, &options.adapter, Side::Destination)?,
        };
        let (plan, address) = checks::check(&mut hosts)?;
        let relay = begin_relay(&options.memory, &mut hosts)?;
        Ok(Self {
            hosts,
            options,
            plan,
            address,
            relay,
        })
    }

    /// What was found.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Does it.
    ///
    /// # Errors
    /// [`Error::Aborted`] before the point of no return, and [`Error::Released`] after it.
    pub fn run(self, watcher: &mut dyn Watcher) -> Result<Report, Error> {
        flow::run(self, watcher)
    }
}

/// Where memory is placed by relays, both are ready before anything is changed.
fn begin_relay(copying: &Copying, hosts: &mut Hosts) -> Result<Option<Relay>, Cause> {
    match (copying.relay_address(), &copying.relay) {
        (None, _) => Ok(None),
        (Some(to), Some(program)) => {
            let request = relay::request(to, hosts)?;
            Relay::start(program, &request).map(Some)
        }
        (Some(_), None) => Err(Cause::new(
            "direct: needs an adapter of processes for the memory; name it with --relay-adapter",
        )),
    }
}

#[cfg(test)]
mod tests;
