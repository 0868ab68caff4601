//! More than two guests: tenants on one daemon, each with guests of its own in a port group of its own.
//!
//! ```text
//!   tenant 1:  guest a, guest b, guest c ... --port group t1--+
//!   tenant 2:  guest a, guest b, guest c ... --port group t2--+-- vrdmad
//! ```
//!
//! Tenants know nothing of each other, so each calls its guests `a`, `b` ... at 10.10.0.1, 10.10.0.2 ...

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Result, anyhow, ensure};
use vrdma_api::DoorbellMode;

use super::run_dir::RunDir;
use crate::daemon::{Adapter, Daemon, PortGroup, User, ethernet_socket, vfio_user_socket};
use crate::guest::{Ethernet, Guest, GuestConfig, Kind};
use crate::image::{Accelerator, Image};
use crate::process::Lifetime;

/// Most guests of a tenant: as many as have a name of one letter, or of two that begin with a.
const GUESTS_MAX: u8 = 2 * LETTERS;

const LETTERS: u8 = 26;

/// Guests that boot at the same time for each processor of this machine; booting all at once would time out.
const BOOTING: usize = 1;

/// Guests of [`Kind::Vrdma`] to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The daemon's program.
    pub program: PathBuf,
    /// Number of tenants.
    pub tenants: u8,
    /// Guests of each tenant.
    pub guests: u8,
    /// Processors of each guest.
    pub processors: u32,
    /// Memory of each guest, in MiB.
    pub memory_mib: u32,
}

/// Running guests and their daemon.
///
/// Fields are in the order in which they must end.
#[derive(Debug)]
pub struct Cluster {
    /// The guests of each tenant.
    tenants: Vec<Vec<Guest>>,
    daemon: Daemon,
    _run_dir: RunDir,
}

impl Cluster {
    /// Starts everything, a few guests at a time, and waits until all are ready.
    ///
    /// # Errors
    /// When anything does not start, with the ends of the logs.
    pub fn start(config: &ClusterConfig) -> Result<Self> {
        ensure!(
            (1..=GUESTS_MAX).contains(&config.guests),
            "a tenant has 1 to {GUESTS_MAX} guests"
        );
        let image = Image::ensure()?;
        let accelerator = Accelerator::choose(&image)?;
        let run_dir = RunDir::create(Lifetime::Owned)?;
        let tenants: Vec<PortGroup> = (1..=config.tenants).map(|n| config.tenant(n)).collect();
        let daemon = Daemon::start_for(&tenants, &config.program, run_dir.path(), Lifetime::Owned)?;
        let places: Vec<(u8, u8)> = (1..=config.tenants)
            .flat_map(|tenant| (1..=config.guests).map(move |guest| (tenant, guest)))
            .collect();
        let mut guests = Vec::new();
        for places in places.chunks(booting()) {
            let started = places
                .iter()
                .map(|&(tenant, guest)| {
                    let guest = config.guest(tenant, guest, run_dir.path())?;
                    Guest::start(&image, accelerator, &guest)
                })
                .collect::<Result<Vec<Guest>>>()?;
            let ready = wait_all(&started, config.guests);
            ready.map_err(|error| anyhow!("{error:#}\n{}", daemon.log_tail()))?;
            guests.extend(started);
        }
        let mut guests = guests.into_iter();
        let of_tenant = |_| guests.by_ref().take(config.guests.into()).collect();
        Ok(Self {
            tenants: (0..config.tenants).map(of_tenant).collect(),
            daemon,
            _run_dir: run_dir,
        })
    }

    /// A tenant's guests; tenants are counted from 0.
    #[must_use]
    pub fn guests(&self, tenant: usize) -> &[Guest] {
        &self.tenants[tenant]
    }

    /// The daemon of all tenants.
    #[must_use]
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// The ends of the consoles and of the daemon's log.
    #[must_use]
    pub fn logs(&self) -> String {
        let daemon = format!("--- daemon\n{}\n", self.daemon.log_tail());
        let consoles = self
            .tenants
            .iter()
            .enumerate()
            .flat_map(|(tenant, guests)| {
                guests.iter().map(move |guest| {
                    let (tenant, name) = (tenant + 1, guest.name());
                    format!(
                        "--- tenant {tenant}, guest {name}\n{}\n",
                        guest.console_tail()
                    )
                })
            });
        consoles.chain([daemon]).collect()
    }
}

impl ClusterConfig {
    fn tenant(&self, tenant: u8) -> PortGroup {
        let adapter = |guest| Adapter {
            name: adapter_name(tenant, guest),
            mac: mac(tenant, guest),
            user: User::Guest(DoorbellMode::default()),
            is_away: false,
        };
        PortGroup {
            name: format!("t{tenant}"),
            adapters: (1..=self.guests).map(adapter).collect(),
        }
    }

    fn guest(&self, tenant: u8, guest: u8, run_dir: &Path) -> Result<GuestConfig> {
        let folder = run_dir.join(format!("t{tenant}"));
        fs::create_dir_all(&folder)?;
        let adapter = adapter_name(tenant, guest);
        let addresses = (1..=self.guests)
            .map(|guest| (guest_name(guest).to_uppercase(), address(guest).to_string()))
            .collect();
        Ok(GuestConfig {
            name: guest_name(guest),
            kind: Kind::Vrdma,
            address: address(guest),
            mac: mac(tenant, guest),
            memory_mib: self.memory_mib,
            processors: self.processors,
            ethernet: Ethernet::Switch(ethernet_socket(run_dir, &adapter)),
            vfio_user: Some(vfio_user_socket(run_dir, &adapter)),
            second: None,
            host: None,
            verbs: None,
            mtu: None,
            host_cpus: None,
            run_dir: folder,
            variables: addresses,
            lifetime: Lifetime::Owned,
            incoming: false,
            libvirt: false,
        })
    }
}

fn booting() -> usize {
    thread::available_parallelism().map_or(BOOTING, |cores| cores.get() * BOOTING)
}

/// A guest's name: a to z, then aa to az; guests and tenants are counted from 1 here.
#[must_use]
pub fn guest_name(guest: u8) -> String {
    let letter = char::from(b'a' + (guest - 1) % LETTERS);
    match guest {
        1..=LETTERS => letter.to_string(),
        _ => format!("a{letter}"),
    }
}

fn adapter_name(tenant: u8, guest: u8) -> String {
    format!("{}{tenant}", guest_name(guest))
}

fn mac(tenant: u8, guest: u8) -> String {
    format!("52:54:00:00:{tenant:02x}:{guest:02x}")
}

fn address(guest: u8) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::new(10, 10, 0, guest)
}

/// Waits for all guests at the same time: they boot in parallel, and their set-up should too.
fn wait_all(guests: &[Guest], count: u8) -> Result<()> {
    thread::scope(|scope| {
        let ready: Vec<_> = guests
            .iter()
            .map(|guest| {
                scope.spawn(move || {
                    guest.wait_ready()?;
                    guest.check(&know_each_other(count)).map(|_| ())
                })
            })
            .collect();
        for waiter in ready {
            waiter.join().expect("waiting does not panic")?;
        }
        Ok(())
    })
}

/// A command that makes the guests know each other by name: the image knows only two.
fn know_each_other(count: u8) -> String {
    let lines: Vec<String> = (1..=count)
        .map(|guest| format!("{} {}", address(guest), guest_name(guest)))
        .collect();
    format!(
        "printf '127.0.0.1 localhost\\n{}\\n' > /etc/hosts",
        lines.join("\\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ClusterConfig {
        ClusterConfig {
            program: PathBuf::new(),
            tenants: 4,
            guests: 2,
            processors: 1,
            memory_mib: 512,
        }
    }

    #[test]
    fn tenants_share_names_and_addresses_but_no_adapter() {
        let folder = tempfile::tempdir().unwrap();
        let guest = |tenant| config().guest(tenant, 2, folder.path()).unwrap();
        let (one, other) = (guest(1), guest(2));
        assert_eq!((&one.name, one.address), (&other.name, other.address));
        assert_ne!(one.mac, other.mac);
        assert_ne!(one.vfio_user, other.vfio_user);
        assert_ne!(one.file("agent"), other.file("agent"));
        assert_eq!(config().tenant(2).adapters[1].mac, other.mac);
    }

    #[test]
    fn no_two_guests_have_the_same_name() {
        let names: std::collections::BTreeSet<String> = (1..=GUESTS_MAX).map(guest_name).collect();
        assert_eq!(names.len(), usize::from(GUESTS_MAX));
        assert_eq!([1, 26, 27, 52].map(guest_name), ["a", "z", "aa", "az"]);
    }

    #[test]
    fn every_guest_knows_all_names() {
        assert_eq!(
            know_each_other(2),
            "printf '127.0.0.1 localhost\\n10.10.0.1 a\\n10.10.0.2 b\\n' > /etc/hosts"
        );
    }
}
