//! Moves a VM with its adapters from one host to another while it runs.
//!
//! ```text
//!               source                                            destination
//!   check       daemon and QEMU answer ............................ and wait
//!   track       daemon notes what the adapter writes
//!   configure   adapters on the root bus .......................... PCI config space written again
//!   copy        QEMU ────────────── memory, the VM runs ─────────► QEMU
//!   freeze      VM and adapter stand still; QEMU ──── the rest ──► QEMU
//!   hand over   daemon ──────────── context ─────────────────────► daemon keeps it
//!   switch over all of the rest is there ......................... QEMU, stopped
//!  (configure)  adapters behind bridges, and those that the guest has configured anew
//!   restore                                                        daemon makes the adapter from the context
//!  (verify)     daemon ─────── both memories compared ───────────  daemon
//!   release     daemon gives up the adapter             ◄── the point of no return
//!   activate                                                       daemon goes on with it
//!   resume                                                         VM runs
//!   quit        QEMU ends
//! ```
//!
//! A failure before the release is taken back: the context is forgotten, with the adapter made from it, the old adapter
//! is thawed, and the VM runs on at the source. Everything that may fail is done by then: activating the adapter only
//! lets it work.
//!
//! QEMU is as it is shipped: it neither migrates nor refuses a `vfio-user-pci` device, so another program has to do
//! what it leaves out. This room knows QEMU's monitor and the control API. It does not know the content of a context,
//! how QEMU's stream goes from host to host, or who started the four programs.

#![forbid(unsafe_code)]

mod adapter;
pub mod blocks;
mod checks;
mod copying;
mod destinations;
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

use vrdma_api::{Destination, Name};

pub use checks::{Plan, PlannedAdapter};
pub use copying::Copying;
pub use error::{Cause, Error};
pub use progress::{MemoryProgress, Phase, PhaseTime, Progress, Report, Watcher};
pub use relay::{Offered, Relay, RelayProgram};
pub use revive::{Recovered, recover};

use adapter::AdapterHandle;
use machine::{Function, Machine, Side};
use qmp::Monitor;

/// Paths, on this host, of the sockets of a host's two programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostSockets {
    /// The daemon's control socket.
    pub control: PathBuf,
    /// The QMP socket of the VM's QEMU.
    pub qmp: PathBuf,
}

/// What to migrate, from where and to where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// All adapters of the VM, each of the same name on both hosts.
    pub adapters: Vec<Name>,
    /// Sockets of the host that the VM is on.
    pub source: HostSockets,
    /// Sockets of the host that the VM goes to.
    pub destination: HostSockets,
    /// How QEMU transfers the memory.
    pub memory: Copying,
    /// Compare the guest's memory on both hosts before the source gives the adapters up, while the VM stands still.
    pub verify: bool,
}

/// Connections to one host.
struct Host {
    /// The VM's adapters, in the order of the options; at least one.
    adapters: Vec<AdapterHandle>,
    machine: Machine,
}

impl Host {
    fn connect(sockets: &HostSockets, names: &[Name], side: Side) -> Result<Self, Cause> {
        let adapters = AdapterHandle::all(&sockets.control, names, side)?;
        // The daemons are asked first: a daemon that is not there is the more common mistake.
        for adapter in &adapters {
            adapter.look()?;
        }
        let monitor = Monitor::connect(&sockets.qmp).map_err(|error| match side {
            Side::Alone => Cause::new(error.to_string()),
            Side::Source | Side::Destination => {
                Cause::new(format!("at the {}: {error}", side.name()))
            }
        })?;
        Ok(Self {
            adapters,
            machine: Machine::new(monitor, side),
        })
    }

    /// The adapter that is used for questions whose answer is the same for all of them.
    fn first_adapter(&self) -> &AdapterHandle {
        &self.adapters[0]
    }
}

struct Hosts {
    source: Host,
    destination: Host,
}

/// A migration that is ready to begin.
pub struct Migration {
    plan: Plan,
    transfer: Transfer,
}

/// Connections and data of a migration.
struct Transfer {
    hosts: Hosts,
    options: Options,
    /// The VM's adapters as its QEMU at the source has them.
    functions: Vec<Function>,
    relay: Option<Relay>,
    /// Where the source's daemon brings the contexts; empty if this program does.
    destinations: Vec<Destination>,
}

impl Migration {
    /// Connects to both daemons and both QEMUs, and checks all conditions. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Unfit`] with what is wrong and how to correct it.
    pub fn prepare(options: Options) -> Result<Self, Error> {
        checks::check_options(&options)?;
        let mut hosts = Hosts {
            source: Host::connect(&options.source, &options.adapters, Side::Source)?,
            destination: Host::connect(&options.destination, &options.adapters, Side::Destination)?,
        };
        let (plan, functions) = checks::check(&mut hosts)?;
        if options.memory.post_copy {
            checks::check_pages(&mut hosts)?;
        }
        let destinations = destinations::agree(&hosts)?;
        let plan = Plan {
            daemon_to_daemon: !destinations.is_empty(),
            ..plan
        };
        let relay = begin_relay(&options.memory, &mut hosts)?;
        let transfer = Transfer {
            hosts,
            options,
            functions,
            relay,
            destinations,
        };
        Ok(Self { plan, transfer })
    }

    /// Results of the checks.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the migration.
    ///
    /// # Errors
    /// [`Error::Aborted`] before the point of no return, and [`Error::Released`] after it.
    pub fn run(self, watcher: &mut dyn Watcher) -> Result<Report, Error> {
        flow::run(self.transfer, watcher)
    }
}

/// If memory is placed by relays, makes both ready before anything is changed.
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
