//! Completion channels, completion queues and shared receive queues.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Done, call};

/// Stands for a CQ without a channel.
pub const NO_CHANNEL: u32 = u32::MAX;

/// Makes a completion channel: a pipe of 8-byte CQ cookies.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateChannel {}
call!(CreateChannel = CreateChannel -> ChannelReply);

/// A channel; its read end comes with the reply.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ChannelReply {
    /// Handle.
    pub channel: u32,
}

/// Ends a channel. `EBUSY` while CQs use it.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyChannel {
    /// Handle.
    pub channel: u32,
}
call!(DestroyChannel = DestroyChannel -> Done);

/// Places of the parts of one work queue in its memory.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueueGeometry {
    /// Offset of the [`QueueHeader`](crate::layout::QueueHeader).
    pub header: u32,
    /// Offset of the first slot.
    pub slots_at: u32,
    /// Number of slots, a power of two; 0: there is no such queue.
    pub slots: u32,
    /// Bytes of a slot.
    pub stride: u32,
    /// Offset of the data area.
    pub data_at: u32,
    /// Bytes of the data area, 0 for none.
    pub data_bytes: u32,
}

impl QueueGeometry {
    /// Adds `offset` to each place: from places in a queue's memory to those in the file that has it there.
    pub fn shifted(self, offset: u32) -> Self {
        Self {
            header: self.header + offset,
            slots_at: self.slots_at + offset,
            data_at: self.data_at + offset,
            ..self
        }
    }

    /// The reverse of [`shifted`](Self::shifted); `None` if a part of the queue would be before the start.
    pub fn shifted_back(self, offset: u32) -> Option<Self> {
        Some(Self {
            header: self.header.checked_sub(offset)?,
            slots_at: self.slots_at.checked_sub(offset)?,
            data_at: self.data_at.checked_sub(offset)?,
            ..self
        })
    }
}

/// Makes a completion queue.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateCq {
    /// Name of the queue in notifications and events.
    pub cookie: u64,
    /// Least number of entries.
    pub entries: u32,
    /// Handle of the channel, or [`NO_CHANNEL`].
    pub channel: u32,
}
call!(CreateCq = CreateCq -> CqReply);

/// A completion queue.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CqReply {
    /// Handle.
    pub cq: u32,
    /// Bytes of its memory.
    pub bytes: u32,
    /// Header (see [`cq_header`](crate::layout::cq_header)) and entries; a data area for clients that put messages in
    /// place.
    pub ring: QueueGeometry,
}

/// Gives a CQ a new ring. The library must not poll while it waits for the reply: unpolled entries are in the new ring
/// from index 0 on. `EINVAL` if they do not fit.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ResizeCq {
    /// Handle.
    pub cq: u32,
    /// Least number of entries.
    pub entries: u32,
}
call!(ResizeCq = ResizeCq -> CqReply);

/// Ends a CQ. `EBUSY` while a QP uses it.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyCq {
    /// Handle.
    pub cq: u32,
}
call!(DestroyCq = DestroyCq -> Done);

/// Makes a shared receive queue.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateSrq {
    /// Name of the queue in events.
    pub cookie: u64,
    /// Handle of the protection domain.
    pub pd: u32,
    /// Least number of requests.
    pub max_wr: u32,
    /// Least number of buffers of one request.
    pub max_sge: u32,
    /// Armed limit, 0 for none.
    pub limit: u32,
}
call!(CreateSrq = CreateSrq -> SrqReply);

/// A shared receive queue.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SrqReply {
    /// Handle.
    pub srq: u32,
    /// Bytes of its memory.
    pub bytes: u32,
    /// Number of the SRQ, for `ibv_get_srq_num`.
    pub number: u32,
    /// Most buffers of one request.
    pub max_sge: u32,
    /// The queue; no data area.
    pub ring: QueueGeometry,
}

/// Bits of [`ModifySrq::mask`]: `enum ibv_srq_attr_mask`.
pub mod srq_mask {
    /// Resize: always refused with `EINVAL`.
    pub const MAX_WR: u32 = 1;
    /// Arm the limit.
    pub const LIMIT: u32 = 2;
}

/// Changes a shared receive queue.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ModifySrq {
    /// Handle.
    pub srq: u32,
    /// [`srq_mask`].
    pub mask: u32,
    /// Limit to arm.
    pub limit: u32,
}
call!(ModifySrq = ModifySrq -> Done);

/// Asks for the attributes of a shared receive queue.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QuerySrq {
    /// Handle.
    pub srq: u32,
}
call!(QuerySrq = QuerySrq -> SrqState);

/// `struct ibv_srq_attr`.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SrqState {
    /// Most requests.
    pub max_wr: u32,
    /// Most buffers of one request.
    pub max_sge: u32,
    /// Armed limit, 0 for none.
    pub limit: u32,
}

/// Ends a shared receive queue. `EBUSY` while a QP uses it.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroySrq {
    /// Handle.
    pub srq: u32,
}
call!(DestroySrq = DestroySrq -> Done);
