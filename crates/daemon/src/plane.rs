//! The border between the control plane and the RDMA data path: plain values over a channel.
//!
//! The control plane decides names, numbers and policy; the shard thread owns devices, engines and
//! the RDMA half of the switch. Nothing here is shared memory: the shard answers by message.

mod line;
mod mailbox;
mod migration;
mod moves;
mod shards;

use std::net::IpAddr;
use std::sync::Arc;

use std::net::SocketAddr;
use tokio::sync::oneshot;

use vrdma_api::{
    AdapterKind, Addresses, DoorbellMode, FrameStats, Interface, Name, ObjectStates, PollMode,
    RdmaStats, Vlan, Vni,
};
use vrdma_host::Shared;
use vrdma_process::{Admitted, Registry};
use vrdma_switch::{GroupId, Kept, Neighbour, Policy, PortId, UplinkId};
use vrdma_uplink::FaultSpec;
use vrdma_uplink::PeerSpec;
use vrdma_wire::{Gid, Mac};

use vrdma_adapter::ShardId;

use crate::adapter_sockets::Sockets;
use crate::shard::Moving;
use crate::uplink::UplinkEnd;

pub use line::{Asked, Line, NotDone, Vital, is_withdrawn};
pub use mailbox::{Inbox, Outbox, Undelivered, Waker, mailbox};
pub use migration::MigrationStep;
pub use moves::{Moves, Relocated};
pub use shards::{Shards, Told};

/// Where an answer goes. The asker may be gone; a failed send is no error.
pub type Reply<T> = oneshot::Sender<T>;

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

/// What the threads of the data path know together.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Of processes.
    pub processes: Registry,
    /// Whose each address is.
    pub addresses: Arc<Shared>,
    /// Of VMs, for the control plane.
    pub moves: Arc<Moves>,
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
}

impl ShardOptions {
    /// So many shards, which the scheduler places.
    pub fn unpinned(shards: u16) -> Self {
        Self {
            cores: vec![None; usize::from(shards)],
            poll: PollMode::default(),
            trusts_own_user: false,
        }
    }
}

impl Default for ShardOptions {
    fn default() -> Self {
        Self::unpinned(1)
    }
}

/// How busy a shard is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShardLoad {
    /// Part of the last second in which it had something to do, in percent.
    pub busy: u8,
    /// Units, answers and packets that it has handed to other shards so far.
    pub transfers: u64,
}

/// What the shard tells of one adapter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AdapterSnapshot {
    /// The adapter.
    pub port: PortId,
    /// Its state and counters.
    pub rdma: RdmaStats,
}

/// What a data path thread tells of its end of an uplink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UplinkSnapshot {
    /// The uplink.
    pub id: UplinkId,
    /// Longest IP packet that fits, as last seen.
    pub mtu: u32,
    /// Traffic.
    pub frames: FrameStats,
}

/// What becomes of an uplink. Both data path threads take it for their ends.
#[derive(Debug)]
pub enum UplinkChange {
    /// Use this end from now on.
    Add(Box<UplinkEnd>),
    /// Close it and forget what was learned behind it. Unknown numbers are fine.
    Remove(UplinkId),
    /// Add the other end of a tunnel.
    AddPeer(UplinkId, Box<PeerSpec>),
    /// Forget the other end of a tunnel.
    RemovePeer(UplinkId, SocketAddr),
    /// The peers have changed: look at the paths to them again.
    Measure(UplinkId),
}

impl UplinkChange {
    /// What takes it back, if it adds something.
    pub fn undo(&self) -> Option<Self> {
        match self {
            Self::Add(end) => Some(Self::Remove(end.id)),
            Self::AddPeer(id, peer) => Some(Self::RemovePeer(*id, peer.address)),
            Self::Remove(_) | Self::RemovePeer(..) | Self::Measure(_) => None,
        }
    }
}

/// What the Ethernet thread hears and the shard has to know, for groups with adapters that have no
/// kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Snooped {
    /// Where an address of another host is, as it said itself.
    Address {
        /// Port group.
        group: GroupId,
        /// Address.
        gid: Gid,
        /// Station and uplink.
        neighbour: Neighbour,
    },
    /// A switch or router asks who listens to multicast.
    Query {
        /// Port group.
        group: GroupId,
        /// The question.
        frame: Box<[u8]>,
    },
}

/// What the control plane asks of a shard. The shard takes them in order.
#[derive(Debug)]
pub enum ShardCommand {
    /// Bind the vfio-user socket, plug the adapter into the fabric and serve it. An error leaves
    /// nothing behind and is a sentence for the user.
    AddAdapter(AdapterSpec, Reply<Result<(), String>>),
    /// Drop the guest's connection, the socket and all state. Unknown ports are fine.
    RemoveAdapter(PortId, Reply<()>),
    /// To the first shard: another one serves this adapter of processes.
    Announce(Box<AdapterSpec>, Reply<Result<(), String>>),
    /// To the first shard: it does so no more. Unknown ports are fine.
    Retire(PortId, Reply<()>),
    /// Give up an adapter, with its clients, once no other shard reads its memory.
    SendAway(PortId, ShardId, Reply<Result<Box<Moving>, String>>),
    /// Serve an adapter that another shard gave up.
    Adopt(Box<Moving>, Reply<()>),
    /// What a VM's guest is kept to from now on.
    Keep(PortId, Kept, Reply<()>),
    /// A VM's adapter goes to another host, or comes from there: one step of that.
    Migration(PortId, MigrationStep),
    /// How busy the shard is.
    Load(Reply<ShardLoad>),
    /// To the first shard: how many listeners of rdma_cm these adapters have.
    Listeners(Vec<PortId>, Reply<Vec<u32>>),
    /// All adapters, in any order.
    Snapshot(Reply<Vec<AdapterSnapshot>>),
    /// What one adapter is made of; nothing of one that is gone.
    State(PortId, Reply<ObjectStates>),
    /// An uplink comes, changes or goes. An error is a sentence and changes nothing.
    Uplink(UplinkChange, Reply<Result<(), String>>),
    /// What an adapter's trace has got since the last time; the first time begins it.
    Trace(PortId, Reply<Vec<u8>>),
    /// The shard's ends of all uplinks, in any order.
    Uplinks(Reply<Vec<UplinkSnapshot>>),
    /// Drop everything and end the thread.
    Stop,
}

impl ShardCommand {
    /// Whether it is not to be begun: whoever asked has given up. What takes something away is carried out
    /// all the same.
    pub fn is_withdrawn(&self) -> bool {
        match self {
            Self::AddAdapter(_, reply) | Self::Announce(_, reply) => is_withdrawn(reply),
            Self::SendAway(_, _, reply) => is_withdrawn(reply),
            Self::Uplink(change, reply) => change.undo().is_some() && is_withdrawn(reply),
            Self::Trace(_, reply) => is_withdrawn(reply),
            Self::State(_, reply) => is_withdrawn(reply),
            Self::Snapshot(reply) => is_withdrawn(reply),
            Self::Migration(_, step) => step.is_withdrawn(),
            Self::RemoveAdapter(..)
            | Self::Retire(..)
            | Self::Adopt(..)
            | Self::Keep(..)
            | Self::Load(_)
            | Self::Listeners(..)
            | Self::Uplinks(_)
            | Self::Stop => false,
        }
    }
}

#[cfg(test)]
mod tests;
