//! Work requests that go in, and completions and events that come out.

use alloc::boxed::Box;
use alloc::sync::Arc;

use smallvec::SmallVec;
use vrdma_wire::{Gid, Lkey, Qkey, Qpn, Rkey};

use crate::attr::{Access, Address};
use crate::buffers::total;
use crate::object::{CqId, QpId, SrqId};

/// One local buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sge {
    /// First byte, as the region's owner names it.
    pub addr: u64,
    /// Bytes; 0 skips the entry, unchecked.
    pub length: u32,
    /// Key of the region.
    pub lkey: Lkey,
}

/// Scatter/gather list.
pub type SgeList = SmallVec<[Sge; 2]>;

/// Four bytes handed to the receiver, in the order of the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Imm(pub [u8; 4]);

/// Peer memory that a work request names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Address, as the peer names it.
    pub addr: u64,
    /// Peer's key.
    pub rkey: Rkey,
}

/// Destination of one datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Peer's QP.
    pub qpn: Qpn,
    /// Key; with bit 31 set the QP's own is used.
    pub qkey: Qkey,
    /// Destination address.
    pub address: Address,
}

/// Contents of a fast-register work request.
#[derive(Clone, Debug)]
pub struct FastRegister<R> {
    /// Region to fill, with the new variant in its low byte.
    pub key: Rkey,
    /// Address of the first byte.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Rights.
    pub access: Access,
    /// Number of pages, at most the region's capacity.
    pub pages: u32,
    /// Backing.
    pub region: R,
}

/// Parameters of a bind (`struct ibv_mw_bind_info`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindWindow {
    /// Window to bind, with the new variant in its low byte: the window's key from then on.
    pub window: Rkey,
    /// Region of which the window shows a part.
    pub region: Lkey,
    /// First address, as the region's owner names it.
    pub start: u64,
    /// Bytes; 0 unbinds a window of type 1, and is not allowed for others.
    pub length: u64,
    /// Rights of peers.
    pub access: Access,
    /// Whether peers name the first byte 0 instead of `start`.
    pub zero_based: bool,
}

/// Operation of a send work request.
#[derive(Clone, Debug)]
pub enum SendOp<R> {
    /// Send to the peer's receive queue.
    Send,
    /// Send with immediate data.
    SendImm(Imm),
    /// Send, and invalidate a region of the peer.
    SendInvalidate(Rkey),
    /// RDMA WRITE.
    Write(Remote),
    /// RDMA WRITE that consumes a receive at the peer.
    WriteImm(Remote, Imm),
    /// RDMA READ.
    Read(Remote),
    /// Atomic compare and swap of eight bytes.
    CompareSwap {
        /// Address and key of the word.
        remote: Remote,
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Atomic fetch and add of eight bytes.
    FetchAdd {
        /// Address and key of the word.
        remote: Remote,
        /// Addend.
        add: u64,
    },
    /// Make a fast-register region or a window of type 2 unusable again.
    LocalInvalidate(Rkey),
    /// Bind a window.
    BindWindow(BindWindow),
    /// Fill a fast-register region.
    FastRegister(Box<FastRegister<R>>),
    /// A request that the front end could not decode: it completes in turn with this status.
    Refused(Status),
}

/// A send work request.
#[derive(Clone, Debug)]
pub struct SendWr<R> {
    /// Caller's cookie.
    pub id: u64,
    /// Operation.
    pub op: SendOp<R>,
    /// Whether it waits for earlier READs and atomics.
    pub fence: bool,
    /// Whether it gets a completion.
    pub signaled: bool,
    /// Whether it asks for a solicited event at the peer.
    pub solicited: bool,
    /// Local buffers.
    pub sges: SgeList,
    /// Payload of a SEND or WRITE in place of `sges`, at most [`INLINE_MAX`] bytes.
    pub inline: Option<Inline>,
    /// Destination, for datagram QPs.
    pub datagram: Option<Datagram>,
}

/// Bytes that came with a work request; cloning shares them. It is one pointer in size, because every request has room
/// for it and few have one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inline(Arc<Box<[u8]>>);

impl From<&[u8]> for Inline {
    fn from(bytes: &[u8]) -> Self {
        Self(Arc::new(bytes.into()))
    }
}

impl Inline {
    /// Returns the bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Most bytes of an inline payload: a full send queue holds a quarter of a megabyte of them.
pub const INLINE_MAX: usize = 1024;

impl<R> SendWr<R> {
    /// Makes a request without buffers, flags and destination.
    pub fn new(id: u64, op: SendOp<R>) -> Self {
        Self {
            id,
            op,
            fence: false,
            signaled: false,
            solicited: false,
            sges: SgeList::new(),
            inline: None,
            datagram: None,
        }
    }

    /// Returns the bytes of the local buffers or of the inline payload.
    #[inline]
    pub(crate) fn local_bytes(&self) -> u64 {
        match &self.inline {
            None => total(&self.sges),
            Some(inline) => inline.bytes().len() as u64,
        }
    }

    /// Whether an inline payload is short enough and fits the operation.
    #[inline]
    pub(crate) fn inline_is_valid(&self) -> bool {
        self.inline
            .as_ref()
            .is_none_or(|inline| inline.bytes().len() <= INLINE_MAX && self.op.has_payload())
    }
}

/// A receive work request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecvWr {
    /// Caller's cookie.
    pub id: u64,
    /// Local buffers, or the status with which an undecodable request completes.
    pub sges: Result<SgeList, Status>,
}

/// Completion status, with the verbs' codes (`enum ib_wc_status`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the field's own")]
pub enum Status {
    Success = 0,
    LocLen = 1,
    LocQpOp = 2,
    LocProt = 4,
    WrFlush = 5,
    /// Error of memory management: fast register, bind, invalidate.
    MwBind = 6,
    BadResp = 7,
    LocAccess = 8,
    RemInvReq = 9,
    RemAccess = 10,
    RemOp = 11,
    RetryExc = 12,
    RnrRetryExc = 13,
    RemAbort = 16,
    Fatal = 19,
    General = 21,
}

/// Kind of request that completed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the field's own")]
pub enum WcOp {
    Send = 0,
    Write = 1,
    Read = 2,
    CompareSwap = 3,
    FetchAdd = 4,
    BindWindow = 5,
    LocalInvalidate = 7,
    FastRegister = 8,
    Recv = 128,
    RecvWriteImm = 129,
}

/// Data that came with a received message besides its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tail {
    /// Immediate data.
    Imm(Imm),
    /// A region or window of the receiver that the peer invalidated.
    Invalidated(Rkey),
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Cookie of the work request.
    pub wr_id: u64,
    /// Queue pair.
    pub qp: QpId,
    /// Kind.
    pub op: WcOp,
    /// Outcome.
    pub status: Status,
    /// Bytes received or read; a datagram's include its 40-byte GRH area.
    pub byte_len: u32,
    /// Immediate data or invalidated key that came along.
    pub tail: Option<Tail>,
    /// Sender's QP, for receives.
    pub src_qp: Qpn,
    /// A datagram's source and destination; if present, the GRH area was written.
    pub grh: Option<(Gid, Gid)>,
    /// Whether the sender asked for a solicited event.
    pub solicited: bool,
    /// Number of the message that goes with it, see [`Hca::enclosed`](crate::Hca::enclosed).
    pub enclosed: Option<u32>,
}

/// Asynchronous event about an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The CQ overflowed or its ring became unusable.
    CqError(CqId),
    /// The QP's own queues or memory failed.
    QpFatal(QpId),
    /// The peer sent an invalid request.
    QpRequestError(QpId),
    /// The peer broke an access rule.
    QpAccessError(QpId),
    /// The first message arrived while the QP was still in RTR.
    CommEstablished(QpId),
    /// The send queue is drained.
    SqDrained(QpId),
    /// The shared receive queue's ring became unusable.
    SrqError(SrqId),
    /// The queue has fewer receives than the armed limit.
    SrqLimitReached(SrqId),
    /// A QP in ERR took its last receive from a shared queue.
    LastWqeReached(QpId),
}

/// What the engine hands out, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// The oldest send work requests of `qp` are done. First their slots are free, then the completion of the last one,
    /// if it has one, goes to `cq`. The others are unsignalled successes.
    SendDone {
        /// Queue pair of the requests.
        qp: QpId,
        /// Number of requests.
        count: u32,
        /// Queue of the completion.
        cq: CqId,
        /// `None` for an unsignalled success.
        completion: Option<Completion>,
    },
    /// A receive completed.
    RecvDone {
        /// Queue of the completion.
        cq: CqId,
        /// The completion.
        completion: Completion,
    },
    /// Something happened to an object.
    Event(Event),
}
