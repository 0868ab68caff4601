//! What the data path is told of an adapter, an uplink and of itself: plain values.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use vrdma_api::{AdapterKind, Addresses, DoorbellMode, Interface, Name, PollMode, Vlan, Vni};
use vrdma_process::Admitted;
use vrdma_switch::{GroupId, Kept, Policy, PortId, UplinkId};
use vrdma_uplink::{FaultSpec, Keys};
use vrdma_wire::{Gid, Mac};

use crate::sockets::Sockets;

/// What marks a port group's frames outside the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// 802.1Q tag on raw uplinks; none is untagged.
    pub vlan: Option<Vlan>,
    /// VXLAN network in tunnels; without one the group stays out of them.
    pub vni: Option<Vni>,
}

/// What an uplink is made of.
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
    /// For log lines.
    pub name: Name,
    /// What to open.
    pub medium: Medium,
    /// Faults to play.
    pub faults: Option<FaultSpec>,
}

/// An adapter as the data path needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdapterSpec {
    /// For log lines.
    pub name: Name,
    /// Its number in the switch: small, and free for another adapter once this one is removed.
    pub port: PortId,
    /// Its port group's number.
    pub group: GroupId,
    /// What marks that group's frames on uplinks.
    pub segment: Segment,
    /// Ethernet address, from which node GUID and default GID follow.
    pub mac: Mac,
    /// Its Ethernet side may send RoCEv2 as well.
    pub may_send_roce: bool,
    /// Who uses it.
    pub kind: AdapterKind,
    /// The shard that serves it; without one, that with the fewest adapters.
    pub shard: Option<u16>,
    /// Its VM is on another host.
    pub away: bool,
    /// What limits it. The control plane changes it while the data path goes by it.
    pub policy: Arc<Policy>,
    /// Who may use it at first.
    pub admitted: Admitted,
    /// Its port group, for whoever asks.
    pub portgroup: Name,
    /// Its IP addresses, as far as it was given some; several only of a VM.
    pub ip: Addresses,
    /// How doorbells arrive.
    pub doorbells: DoorbellMode,
    /// Where QEMU and processes connect to it.
    pub sockets: Sockets,
}

impl AdapterSpec {
    /// The addresses of an adapter of processes: its MAC's link-local one and that of the control
    /// plane (RoCEv2 annex A17.4.1).
    pub fn addresses(&self) -> Vec<Gid> {
        [Gid::link_local(self.mac)]
            .into_iter()
            .chain(gids(&self.ip))
            .collect()
    }

    /// What a VM's guest is kept to.
    pub fn kept(&self) -> Kept {
        match self.kind {
            AdapterKind::Vm => kept(&self.ip),
            AdapterKind::Process | AdapterKind::Tap => Kept::Any,
        }
    }

    /// The address of an adapter that is not a VM's, if it was given one.
    pub fn only_ip(&self) -> Option<IpAddr> {
        self.ip.as_slice().first().copied()
    }
}

/// Addresses as GIDs (RoCEv2 annex A17.4.1).
fn gids(addresses: &Addresses) -> impl Iterator<Item = Gid> {
    addresses.as_slice().iter().map(|ip| match ip {
        IpAddr::V4(v4) => Gid::from_ipv4(*v4),
        IpAddr::V6(v6) => Gid(v6.octets()),
    })
}

/// What a guest with these addresses is kept to; with none, to nothing.
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
    /// One for each shard: the core that it has for itself.
    pub cores: Vec<Option<u32>>,
    /// How they wait for work.
    pub poll: PollMode,
    /// Whether processes of the daemon's own user are trusted in containers, too.
    pub trusts_own_user: bool,
    /// Whether programs get `/dev/userfaultfd`, if the daemon may open it.
    pub hands_out_userfaultfd: bool,
}

impl ShardOptions {
    /// So many shards, which the scheduler places.
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

/// How contexts of VMs that migrate go from daemon to daemon.
#[derive(Clone, Debug)]
pub struct MigrationSpec {
    /// Where others bring theirs.
    pub listen: SocketAddr,
    /// What all of them have.
    pub keys: Keys,
}
