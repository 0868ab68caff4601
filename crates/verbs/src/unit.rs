//! Message units: what a requester and a responder say to each other.
//!
//! A message is cut into units. On a wire a unit is one packet, or few whose frames the caller makes
//! and gathers ([`crate::packet`]); between two adapters of one host it
//! is a longer stretch, counted as the packets it stands for, so that both ends' PSNs stay what they
//! would be on a wire and a connection may change its path between any two units.

use vrdma_wire::{Gid, Mac, Psn, Qkey, Qpn, Rkey, Service};

use crate::memory::{Gather, Stretch};
use crate::path::Path;
use crate::work::{Imm, Inline, Remote};

/// Addresses of a unit, and the IP fields that a datagram's receiver sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// From.
    pub sgid: Gid,
    /// To.
    pub dgid: Gid,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Ethernet address of the destination as the QP's owner resolved it, if it did. Looked at on a
    /// wire only; never decides which adapter of this host a unit is for.
    pub dmac: Option<Mac>,
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestOp {
    /// SEND; `tail` may carry immediate data or a key to invalidate.
    Send,
    /// RDMA WRITE; the first unit names the memory and the length of the whole message.
    Write {
        /// Present on the first unit (RETH).
        target: Option<(Remote, u32)>,
    },
    /// RDMA READ of `length` bytes; always a message of one unit.
    Read {
        /// Where.
        remote: Remote,
        /// Bytes.
        length: u32,
    },
    /// Atomic compare and swap.
    CompareSwap {
        /// Where.
        remote: Remote,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Atomic fetch and add.
    FetchAdd {
        /// Where.
        remote: Remote,
        /// Addend.
        add: u64,
    },
    /// An unreliable datagram: never answered.
    Datagram {
        /// Key to match.
        qkey: Qkey,
    },
}

impl RequestOp {
    /// The first unit of an RDMA WRITE of so many bytes.
    #[inline]
    pub(crate) fn write(remote: Remote, length: u32) -> Self {
        Self::Write {
            target: Some((remote, length)),
        }
    }

    /// Whether it must not be done twice.
    pub fn is_atomic(&self) -> bool {
        matches!(self, Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }
}

/// What the last unit of a message carries besides payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestTail {
    /// Immediate data.
    Imm(Imm),
    /// Key that the receiver shall invalidate.
    Invalidate(Rkey),
}

/// Bytes of a request unit, for whoever delivers it or puts it on a wire.
#[derive(Clone, Debug)]
pub enum Payload<R> {
    /// By reference into the sender's memory; empty when a packet brought the bytes.
    Memory(Gather<R>),
    /// The work request brought them.
    Inline(InlinePart),
    /// The unit has them itself.
    Short(Short),
}

impl<R> Default for Payload<R> {
    fn default() -> Self {
        Self::Memory(Gather::new())
    }
}

impl<R> Payload<R> {
    /// How many bytes it holds.
    #[inline]
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(stretches) => bytes_of(stretches),
            Self::Inline(inline) => inline.bytes().len() as u64,
            Self::Short(short) => short.bytes().len() as u64,
        }
    }
}

/// Bytes that a unit can have itself: no more than references to them would take.
pub const SHORT_MAX: usize = 64;

/// So few bytes that they lie in the unit.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    bytes: [u8; SHORT_MAX],
    length: u8,
}

impl Short {
    /// So many zeros; `None` if they are more than [`SHORT_MAX`].
    #[inline]
    pub fn zeros(length: u64) -> Option<Self> {
        (length <= SHORT_MAX as u64).then_some(Self {
            bytes: [0; SHORT_MAX],
            length: length as u8,
        })
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The same, to fill them.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.length)]
    }
}

/// Bytes that stretches hold together.
#[inline]
pub(crate) fn bytes_of<R>(stretches: &[Stretch<R>]) -> u64 {
    match stretches {
        // As nearly all have.
        [only] => only.length.into(),
        all => all.iter().map(|part| u64::from(part.length)).sum(),
    }
}

/// What a unit carries of an inline payload.
#[derive(Clone, Debug)]
pub struct InlinePart {
    whole: Inline,
    start: u32,
    end: u32,
}

impl InlinePart {
    /// `length` bytes from `offset` on, as far as there are so many.
    pub fn new(whole: &Inline, offset: u32, length: u32) -> Self {
        let most = whole.bytes().len() as u32;
        let start = offset.min(most);
        Self {
            whole: whole.clone(),
            start,
            end: start.saturating_add(length).min(most),
        }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.whole.bytes()[self.start as usize..self.end as usize]
    }
}

/// A request unit.
#[derive(Clone, Debug)]
pub struct Request<R> {
    /// Path.
    pub route: Route,
    /// What [`Paths`](crate::Paths) said of it, for connections of this host.
    pub path: Option<Path>,
    /// Kind of queue pair that it comes from and is for: RC, UC, or UD with a datagram.
    pub service: Service,
    /// Sender's QP.
    pub source: Qpn,
    /// Receiver's QP.
    pub destination: Qpn,
    /// First PSN.
    pub psn: Psn,
    /// PSNs taken: packets that the unit stands for (for a READ: its response packets).
    pub packets: u32,
    /// First unit of its message.
    pub first: bool,
    /// Last unit of its message.
    pub last: bool,
    /// Operation.
    pub op: RequestOp,
    /// On the last unit.
    pub tail: Option<RequestTail>,
    /// Ask for a solicited event.
    pub solicited: bool,
    /// Ask for an acknowledgement: a good SEND or WRITE has none without it (IBTA 9.7.5).
    pub ack_request: bool,
    /// Bytes.
    pub payload: Payload<R>,
}

/// Why a responder refuses (IBTA 9.7.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nak {
    /// A PSN was skipped.
    Sequence,
    /// Malformed, unsupported or too many.
    InvalidRequest,
    /// Key, bounds or right.
    RemoteAccess,
    /// The responder's own failure.
    RemoteOperational,
    /// No receive posted; come back after this timer code (IBTA table 45).
    ReceiverNotReady(u8),
}

impl Nak {
    /// Of memory that is [late](crate::memory::Fault::Late): 41 ms, in which a slow disk gives a page, and seven of which are within
    /// the retries of nearly every program.
    pub const LATE: Self = Self::ReceiverNotReady(LATE_CODE);
}

/// Code of 40.96 ms (IBTA table 45).
pub(crate) const LATE_CODE: u8 = 24;

/// Body of a response.
#[derive(Clone, Debug)]
pub enum ResponseBody<R> {
    /// Everything up to the PSN arrived.
    Ack,
    /// Refused at the PSN.
    Nak(Nak),
    /// Data of the READ that began at the PSN, by reference into the responder's memory.
    Read(Gather<R>),
    /// The word as it was before the atomic at the PSN.
    Atomic(u64),
    /// The payload of the request could not be fetched from the requester's memory. Between adapters
    /// of one host only: on a wire the requester's side would have noticed before sending.
    SourceFault,
}

/// A response unit.
#[derive(Clone, Debug)]
pub struct Response<R> {
    /// Path back.
    pub route: Route,
    /// Responder's QP.
    pub source: Qpn,
    /// Requester's QP.
    pub destination: Qpn,
    /// PSN answered: the last one covered by an acknowledgement, the first one of a READ.
    pub psn: Psn,
    /// Messages completed by the responder, 24 bits.
    pub msn: u32,
    /// Content.
    pub body: ResponseBody<R>,
}

impl<R> Response<R> {
    /// Whether it says that everything up to its PSN arrived, and nothing else.
    #[inline]
    pub fn is_ack(&self) -> bool {
        matches!(self.body, ResponseBody::Ack)
    }
}
