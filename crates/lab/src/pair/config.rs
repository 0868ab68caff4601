//! The configuration of a pair.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use vrdma_api::DoorbellMode;

use crate::daemon::{Adapter, User, ethernet_socket, vfio_user_socket};
use crate::guest::{Ethernet, GuestConfig, Kind, SecondAdapter};
use crate::namespace::Entry;
use crate::place::Preload;
use crate::process::Lifetime;
use crate::wire::{TAP, WireConfig};

/// A guest of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The server's guest, 10.10.0.1.
    A,
    /// The client's guest, 10.10.0.2.
    B,
}

impl Side {
    /// The name of its guest and of its adapter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// Its guest's address.
    #[must_use]
    pub const fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 10, 0, self.number())
    }

    /// Its second adapter's name.
    #[must_use]
    pub const fn second_name(self) -> &'static str {
        match self {
            Self::A => "a2",
            Self::B => "b2",
        }
    }

    const fn second_address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 10, 1, self.number())
    }

    /// The other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.number() - 1)
    }

    const fn number(self) -> u8 {
        match self {
            Self::A => 1,
            Self::B => 2,
        }
    }

    /// The address of its host's QEMUs, for RDMA of their own.
    #[must_use]
    pub const fn qemus_address(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 10, 0, 100 + self.number())
    }

    fn mac(self) -> String {
        mac(self.number())
    }

    fn second_mac(self) -> String {
        format!("52:54:00:00:02:{:02x}", self.number())
    }

    fn qemus_mac(self) -> String {
        format!("52:54:00:00:01:{:02x}", self.number())
    }
}

/// The MAC address of a guest's first card.
fn mac(number: u8) -> String {
    format!("52:54:00:00:00:{number:02x}")
}

/// The adapter for processes that the QEMUs of a host, or its relays, have for themselves.
pub const QEMUS: &str = "qemus";

/// What connects the guests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Network {
    /// A daemon of this program.
    Daemon(PathBuf),
    /// The other guest's network card; not for [`Kind::Vrdma`].
    Direct,
    /// Functions of the host, bound to vfio-pci, which reach each other: the PCI address of each guest's function. Not
    /// for [`Kind::Vrdma`].
    Lent([String; 2]),
    /// A wire between two hosts. Guests of [`Kind::Vrdma`] have a daemon on their host, others a TAP on the wire.
    Wire {
        /// The daemon's program.
        program: PathBuf,
        /// The wire.
        wire: WireConfig,
    },
}

/// A pair to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairConfig {
    /// The kinds of guests a and b.
    pub kinds: [Kind; 2],
    /// Virtual processors of each.
    pub processors: u32,
    /// Memory of each in MiB.
    pub memory_mib: u32,
    /// How adapters' doorbells work.
    pub doorbells: DoorbellMode,
    /// The network between them.
    pub network: Network,
    /// Host processors of each, as [`GuestConfig::host_cpus`].
    pub host_cpus: [Option<String>; 2],
    /// Whether daemon and guests end with this process.
    pub lifetime: Lifetime,
    /// Whether the daemon of [`Network::Daemon`] has a keeper.
    pub supervised: bool,
    /// Whether each daemon of [`Network::Wire`] has the adapters of both guests, so that a guest can move to the other
    /// host.
    pub travels: bool,
    /// Whether each guest has two adapters.
    pub second_adapters: bool,
    /// Whether each host of [`Network::Wire`] has an adapter for its own processes.
    pub host_adapters: bool,
    /// `libibverbs.so.1`, which the QEMUs of [`Network::Wire`] load in front of theirs, with such an adapter.
    pub qemu_verbs: Option<PathBuf>,
    /// Whether each QEMU is started and watched by a libvirt of its own.
    pub libvirt: bool,
    /// Whether a third guest, of [`Kind::Rxe`], is on host b of [`Network::Wire`] beside guest b.
    pub rxe_beside: bool,
}

/// The third guest's name.
const BESIDE: &str = "c";

/// The third guest's number in addresses.
const BESIDE_NUMBER: u8 = 3;

impl PairConfig {
    /// Two PVRDMA guests of the usual size.
    #[must_use]
    pub fn new(network: Network) -> Self {
        Self {
            kinds: [Kind::Vrdma; 2],
            processors: 1,
            memory_mib: 512,
            doorbells: DoorbellMode::default(),
            network,
            host_cpus: [None, None],
            lifetime: Lifetime::Owned,
            supervised: false,
            travels: false,
            second_adapters: false,
            host_adapters: false,
            qemu_verbs: None,
            libvirt: false,
            rxe_beside: false,
        }
    }

    /// The wire between two hosts, if there are two.
    #[must_use]
    pub fn wire(&self) -> Option<&WireConfig> {
        match &self.network {
            Network::Wire { wire, .. } => Some(wire),
            Network::Daemon(_) | Network::Direct | Network::Lent(_) => None,
        }
    }

    /// Whether a guest is on the wire without a daemon.
    pub(super) fn has_tap(&self, side: Side) -> bool {
        self.wire().is_some() && self.kinds[side.index()] != Kind::Vrdma
    }

    /// Whether a host's cable is in a bridge: with a guest's TAP, and with the daemon if there is one.
    pub(super) fn has_bridge(&self, host: Side) -> bool {
        self.has_tap(host) || (self.rxe_beside && host == Side::B)
    }

    /// Folder of a side's daemon; on one host both sides have the same.
    pub(super) fn daemon_dir(&self, side: Side, run_dir: &Path) -> PathBuf {
        match self.network {
            Network::Wire { .. } => run_dir.join(side.name()),
            Network::Daemon(_) | Network::Direct | Network::Lent(_) => run_dir.to_owned(),
        }
    }

    fn ethernet(&self, side: Side, run_dir: &Path) -> Ethernet {
        let socket = || ethernet_socket(&self.daemon_dir(side, run_dir), side.name());
        match (&self.network, side) {
            (Network::Daemon(_), _) => Ethernet::Switch(socket()),
            (Network::Lent(addresses), side) => Ethernet::Lent(addresses[side.index()].clone()),
            (Network::Direct, Side::A) => peer(run_dir, "a", "b"),
            (Network::Direct, Side::B) => peer(run_dir, "b", "a"),
            (Network::Wire { .. }, _) if self.has_tap(side) => Ethernet::Tap {
                interface: TAP,
                offloads: self.has_tap(side.other()),
            },
            (Network::Wire { .. }, _) => Ethernet::Switch(socket()),
        }
    }

    /// The configuration of a guest that is to come to the daemon of another host, which has the folder `daemon_dir`.
    /// The guest's files are in `run_dir`.
    pub(super) fn incoming(
        &self,
        guest: Side,
        daemon_dir: &Path,
        run_dir: &Path,
        folder: PathBuf,
        host: Entry,
    ) -> GuestConfig {
        GuestConfig {
            ethernet: Ethernet::Switch(ethernet_socket(daemon_dir, guest.name())),
            vfio_user: Some(vfio_user_socket(daemon_dir, guest.name())),
            second: self.second(guest, daemon_dir),
            verbs: self.verbs(daemon_dir, &host),
            run_dir: folder,
            incoming: true,
            ..self.guest(guest, run_dir, Some(host))
        }
    }

    pub(super) fn guest(&self, side: Side, run_dir: &Path, host: Option<Entry>) -> GuestConfig {
        let index = side.index();
        let (name, kind) = (side.name(), self.kinds[index]);
        let daemon_dir = self.daemon_dir(side, run_dir);
        let variables = [Side::A, Side::B].map(|side| {
            [
                (side.name().to_uppercase(), side.address().to_string()),
                (
                    side.second_name().to_uppercase(),
                    side.second_address().to_string(),
                ),
            ]
        });
        GuestConfig {
            name: name.to_owned(),
            kind,
            address: side.address(),
            mac: side.mac(),
            memory_mib: self.memory_mib,
            processors: self.processors,
            ethernet: self.ethernet(side, run_dir),
            vfio_user: (kind == Kind::Vrdma).then(|| vfio_user_socket(&daemon_dir, name)),
            second: self.second(side, &daemon_dir),
            verbs: host.as_ref().and_then(|host| self.verbs(&daemon_dir, host)),
            host,
            mtu: self.wire().map(WireConfig::guest_mtu),
            host_cpus: self.host_cpus[index].clone(),
            run_dir: run_dir.to_owned(),
            variables: variables.concat(),
            lifetime: self.lifetime,
            incoming: false,
            libvirt: self.libvirt,
        }
    }

    /// The third guest, on host b.
    pub(super) fn beside(&self, run_dir: &Path, host: Entry) -> GuestConfig {
        GuestConfig {
            name: BESIDE.to_owned(),
            kind: Kind::Rxe,
            address: Ipv4Addr::new(10, 10, 0, BESIDE_NUMBER),
            mac: mac(BESIDE_NUMBER),
            ethernet: Ethernet::Tap {
                interface: TAP,
                offloads: false,
            },
            vfio_user: None,
            second: None,
            verbs: None,
            host_cpus: None,
            ..self.guest(Side::B, run_dir, Some(host))
        }
    }

    /// The verbs of a QEMU on a host, whose daemon has that folder.
    pub(super) fn verbs(&self, daemon_dir: &Path, host: &Entry) -> Option<Preload> {
        let library = self.qemu_verbs.clone()?;
        Some(Preload {
            host: host.clone(),
            adapter: QEMUS.to_owned(),
            run_dir: daemon_dir.to_owned(),
            library,
            variables: Vec::new(),
        })
    }

    /// The adapter that the QEMUs of a host have for themselves, if any.
    pub(super) fn qemus_adapter(&self, host: Side) -> Option<Adapter> {
        let is_there = self.host_adapters || self.qemu_verbs.is_some();
        is_there.then(|| Adapter {
            name: QEMUS.to_owned(),
            mac: host.qemus_mac(),
            user: User::Processes(host.qemus_address()),
            is_away: false,
        })
    }

    /// The second adapter of a guest, if it has one.
    fn second(&self, side: Side, daemon_dir: &Path) -> Option<SecondAdapter> {
        let name = side.second_name();
        self.second_adapters.then(|| SecondAdapter {
            address: side.second_address(),
            mac: side.second_mac(),
            ethernet: ethernet_socket(daemon_dir, name),
            vfio_user: vfio_user_socket(daemon_dir, name),
        })
    }

    /// All adapters of a guest.
    pub(super) fn adapters(&self, side: Side) -> Vec<Adapter> {
        let second = self.second_adapters.then(|| Adapter {
            name: side.second_name().to_owned(),
            mac: side.second_mac(),
            ..self.adapter(side)
        });
        [self.adapter(side)].into_iter().chain(second).collect()
    }

    /// The same adapters on a host to which the guest may come.
    pub(super) fn away(&self, side: Side) -> Vec<Adapter> {
        let mut adapters = self.adapters(side);
        adapters.iter_mut().for_each(|it| it.is_away = true);
        adapters
    }

    pub(super) fn adapter(&self, side: Side) -> Adapter {
        Adapter {
            name: side.name().to_owned(),
            mac: side.mac(),
            user: match self.kinds[side.index()] {
                Kind::Rxe => User::GuestStack,
                _ => User::Guest(self.doorbells),
            },
            is_away: false,
        }
    }
}

fn peer(run_dir: &Path, own: &str, other: &str) -> Ethernet {
    let socket = |name: &str| run_dir.join(format!("{name}.peer"));
    Ethernet::Peer {
        own: socket(own),
        other: socket(other),
    }
}
