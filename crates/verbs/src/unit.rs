//! Message units: what requesters and responders send each other.
//!
//! A message is cut into units. On a wire a unit is one packet, or a few whose frames the caller makes and gathers
//! ([`crate::packet`]). Between two adapters of one host a unit is a longer part of the message and counts as the
//! packets that it stands for. So the PSNs of both ends are those that they would be on a wire, and a connection may
//! change its path between any two units.

use vrdma_wire::{Gid, Mac, Psn, Qkey, Qpn, Rkey, Service};

use crate::memory::{Gather, Stretch};
use crate::path::Path;
use crate::work::{Imm, Inline, Remote};

/// Addresses of a unit, and the IP fields that a datagram's receiver sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// Source GID.
    pub sgid: Gid,
    /// Destination GID.
    pub dgid: Gid,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Ethernet address of the destination as the QP's owner resolved it, if it did. It is used on a wire only, and
    /// never to decide which adapter of this host a unit is for.
    pub dmac: Option<Mac>,
}

/// Operation of a request.
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
        /// Address and key of the memory.
        remote: Remote,
        /// Bytes.
        length: u32,
    },
    /// Atomic compare and swap.
    CompareSwap {
        /// Address and key of the word.
        remote: Remote,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Atomic fetch and add.
    FetchAdd {
        /// Address and key of the word.
        remote: Remote,
        /// Addend.
        add: u64,
    },
    /// An unreliable datagram: never answered.
    Datagram {
        /// Q_Key of the receiver.
        qkey: Qkey,
    },
}

impl RequestOp {
    /// Makes the operation of the first unit of an RDMA WRITE of `length` bytes.
    #[inline]
    pub(crate) fn write(remote: Remote, length: u32) -> Self {
        Self::Write {
            target: Some((remote, length)),
        }
    }

    /// Whether the operation must not be done twice.
    pub fn is_atomic(&self) -> bool {
        matches!(self, Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }
}

/// Data that the last unit of a message carries besides payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestTail {
    /// Immediate data.
    Imm(Imm),
    /// Key that the receiver shall invalidate.
    Invalidate(Rkey),
}

/// Payload of a request unit, for delivery or for a wire.
#[derive(Clone, Debug)]
pub enum Payload<R> {
    /// References into the sender's memory; empty when a packet brought the bytes.
    Memory(Gather<R>),
    /// Bytes that came with the work request.
    Inline(InlinePart),
    /// Bytes in the unit itself.
    Short(Short),
}

impl<R> Default for Payload<R> {
    fn default() -> Self {
        Self::Memory(Gather::new())
    }
}

impl<R> Payload<R> {
    /// Returns the number of bytes.
    #[inline]
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(stretches) => bytes_of(stretches),
            Self::Inline(inline) => inline.bytes().len() as u64,
            Self::Short(short) => short.bytes().len() as u64,
        }
    }
}

/// Most bytes in a unit itself: no more than references to them would take.
pub const SHORT_MAX: usize = 64;

/// Bytes few enough to lie in the unit.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    bytes: [u8; SHORT_MAX],
    length: u8,
}

impl Short {
    /// Makes `length` zeros; `None` if they are more than [`SHORT_MAX`].
    #[inline]
    pub fn zeros(length: u64) -> Option<Self> {
        (length <= SHORT_MAX as u64).then_some(Self {
            bytes: [0; SHORT_MAX],
            length: length as u8,
        })
    }

    /// Returns the bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Returns the bytes, to fill them.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.length)]
    }
}

/// Returns the bytes that stretches hold together.
#[inline]
pub(crate) fn bytes_of<R>(stretches: &[Stretch<R>]) -> u64 {
    match stretches {
        // Nearly all units have one stretch.
        [only] => only.length.into(),
        all => all.iter().map(|part| u64::from(part.length)).sum(),
    }
}

/// The part of an inline payload that a unit carries.
#[derive(Clone, Debug)]
pub struct InlinePart {
    whole: Inline,
    start: u32,
    end: u32,
}

impl InlinePart {
    /// Makes the part of `length` bytes from `offset` on; shorter when the payload ends before.
    pub fn new(whole: &Inline, offset: u32, length: u32) -> Self {
        let most = whole.bytes().len() as u32;
        let start = offset.min(most);
        Self {
            whole: whole.clone(),
            start,
            end: start.saturating_add(length).min(most),
        }
    }

    /// Returns the bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.whole.bytes()[self.start as usize..self.end as usize]
    }
}

/// A request unit.
#[derive(Clone, Debug)]
pub struct Request<R> {
    /// Addresses of the unit.
    pub route: Route,
    /// The answer of [`Paths`](crate::Paths) for the connection; only for connections of this host.
    pub path: Option<Path>,
    /// Kind of queue pair at both ends: RC, UC, or UD with a datagram.
    pub service: Service,
    /// Sender's QP.
    pub source: Qpn,
    /// Receiver's QP.
    pub destination: Qpn,
    /// First PSN.
    pub psn: Psn,
    /// PSNs taken: packets that the unit stands for (for a READ: its response packets).
    pub packets: u32,
    /// Whether it is the first unit of its message.
    pub first: bool,
    /// Whether it is the last unit of its message.
    pub last: bool,
    /// Operation.
    pub op: RequestOp,
    /// Immediate data or key; only on the last unit.
    pub tail: Option<RequestTail>,
    /// Whether it asks for a solicited event.
    pub solicited: bool,
    /// Whether it asks for an acknowledgement: a good SEND or WRITE has none without it (IBTA 9.7.5).
    pub ack_request: bool,
    /// Payload.
    pub payload: Payload<R>,
}

/// Reason of a responder's refusal (IBTA 9.7.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nak {
    /// A PSN was skipped.
    Sequence,
    /// Malformed, unsupported or too many requests.
    InvalidRequest,
    /// A wrong key, bound or right.
    RemoteAccess,
    /// The responder's own failure.
    RemoteOperational,
    /// No receive is posted; the requester comes back after the time of this timer code (IBTA table 45).
    ReceiverNotReady(u8),
}

impl Nak {
    /// Refusal for memory that is [late](crate::memory::Fault::Late), with a wait of 41 ms: in that time a slow disk
    /// gives a page, and seven such waits are within the retries of nearly every program.
    pub const LATE: Self = Self::ReceiverNotReady(LATE_CODE);
}

/// Code of 40.96 ms (IBTA table 45).
pub(crate) const LATE_CODE: u8 = 24;

/// Body of a response.
#[derive(Clone, Debug)]
pub enum ResponseBody<R> {
    /// Everything up to the PSN has arrived.
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
    /// Addresses of the way back.
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
    /// Whether it only says that everything up to its PSN has arrived.
    #[inline]
    pub fn is_ack(&self) -> bool {
        matches!(self.body, ResponseBody::Ack)
    }
}
