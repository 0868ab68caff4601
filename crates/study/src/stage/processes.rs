//! Programs of the host and of containers, on adapters for processes.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Error, Result};
use vrdma_api::installation;
use vrdma_lab::daemon::{Adapter, Daemon, Host, PortGroup, User, services};
use vrdma_lab::image::Image;
use vrdma_lab::pair::{RunDir, Side};
use vrdma_lab::place::{Local, Place, Preload, SOCKETS};
use vrdma_lab::precopy::Placing;
use vrdma_lab::process::Lifetime;
use vrdma_lab::wire::{self, INTERFACE, WireConfig, WiredHosts};

use super::memory::{self, Migration};
use super::{Programs, Stage};
use crate::cell::{Endpoint, Placement, Setting, Transport};
use crate::programs::Own;
use crate::tool::{MemoryPath, Took};

const SIDES: [Side; 2] = [Side::A, Side::B];

/// Most pairs at the same time.
const TENANTS_MAX: u8 = 4;

const MIGRATION_PORT: u16 = 4444;

/// Sets `$DEV` to the device, which is in no folder of the kernel here.
const DEVICE: &str = "DEV=$(ibv_devices | awk 'NR > 2 { print $1; exit }')";

/// Fields are in the order in which they must end.
pub(super) struct Processes {
    processes: [Local; 2],
    containers: [Local; 2],
    daemons: Vec<Daemon>,
    run_dirs: [PathBuf; 2],
    library: PathBuf,
    placement: Placement,
    wire: WiredHosts,
    _folder: RunDir,
}

impl Processes {
    pub(super) fn start(placement: Placement, programs: &Programs) -> Result<Self> {
        let image = Image::ensure()?;
        let folder = RunDir::create(Lifetime::Owned)?;
        let wire = WiredHosts::create(&WireConfig::default(), folder.path(), Lifetime::Owned)?;
        let run_dirs = run_dirs(placement, folder.path())?;
        let daemons = daemons(placement, programs, &wire, &run_dirs)?;
        let place = |side: Side, inside: &str| -> Result<Local> {
            let output = folder.path().join(format!("{inside}-{}", side.name()));
            fs::create_dir(&output)?;
            let preload = preload(&wire, side, &run_dirs[index(side)], &programs.library);
            let enter = match inside {
                "container" => preload.container(&image.root("")),
                _ => preload.process(),
            };
            // Adapters of tenants have names that begin with their side, see `of_tenant`.
            let services = services(&run_dirs[index(side)], move |adapter| {
                adapter.starts_with(side.name())
            })?;
            Ok(Local::new(&output, enter).offering(services))
        };
        Ok(Self {
            processes: [place(Side::A, "process")?, place(Side::B, "process")?],
            containers: [place(Side::A, "container")?, place(Side::B, "container")?],
            daemons,
            run_dirs,
            library: programs.library.clone(),
            placement,
            wire,
            _folder: folder,
        })
    }
}

impl Stage for Processes {
    fn places(&self, endpoint: Endpoint, _tenant: u8) -> [&dyn Place; 2] {
        let places = match endpoint {
            Endpoint::Container => &self.containers,
            Endpoint::Process | Endpoint::Vm => &self.processes,
        };
        places.each_ref().map(|place| place as &dyn Place)
    }

    fn prepare(&self, setting: Setting, tenant: u8, own: Own) -> Result<String> {
        for folder in &self.run_dirs {
            if !folder.join(own.name()).exists() {
                own.build(folder)?;
            }
        }
        let folder = match setting.endpoint {
            Endpoint::Container => SOCKETS.to_owned(),
            Endpoint::Process | Endpoint::Vm => self.run_dirs[0].display().to_string(),
        };
        let sides = match setting.tenants {
            1 => SIDES.map(|side| side.name().to_owned()),
            _ => SIDES.map(|side| of_tenant(side, tenant + 1).name),
        };
        let address = match setting.tenants {
            1 => String::new(),
            _ => format!("A={}; ", address_of_tenant(Side::A, tenant + 1)),
        };
        let [a, b] = sides;
        Ok(format!(
            "PROGRAMS={folder}; SIDE_A={a}; SIDE_B={b}; {address}{DEVICE}; "
        ))
    }

    fn daemons(&self) -> Vec<&Daemon> {
        self.daemons.iter().collect()
    }

    fn logs(&self) -> String {
        self.daemons.iter().map(Daemon::log_tail).collect()
    }

    fn migrate(&self, transport: Transport, way: MemoryPath) -> Result<String> {
        let took = match way {
            MemoryPath::Stream => self.migrate_by_qemu(transport, None)?,
            MemoryPath::Streams(channels) => self.migrate_by_qemu(transport, Some(channels))?,
            MemoryPath::Placed => self.migrate_by_relays()?,
        };
        Ok(serde_json::to_string(&took)?)
    }
}

impl Processes {
    fn migrate_by_qemu(&self, transport: Transport, channels: Option<u8>) -> Result<Took> {
        let preload = self.preload();
        let [source, destination] = preload.each_ref().map(|preload| {
            move |command: &Command| match transport {
                Transport::Tcp => preload.host.command(command),
                _ => preload.command(command),
            }
        });
        let uri = match transport {
            Transport::Tcp => format!("tcp:{}:{MIGRATION_PORT}", wire::address(Side::B)),
            _ => format!("rdma:{}:{MIGRATION_PORT}", self.address_of_adapter()),
        };
        let migration = Migration::Qemu { uri, channels };
        memory::migrate([&source, &destination], &migration, &self.daemons())
    }

    /// Here the QEMUs use no RDMA.
    fn migrate_by_relays(&self) -> Result<Took> {
        let preload = self.preload();
        let [source, destination] = preload
            .each_ref()
            .map(|preload| move |command: &Command| preload.host.command(command));
        let linked = preload
            .each_ref()
            .map(|preload| move |command: &Command| preload.linked(command));
        let migration = Migration::Relays(Placing {
            program: &installation::program("vrdma").map_err(Error::msg)?,
            enter: [&linked[0], &linked[1]],
            to: (self.address_of_adapter(), MIGRATION_PORT).into(),
        });
        memory::migrate([&source, &destination], &migration, &self.daemons())
    }

    fn preload(&self) -> [Preload; 2] {
        SIDES.map(|side| preload(&self.wire, side, &self.run_dirs[index(side)], &self.library))
    }

    /// The address of side b's adapter.
    fn address_of_adapter(&self) -> Ipv4Addr {
        let address = wire::address(Side::B);
        match self.placement {
            Placement::OneHost => address,
            Placement::TwoHosts => beside(address),
        }
    }
}

fn index(side: Side) -> usize {
    usize::from(side == Side::B)
}

/// The daemons' folders: one host has one daemon, whose folder both sides share.
fn run_dirs(placement: Placement, folder: &Path) -> Result<[PathBuf; 2]> {
    let name = |side: Side| match placement {
        Placement::OneHost => "run",
        Placement::TwoHosts => side.name(),
    };
    let folders = SIDES.map(|side| folder.join(name(side)));
    for folder in &folders {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    Ok(folders)
}

fn daemons(
    placement: Placement,
    programs: &Programs,
    wire: &WiredHosts,
    run_dirs: &[PathBuf; 2],
) -> Result<Vec<Daemon>> {
    let program = &programs.daemon;
    match placement {
        Placement::OneHost => {
            let daemon = Daemon::start_for(&tenants(), program, &run_dirs[0], Lifetime::Owned)?;
            Ok(vec![daemon])
        }
        Placement::TwoHosts => {
            let start = |side: Side| {
                let host = Host {
                    entry: wire.host(side),
                    side,
                    wire: wire.config(),
                    interface: INTERFACE,
                };
                let adapters = [adapter(side, beside(wire::address(side)))];
                Daemon::start(
                    program,
                    &run_dirs[index(side)],
                    &adapters,
                    Some(host),
                    Lifetime::Owned,
                )
            };
            SIDES.into_iter().map(start).collect()
        }
    }
}

/// The pair that most cells have to themselves, and pairs that do the same at the same time.
fn tenants() -> Vec<PortGroup> {
    let alone = PortGroup {
        name: "alone".to_owned(),
        adapters: SIDES
            .map(|side| adapter(side, wire::address(side)))
            .to_vec(),
    };
    let others = (1..=TENANTS_MAX).map(|number| PortGroup {
        name: format!("t{number}"),
        adapters: SIDES.map(|side| of_tenant(side, number)).to_vec(),
    });
    std::iter::once(alone).chain(others).collect()
}

fn address_of_tenant(side: Side, number: u8) -> Ipv4Addr {
    let [a, b, c, d] = wire::address(side).octets();
    Ipv4Addr::new(a, b, c, d + 10 * number)
}

fn of_tenant(side: Side, number: u8) -> Adapter {
    Adapter {
        name: format!("{}{number}", side.name()),
        mac: format!("02:00:00:00:{number:02x}:{:02x}", 1 + index(side)),
        user: User::Processes(address_of_tenant(side, number)),
        is_away: false,
    }
}

/// An adapter's address beside the host's: on a wire that belongs to the host's kernel, so the adapter has another in
/// the same network.
fn beside(address: Ipv4Addr) -> Ipv4Addr {
    let [a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, 100 + d)
}

fn adapter(side: Side, address: Ipv4Addr) -> Adapter {
    Adapter {
        name: side.name().to_owned(),
        mac: format!("02:00:00:00:00:{:02x}", 1 + index(side)),
        user: User::Processes(address),
        is_away: false,
    }
}

fn preload(wire: &WiredHosts, side: Side, run_dir: &Path, library: &Path) -> Preload {
    let addresses = [("A", Side::A), ("B", Side::B)];
    Preload {
        host: wire.host(side).clone(),
        adapter: side.name().to_owned(),
        run_dir: run_dir.to_owned(),
        library: library.to_owned(),
        variables: addresses
            .map(|(name, side)| (name.to_owned(), wire::address(side).to_string()))
            .to_vec(),
    }
}
