//! Completion channels, completion queues and shared receive queues.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Done, call};

/// A CQ without channel.
pub const NO_CHANNEL: u32 = u32::MAX;

/// Makes a completion channel: a pipe of 8-byte CQ cookies.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateChannel {}
call!(CreateChannel = CreateChannel -> ChannelReply);

/// A channel; its read end comes along.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ChannelReply {
    /// Handle.
    pub channel: u32,
}

/// `EBUSY` while CQs use it.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyChannel {
    /// Handle.
    pub channel: u32,
}
call!(DestroyChannel = DestroyChannel -> Done);

/// Where one work queue is in a queue's memory.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueueGeometry {
    /// Its [`QueueHeader`](crate::layout::QueueHeader).
    pub header: u32,
    /// First slot.
    pub slots_at: u32,
    /// Slots, a power of two; 0: there is no such queue.
    pub slots: u32,
    /// Bytes of a slot.
    pub stride: u32,
    /// Data area.
    pub data_at: u32,
    /// Bytes of the data area, 0 for none.
    pub data_bytes: u32,
}

impl QueueGeometry {
    /// Seen from so many bytes before: the places in a file of a queue whose memory begins there.
    pub fn shifted(self, offset: u32) -> Self {
        Self {
            header: self.header + offset,
            slots_at: self.slots_at + offset,
            data_at: self.data_at + offset,
            ..self
        }
    }

    /// The reverse; `None` if a part of it would be before the start.
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
    /// What notifications and events name it by.
    pub cookie: u64,
    /// Entries at least.
    pub entries: u32,
    /// Handle or [`NO_CHANNEL`].
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
    /// Header (see [`cq_header`](crate::layout::cq_header)) and entries; a data area for clients that
    /// put messages in place.
    pub ring: QueueGeometry,
}

/// Gives a CQ a new ring. The library must not poll while it waits: unpolled entries are in the new
/// ring from index 0 on. `EINVAL` if they do not fit.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ResizeCq {
    /// Handle.
    pub cq: u32,
    /// Entries at least.
    pub entries: u32,
}
call!(ResizeCq = ResizeCq -> CqReply);

/// `EBUSY` while a QP uses it.
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
    /// What events name it by.
    pub cookie: u64,
    /// Handle.
    pub pd: u32,
    /// Requests at least.
    pub max_wr: u32,
    /// Buffers of one at least.
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
    /// Its number on the wire, for `ibv_get_srq_num`.
    pub number: u32,
    /// Buffers of one request.
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
    /// Armed limit.
    pub limit: u32,
}
call!(ModifySrq = ModifySrq -> Done);

/// Asks for the attributes.
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
    /// Requests.
    pub max_wr: u32,
    /// Buffers of one.
    pub max_sge: u32,
    /// Armed limit, 0 for none.
    pub limit: u32,
}

/// `EBUSY` while a QP uses it.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroySrq {
    /// Handle.
    pub srq: u32,
}
call!(DestroySrq = DestroySrq -> Done);
