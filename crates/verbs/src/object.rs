//! Names of objects, their owners, limits, and the parameters for creating them.

use vrdma_wire::{Lkey, Mac, Mtu, Rkey, Service};

use crate::attr::Access;
use crate::names::Source;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);
    };
}

handle! {
    /// A protection domain.
    PdId
}
handle! {
    /// A memory region.
    MrId
}
handle! {
    /// A memory window.
    MwId
}
handle! {
    /// A completion queue.
    CqId
}
handle! {
    /// A queue pair by table slot: 1 and up. Its number on the wire is a [`vrdma_wire::Qpn`].
    QpId
}
handle! {
    /// A shared receive queue.
    SrqId
}

/// The context that owns an object: objects of different owners never combine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner(pub u32);

impl Owner {
    /// The guest's kernel, or a trusted in-daemon user.
    pub const KERNEL: Self = Self(0);
}

/// Most objects that one adapter may have: the bound of each table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Protection domains.
    pub pds: u32,
    /// Memory regions and windows, at most 2^24 (the index part of a key).
    pub mrs: u32,
    /// Completion queues.
    pub cqs: u32,
    /// Queue pairs plus one, at most 65535: slot 0 stays unused.
    pub qps: u32,
    /// Shared receive queues.
    pub srqs: u32,
    /// GID table entries.
    pub gids: u32,
    /// Incoming READs and atomics that one QP may have outstanding, and outgoing ones.
    pub rd_atomic: u8,
    /// Longest message in bytes, at most 2^31 (IBTA 9.7.2).
    pub message_bytes: u32,
    /// MTU of the port: the longest datagram, and the largest path MTU of a connection.
    pub port_mtu: Mtu,
}

/// Kind of memory of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MrKind {
    /// A virtual range of a process.
    User,
    /// The whole bus address space, local use only, kernel owners only.
    Dma,
    /// Filled later by a fast-register work request of up to `pages` pages.
    FastRegister {
        /// Capacity.
        pages: u32,
    },
}

/// Parameters of a registration.
#[derive(Clone, Debug)]
pub struct MrSpec<R> {
    /// Kind of memory.
    pub kind: MrKind,
    /// First valid address, as work requests name it.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Rights.
    pub access: Access,
    /// Backing; `None` for a fast-register region that is still empty.
    pub region: Option<R>,
}

/// The names of a fresh region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrKeys {
    /// Handle for deregistering.
    pub id: MrId,
    /// Local key.
    pub lkey: Lkey,
    /// Remote key, equal to the local one in value.
    pub rkey: Rkey,
}

/// Kind of a memory window: how it is bound, and which QPs may use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WindowKind {
    /// Type 1: for every QP of its protection domain. It can be bound again while bound, and is unbound by binding
    /// nothing.
    One,
    /// Type 2B: only for the QP that bound it. It has to be invalidated before it is bound again.
    Two,
}

/// The names of a fresh window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MwKeys {
    /// Handle for freeing it.
    pub id: MwId,
    /// Key for binding it; peers can use it once it is bound.
    pub rkey: Rkey,
}

/// Transport service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpType {
    /// QP1, a datagram QP with a well-known number; one per adapter.
    Gsi,
    /// Reliable connection.
    Rc,
    /// Unreliable connection: SENDs and WRITEs without answers.
    Uc,
    /// Unreliable datagram.
    Ud,
}

impl QpType {
    /// Returns the service whose packets it sends and takes.
    pub const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud | Self::Gsi => Service::Ud,
        }
    }

    /// Whether it has one peer, named by its attributes.
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Rc | Self::Uc)
    }
}

/// Parameters of a queue pair to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpSpec {
    /// Service.
    pub qp_type: QpType,
    /// Protection domain.
    pub pd: PdId,
    /// Queue of its send completions.
    pub send_cq: CqId,
    /// Queue of its receive completions.
    pub recv_cq: CqId,
    /// Shared receive queue in place of an own one.
    pub srq: Option<SrqId>,
    /// Whether every send work request gets a completion, flagged or not.
    pub signal_all: bool,
    /// Whether datagrams that it sends to a multicast group are not delivered to itself, should it be attached to that
    /// group (`IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`).
    pub block_own_multicast: bool,
    /// Queue sizes that its owner was promised.
    pub capacity: Capacity,
}

impl QpSpec {
    /// Makes a spec without shared receive queue, with completions for flagged requests only, and nothing promised.
    pub fn new(qp_type: QpType, pd: PdId, send_cq: CqId, recv_cq: CqId) -> Self {
        Self {
            qp_type,
            pd,
            send_cq,
            recv_cq,
            srq: None,
            signal_all: false,
            block_own_multicast: false,
            capacity: Capacity::default(),
        }
    }
}

/// Sizes of a queue pair's queues. The front end, which has the rings, keeps to them; the engine only reports them
/// ([`crate::Hca::qp_spec`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// Send work requests.
    pub send_wrs: u32,
    /// Receive work requests.
    pub recv_wrs: u32,
    /// Most buffers of a send.
    pub send_sges: u32,
    /// Most buffers of a receive.
    pub recv_sges: u32,
    /// Most bytes of an inline payload, at most [`crate::INLINE_MAX`].
    pub inline_bytes: u32,
}

/// The address and the secret seed of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Seed of the numbers of queue pairs and of keys. It is secret, and differs for each life of the adapter, so that
    /// numbers of an earlier life are stale.
    pub seed: u64,
}

impl Identity {
    pub(crate) fn names(&self, stream: u64) -> Source {
        Source {
            seed: self.seed,
            stream,
            drawn: 0,
        }
    }
}
