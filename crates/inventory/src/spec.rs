//! What the data path is told of adapters, of uplinks and of its own settings: plain values.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use vrdma_api::{AdapterKind, Addresses, DoorbellMode, Interface, Name, PollMode, Vlan, Vni};
use vrdma_process::Admitted;
use vrdma_switch::{GroupId, Kept, Policy, PortId, UplinkId};
use vrdma_uplink::{FaultSpec, Keys};
use vrdma_wire::{Gid, Mac};

use crate::sockets::Sockets;

/// Marks of a port group's frames outside the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// 802.1Q tag on raw uplinks; untagged if `None`.
    pub vlan: Option<Vlan>,
    /// VXLAN network in tunnels; without one, the group is not carried by them.
    pub vni: Option<Vni>,
}

/// The medium of an uplink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Medium {
    /// A network interface.
    Raw {
        /// Its name.
        interface: Interface,
    },
    /// VXLAN over UDP.
    Tunnel {
        /// The local end.
        listen: SocketAddr,
    },
}

/// An uplink as the data path needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UplinkSpec {
    /// Its number in the switch.
    pub id: UplinkId,
    /// Name for log lines.
    pub name: Name,
    /// Medium to open.
    pub medium: Medium,
    /// Faults to inject.
    pub faults: Option<FaultSpec>,
}

/// An adapter as the data path needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdapterSpec {
    /// Name for log lines.
    pub name: Name,
    /// Its number in the switch: small, and free for another adapter once this one is removed.
    pub port: PortId,
    /// Its port group's number.
    pub group: GroupId,
    /// Marks of that group's frames on uplinks.
    pub segment: Segment,
    /// Ethernet address, from which node GUID and default GID follow.
    pub mac: Mac,
    /// Whether its Ethernet side may send RoCEv2 as well.
    pub may_send_roce: bool,
    /// Kind of its users.
    pub kind: AdapterKind,
    /// Shard that serves it; if `None`, the one with the fewest adapters.
    pub shard: Option<u16>,
    /// Whether its VM is on another host.
    pub away: bool,
    /// Its limits. The control plane changes them while the data path uses them.
    pub policy: Arc<Policy>,
    /// Users and groups that may use it at first.
    pub admitted: Admitted,
    /// Its port group, for queries.
    pub portgroup: Name,
    /// Its IP addresses, if it was given any; only a VM's adapter can have several.
    pub ip: Addresses,
    /// How doorbells arrive.
    pub doorbells: DoorbellMode,
    /// Paths that QEMU and processes connect to.
    pub sockets: Sockets,
}

impl AdapterSpec {
    /// Returns the addresses of a process adapter: the link-local one of its MAC, and that of the control plane (RoCEv2
    /// annex A17.4.1).
    pub fn addresses(&self) -> Vec<Gid> {
        [Gid::link_local(self.mac)]
            .into_iter()
            .chain(gids(&self.ip))
            .collect()
    }

    /// Returns the addresses that a VM's guest may use.
    pub fn kept(&self) -> Kept {
        match self.kind {
            AdapterKind::Vm => kept(&self.ip),
            AdapterKind::Process | AdapterKind::Tap => Kept::Any,
        }
    }

    /// Returns the address of an adapter that is not a VM's, if it was given one.
    pub fn only_ip(&self) -> Option<IpAddr> {
        self.ip.as_slice().first().copied()
    }
}

/// Converts addresses to GIDs (RoCEv2 annex A17.4.1).
fn gids(addresses: &Addresses) -> impl Iterator<Item = Gid> {
    addresses.as_slice().iter().map(|ip| match ip {
        IpAddr::V4(v4) => Gid::from_ipv4(*v4),
        IpAddr::V6(v6) => Gid(v6.octets()),
    })
}

/// Returns what a guest with these addresses is kept to; without any, it may use all.
pub fn kept(addresses: &Addresses) -> Kept {
    match addresses {
        Addresses::Learned => Kept::Learned,
        Addresses::Stated(all) if all.is_empty() => Kept::Any,
        Addresses::Stated(_) => Kept::Stated(gids(addresses).collect()),
    }
}

/// How the shards run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardOptions {
    /// For each shard, the core that it has to itself.
    pub cores: Vec<Option<u32>>,
    /// How shards wait for work.
    pub poll: PollMode,
    /// Whether processes of the daemon's own user are trusted in containers, too.
    pub trusts_own_user: bool,
    /// Whether programs get `/dev/userfaultfd`, if the daemon may open it.
    pub hands_out_userfaultfd: bool,
}

impl ShardOptions {
    /// Returns options for this number of shards, which the scheduler places.
    pub fn unpinned(shards: u16) -> Self {
        Self {
            cores: vec![None; usize::from(shards)],
            poll: PollMode::default(),
            trusts_own_user: false,
            hands_out_userfaultfd: false,
        }
    }
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self::unpinned(1)
    }
}

/// How contexts of VMs that migrate are sent from daemon to daemon.
#[derive(Clone, Debug)]
pub struct MigrationSpec {
    /// Address to which others bring their contexts.
    pub listen: SocketAddr,
    /// Keys that all these daemons share.
    pub keys: Keys,
}
