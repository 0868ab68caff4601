//! Names of objects, their owners, limits and what creating them takes.

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

/// How many objects one adapter may have: every table's bound.
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

/// What kind of memory a region is.
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

/// A registration.
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

/// What kind of memory window: who binds it how, and who may use it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WindowKind {
    /// Type 1: for every QP of its protection domain; bound anew without asking, unbound by binding
    /// nothing.
    One,
    /// Type 2B: for the QP alone that bound it; has to be invalidated before it is bound again.
    Two,
}

/// The names of a fresh window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MwKeys {
    /// Handle for freeing it.
    pub id: MwId,
    /// Key that binding it takes; peers can use it once it is bound.
    pub rkey: Rkey,
}

/// Transport service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpType {
    /// QP1, a datagram QP with a well-known number; one per adapter.
    Gsi,
    /// Reliable connection.
    Rc,
    /// Unreliable connection: SENDs and WRITEs that nobody answers.
    Uc,
    /// Unreliable datagram.
    Ud,
}

impl QpType {
    /// Whose packets it sends and takes.
    pub const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Uc => Service::Uc,
            Self::Ud | Self::Gsi => Service::Ud,
        }
    }

    /// Whether it talks to one peer that its attributes name.
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Rc | Self::Uc)
    }
}

/// A queue pair to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpSpec {
    /// Service.
    pub qp_type: QpType,
    /// Protection domain.
    pub pd: PdId,
    /// Where send completions go.
    pub send_cq: CqId,
    /// Where receive completions go.
    pub recv_cq: CqId,
    /// Shared receive queue in place of an own one.
    pub srq: Option<SrqId>,
    /// Every send work request completes with a completion, flagged or not.
    pub signal_all: bool,
    /// Datagrams that it sends to a multicast group are not delivered to itself, should it be
    /// attached to that group (`IBV_QP_CREATE_BLOCK_SELF_MCAST_LB`).
    pub block_own_multicast: bool,
    /// What its owner was promised.
    pub capacity: Capacity,
}

impl QpSpec {
    /// Without shared receive queue, completions for flagged requests only, and nothing promised.
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

/// Sizes of a queue pair's queues. The front end, whose rings they are, keeps to them; the engine
/// only knows them for answers ([`crate::Hca::qp_spec`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// Send work requests.
    pub send_wrs: u32,
    /// Receive work requests.
    pub recv_wrs: u32,
    /// Buffers of a send.
    pub send_sges: u32,
    /// Buffers of a receive.
    pub recv_sges: u32,
    /// Bytes of an inline payload, at most [`crate::INLINE_MAX`].
    pub inline_bytes: u32,
}

/// What an adapter is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Its Ethernet address.
    pub mac: Mac,
    /// What queue pair numbers and keys come from: secret, and another one for each life of the adapter, so that
    /// numbers of an earlier one are stale.
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
