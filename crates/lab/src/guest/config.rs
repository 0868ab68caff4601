//! The configuration of a guest.

use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};

use crate::namespace::Entry;
use crate::place::Preload;
use crate::process::{Lifetime, copied};

/// Longest path of a Unix socket, in bytes: `sun_path` less its final zero.
pub const MAX_SOCKET_PATH: usize = 107;

/// The way in which a guest does RDMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// VMware's PVRDMA device, served by the daemon.
    Vrdma,
    /// Linux's software RoCE over the network card.
    Rxe,
    /// No RDMA.
    Tcp,
    /// A function of the host's hardware that is lent to the guest.
    Hca,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Vrdma => "vrdma",
            Self::Rxe => "rxe",
            Self::Tcp => "tcp",
            Self::Hca => "hca",
        })
    }
}

impl FromStr for Kind {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let kinds = [Self::Vrdma, Self::Rxe, Self::Tcp, Self::Hca];
        match kinds.into_iter().find(|kind| kind.to_string() == name) {
            Some(kind) => Ok(kind),
            None => bail!("no such kind of guest: {name}; it may be vrdma, rxe, tcp or hca"),
        }
    }
}

/// The network that a guest's card is plugged into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ethernet {
    /// A stream socket on which another program (the daemon) listens.
    Switch(PathBuf),
    /// Straight into another guest: each names its own and the other's datagram socket.
    Peer {
        /// This guest's, made by its QEMU.
        own: PathBuf,
        /// The other guest's.
        other: PathBuf,
    },
    /// A TAP of the guest's host: the card is virtio-net, as outside the lab.
    Tap {
        /// The TAP's name.
        interface: &'static str,
        /// Whether the guest may leave segments and checksums to the other end, which only another kernel accepts.
        offloads: bool,
    },
    /// A function of the host, bound to vfio-pci, instead of a card of QEMU: its PCI address.
    Lent(String),
    /// A card with virtual functions behind an IOMMU, plugged into nothing: the guest can lend them to guests of its
    /// own.
    Functions,
}

/// A second card and PVRDMA device, both served by the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondAdapter {
    /// The card's address in another /24.
    pub address: Ipv4Addr,
    /// The card's MAC address, as [`GuestConfig::mac`].
    pub mac: String,
    /// The card's socket at the daemon.
    pub ethernet: PathBuf,
    /// The device's socket.
    pub vfio_user: PathBuf,
}

/// A guest to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestConfig {
    /// Its name and that of its files; `a` or `b` in a pair.
    pub name: String,
    /// How it does RDMA.
    pub kind: Kind,
    /// Its address in a /24.
    pub address: Ipv4Addr,
    /// The MAC address of its network card, as six pairs of digits with colons.
    pub mac: String,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Virtual processors.
    pub processors: u32,
    /// The network that its card is plugged into.
    pub ethernet: Ethernet,
    /// The PVRDMA device's socket, for [`Kind::Vrdma`].
    pub vfio_user: Option<PathBuf>,
    /// Another card and PVRDMA device.
    pub second: Option<SecondAdapter>,
    /// The network namespace of its QEMU, if not this process's.
    pub host: Option<Entry>,
    /// The verbs library that its QEMU itself uses, on that host.
    pub verbs: Option<Preload>,
    /// The MTU of its card, if not 1500.
    pub mtu: Option<u16>,
    /// Host processors that its QEMU may use, as `taskset --cpu-list` takes them.
    pub host_cpus: Option<String>,
    /// Folder of its sockets and logs: `NAME.agent`, `NAME.console`, `NAME.qmp`, `NAME.qemu.log`.
    pub run_dir: PathBuf,
    /// Lines of `NAME=value` for the environment of its commands.
    pub variables: Vec<(String, String)>,
    /// Whether it ends with this process.
    pub lifetime: Lifetime,
    /// Whether it comes from another QEMU by a migration, instead of booting.
    pub incoming: bool,
    /// Whether its QEMU is started and watched by a libvirt of its own.
    pub libvirt: bool,
}

impl GuestConfig {
    /// Its file of one kind, such as `console`.
    #[must_use]
    pub fn file(&self, kind: &str) -> PathBuf {
        file(&self.run_dir, &self.name, kind)
    }

    pub(super) fn check(&self) -> Result<()> {
        let ours = [self.file("agent"), self.file("qmp")];
        let network = match &self.ethernet {
            Ethernet::Switch(path) => vec![path],
            Ethernet::Peer { own, other } => vec![own, other],
            Ethernet::Tap { .. } | Ethernet::Lent(_) | Ethernet::Functions => Vec::new(),
        };
        let second = self.second.iter();
        let second = second.flat_map(|second| [&second.ethernet, &second.vfio_user]);
        let paths = ours.iter().chain(network).chain(&self.vfio_user);
        for path in paths.chain(second) {
            check_socket_path(path)?;
        }
        let is_alone = matches!(self.ethernet, Ethernet::Lent(_) | Ethernet::Functions);
        ensure!(
            !is_alone || self.vfio_user.is_none(),
            "guest {}: a card of the host's, or one with virtual functions, takes the place of the PVRDMA adapter",
            self.name
        );
        ensure!(
            (self.kind == Kind::Vrdma) == self.vfio_user.is_some(),
            "guest {}: a vfio-user socket goes with kind vrdma and with no other",
            self.name
        );
        Ok(())
    }

    pub(super) fn environment(&self) -> String {
        let own = [("NAME", self.name.clone()), ("KIND", self.kind.to_string())];
        let own = own
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        own.chain(self.variables.clone())
            .map(|(name, value)| format!("{name}='{value}'\n"))
            .collect()
    }

    /// Runs the command on this guest's host processors and in its host.
    pub(super) fn placed(&self, command: &Command) -> Command {
        let mut placed = copied(Command::new(command.get_program()), command);
        if let Some(cpus) = &self.host_cpus {
            let mut taskset = Command::new("taskset");
            taskset.args(["--cpu-list", cpus]).arg(placed.get_program());
            placed = copied(taskset, &placed);
        }
        match (&self.verbs, &self.host) {
            (Some(verbs), _) => verbs.command(&placed),
            (None, Some(host)) => host.command(&placed),
            (None, None) => placed,
        }
    }
}

pub(super) fn file(run_dir: &Path, name: &str, kind: &str) -> PathBuf {
    run_dir.join(format!("{name}.{kind}"))
}

/// Refuses a path that the system would truncate or reject with an obscure error.
///
/// # Errors
/// When it is too long for a Unix socket.
pub fn check_socket_path(path: &Path) -> Result<()> {
    let length = path.as_os_str().len();
    ensure!(
        length <= MAX_SOCKET_PATH,
        "{} has {length} bytes; a Unix socket's path may have {MAX_SOCKET_PATH}: choose a shorter folder (TMPDIR or XDG_RUNTIME_DIR)",
        path.display()
    );
    Ok(())
}
