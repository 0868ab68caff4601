//! Two hosts joined by a cable: network namespaces and the veth pair between them.
//!
//! ```text
//!   host a                                     host b
//!   vrdmad --raw or tunnel--> wire ======= wire <--raw or tunnel-- vrdmad
//!                             192.0.2.1   192.0.2.2
//!   or, for a guest that brings its own RDMA:
//!   QEMU --tap--> lan (bridge) --wire itself (raw)-------------> wire ...
//!                              `-vxlan (tunnel) over 192.0.2.x-> wire ...
//! ```

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};

use crate::namespace::{Entry, Namespace};
use crate::pair::Side;
use crate::process::Lifetime;

/// The name of the cable's end in each host.
pub const INTERFACE: &str = "wire";

/// The TAP of a guest's card in its host, for a guest that is on the wire without a daemon.
pub const TAP: &str = "tap";

/// A daemon's port of the bridge, in a host whose cable is in a bridge.
pub const PORT: &str = "port";

/// The VXLAN network of the guests in tunnels.
pub const VNI: u32 = 100;

const VXLAN_PORT: u16 = 4789;

const MIGRATION_PORT: u16 = 4793;

/// Outer Ethernet, IPv4, UDP and VXLAN headers (RFC 7348) before the inner IP packet.
const TUNNEL_BYTES: u16 = 50;

/// Bytes that sealing adds.
const SEAL_BYTES: u16 = 32;

/// Largest MTU that both vmxnet3 and virtio-net accept.
const GUEST_MTU_MAX: u16 = 9000;

/// The smallest MTU that leaves a guest inside a tunnel the 576 bytes of every IPv4 host.
const MTU_MIN: u16 = 576 + TUNNEL_BYTES + SEAL_BYTES;

/// How frames of guests travel between the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Uplink {
    /// Unchanged.
    #[default]
    Raw,
    /// In VXLAN.
    Tunnel,
    /// In VXLAN, sealed with a key that both hosts share.
    Sealed,
}

/// The wire to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireConfig {
    /// How frames travel.
    pub uplink: Uplink,
    /// The cable's MTU.
    pub mtu: u16,
    /// Faults of the daemons' uplinks, as in their configuration (`loss=1%,delay=1ms`); empty for none.
    pub faults: String,
}

/// Two hosts; dropping it ends them, unless they are to be kept.
#[derive(Debug)]
pub struct WiredHosts {
    hosts: [Namespace; 2],
    config: WireConfig,
}

impl Default for WireConfig {
    fn default() -> Self {
        Self {
            uplink: Uplink::default(),
            mtu: 1500,
            faults: String::new(),
        }
    }
}

impl WireConfig {
    /// The MTU of guests' cards.
    #[must_use]
    pub fn guest_mtu(&self) -> u16 {
        let room = match self.uplink {
            Uplink::Raw => self.mtu,
            Uplink::Tunnel => self.mtu - TUNNEL_BYTES,
            Uplink::Sealed => self.mtu - TUNNEL_BYTES - SEAL_BYTES,
        };
        room.min(GUEST_MTU_MAX)
    }

    /// Refuses a wire that could not carry guests' packets.
    ///
    /// # Errors
    /// When the MTU is too small.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.mtu >= MTU_MIN,
            "an MTU of {} is too small: guests need {MTU_MIN}",
            self.mtu
        );
        Ok(())
    }
}

impl WiredHosts {
    /// Makes both hosts and the cable.
    ///
    /// # Errors
    /// When this user may not, or the kernel lacks veth.
    pub fn create(config: &WireConfig, run_dir: &Path, lifetime: Lifetime) -> Result<Self> {
        config.check()?;
        let a = Namespace::create("host-a", run_dir, lifetime)?;
        let b = a.create_beside("host-b", run_dir, lifetime)?;
        let pair = format!(
            "link add {INTERFACE} type veth peer name {INTERFACE} netns {}\n",
            b.entry().id()
        );
        a.entry().ip(&pair).context("cannot make a veth pair")?;
        let wire = Self {
            hosts: [a, b],
            config: config.clone(),
        };
        for side in [Side::A, Side::B] {
            wire.host(side).ip(&plugged(config, side))?;
        }
        Ok(wire)
    }

    /// Puts a guest's card on the wire: [`TAP`], bridged.
    ///
    /// # Errors
    /// When the kernel lacks TAP, bridge or VXLAN.
    pub fn add_tap(&self, side: Side) -> Result<()> {
        ensure!(
            self.config.uplink != Uplink::Sealed,
            "Linux's VXLAN does not seal: use raw or tunnel with rxe"
        );
        let commands = bridged(&self.config, side);
        self.host(side)
            .ip(&commands)
            .context("cannot bridge a guest's card to the wire")
    }

    /// The same, with a port of that bridge for a daemon: [`PORT`].
    ///
    /// # Errors
    /// As [`WiredHosts::add_tap`], and when the wire is not raw: the daemon would share its tunnel with the kernel.
    pub fn add_tap_and_port(&self, side: Side) -> Result<()> {
        ensure!(
            self.config.uplink == Uplink::Raw,
            "a host with a daemon and a guest of another kind has a raw uplink only"
        );
        self.add_tap(side)?;
        let commands = format!(
            "link add {PORT} type veth peer name lan-{PORT}\n\
             link set {PORT} mtu {mtu} addrgenmode none\n\
             link set lan-{PORT} mtu {mtu} addrgenmode none\n\
             link set lan-{PORT} master lan\n\
             link set lan-{PORT} up\n\
             link set {PORT} up\n",
            mtu = self.config.mtu
        );
        let added = self.host(side).ip(&commands);
        added.context("cannot plug a daemon into the bridge")
    }

    /// The configuration of the wire.
    #[must_use]
    pub fn config(&self) -> &WireConfig {
        &self.config
    }

    /// The way into a host.
    #[must_use]
    pub fn host(&self, side: Side) -> &Entry {
        self.hosts[side.index()].entry()
    }

    /// The processes that keep the hosts alive.
    pub(crate) fn processes(&self) -> impl Iterator<Item = u32> {
        self.hosts.iter().map(Namespace::process_id)
    }
}

/// A host's address on the cable.
#[must_use]
pub fn address(side: Side) -> Ipv4Addr {
    match side {
        Side::A => Ipv4Addr::new(192, 0, 2, 1),
        Side::B => Ipv4Addr::new(192, 0, 2, 2),
    }
}

/// The address at which a host takes tunnelled frames.
#[must_use]
pub fn tunnel_end(side: Side) -> SocketAddr {
    (address(side), VXLAN_PORT).into()
}

/// The address at which a host's daemon takes adapters of VMs that migrate.
#[must_use]
pub fn migration_end(side: Side) -> SocketAddr {
    (address(side), MIGRATION_PORT).into()
}

/// The same address for a daemon beside it.
#[must_use]
pub fn spare_migration_end(side: Side) -> SocketAddr {
    (address(side), MIGRATION_PORT + 1).into()
}

/// Commands that set up a host's end. Without `addrgenmode none`, guests would hear the host announce itself by IPv6.
fn plugged(config: &WireConfig, side: Side) -> String {
    format!(
        "link set lo up\n\
         link set {INTERFACE} mtu {} addrgenmode none\n\
         address add {}/24 dev {INTERFACE}\n\
         link set {INTERFACE} up\n",
        config.mtu,
        address(side)
    )
}

fn bridged(config: &WireConfig, side: Side) -> String {
    let (port, tunnel) = match config.uplink {
        Uplink::Raw => (INTERFACE, String::new()),
        Uplink::Tunnel | Uplink::Sealed => (
            "vxlan",
            // From one port, as the daemon sends: it takes frames from no other.
            format!(
                "link add vxlan type vxlan id {VNI} local {} remote {} srcport {VXLAN_PORT} {} dstport {VXLAN_PORT}\n",
                address(side),
                address(side.other()),
                VXLAN_PORT + 1
            ),
        ),
    };
    let guest = config.guest_mtu();
    let mut commands = format!(
        "{tunnel}\
         tuntap add {TAP} mode tap\n\
         link set {TAP} mtu {guest} addrgenmode none\n\
         link add lan type bridge\n\
         link set lan addrgenmode none\n"
    );
    for port in [TAP, port] {
        commands.push_str(&format!("link set {port} master lan\nlink set {port} up\n"));
    }
    commands.push_str("link set lan up\n");
    commands
}

impl fmt::Display for Uplink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Raw => "raw",
            Self::Tunnel => "tunnel",
            Self::Sealed => "sealed",
        })
    }
}

impl FromStr for Uplink {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "raw" => Ok(Self::Raw),
            "tunnel" => Ok(Self::Tunnel),
            "sealed" => Ok(Self::Sealed),
            _ => bail!("an uplink is raw, tunnel or sealed, not {name}"),
        }
    }
}

#[cfg(test)]
mod tests;
