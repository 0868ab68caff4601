//! What the daemon's threads have in common.
//!
//! ```text
//!   control plane ── Line: commands, answers, is it silent? ──► a shard, or the Ethernet thread
//!                                                               `-- Outbox: what one tells the other
//! ```
//!
//! Besides mailboxes, these are the ends of uplinks that each of them has ([`uplink`]), the sockets that QEMU connects to
//! ([`socket`], [`QemuGuard`], [`StreamRecords`]), and where they put what takes long to free ([`Disposal`]). Nothing here knows what a
//! shard or the Ethernet does.

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

/// Where an answer goes. The asker may be gone; a failed send is no error.
pub type Reply<T> = oneshot::Sender<T>;

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
