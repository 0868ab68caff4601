//! Code that the daemon's threads share.
//!
//! ```text
//!   control plane ── Line: commands, answers, is it silent? ──► a shard, or the Ethernet thread
//!                                                               `-- Outbox: what one tells the other
//! ```
//!
//! Besides mailboxes, these are the threads' ends of uplinks ([`uplink`]), the sockets that QEMU connects to
//! ([`socket`], [`QemuGuard`], [`StreamRecords`]), and a place for values that take long to free ([`Disposal`]).
//! Nothing here knows what a shard or the Ethernet thread does.

#![forbid(unsafe_code)]

mod disposal;
mod line;
mod mailbox;
mod moves;
mod qemu_guard;
pub mod socket;
mod streams;
pub mod uplink;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::oneshot;

use vrdma_api::FrameStats;
use vrdma_host::Shared;
use vrdma_process::Registry;
use vrdma_switch::{GroupId, Neighbour, UplinkId};
use vrdma_uplink::PeerSpec;
use vrdma_wire::Gid;

pub use disposal::Disposal;
pub use line::{Asked, Line, NotDone, Vital, is_withdrawn};
pub use mailbox::{Inbox, Outbox, Undelivered, Waker, mailbox};
pub use moves::{Moves, Relocated};
pub use qemu_guard::QemuGuard;
pub use streams::{PortPast, StreamRecords};
use uplink::UplinkEnd;

/// Sender of an answer. The asker may be gone; a failed send is no error.
pub type Reply<T> = oneshot::Sender<T>;

/// Knowledge that the threads of the data path share.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Process adapters, and the users that may use them.
    pub processes: Registry,
    /// Owner of each address.
    pub addresses: Arc<Shared>,
    /// VMs that moved, for the control plane.
    pub moves: Arc<Moves>,
}

/// Report of a data path thread on its end of an uplink.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UplinkSnapshot {
    /// The uplink.
    pub id: UplinkId,
    /// Longest IP packet that fits, as last seen.
    pub mtu: u32,
    /// Traffic.
    pub frames: FrameStats,
}

/// Change of an uplink. Both data path threads apply it to their ends.
#[derive(Debug)]
pub enum UplinkChange {
    /// Use this end from now on.
    Add(Box<UplinkEnd>),
    /// Close the end and forget what was learned behind it. Unknown numbers are fine.
    Remove(UplinkId),
    /// Add the other end of a tunnel.
    AddPeer(UplinkId, Box<PeerSpec>),
    /// Forget the other end of a tunnel.
    RemovePeer(UplinkId, SocketAddr),
    /// The peers have changed: measure the paths to them again.
    Measure(UplinkId),
}

impl UplinkChange {
    /// Returns the change that takes this one back, if it adds something.
    pub fn undo(&self) -> Option<Self> {
        match self {
            Self::Add(end) => Some(Self::Remove(end.id)),
            Self::AddPeer(id, peer) => Some(Self::RemovePeer(*id, peer.address)),
            Self::Remove(_) | Self::RemovePeer(..) | Self::Measure(_) => None,
        }
    }
}

/// Facts that the Ethernet thread hears and the shards have to know, for groups with adapters that have no kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Snooped {
    /// Place of another host's address, as that host said itself.
    Address {
        /// Port group.
        group: GroupId,
        /// Address.
        gid: Gid,
        /// Station and uplink.
        neighbour: Neighbour,
    },
    /// A switch or router asks for the listeners to multicast.
    Query {
        /// Port group.
        group: GroupId,
        /// The query.
        frame: Box<[u8]>,
    },
}
