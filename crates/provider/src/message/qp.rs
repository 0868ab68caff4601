//! Queue pairs and multicast.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Done, QueueGeometry, call};
use crate::layout::AddressVector;

/// Transport services: `enum ibv_qp_type`.
pub mod qp_type {
    /// Reliable connection.
    pub const RC: u32 = 2;
    /// Unreliable connection.
    pub const UC: u32 = 3;
    /// Unreliable datagram.
    pub const UD: u32 = 4;
}

/// `struct ibv_qp_cap`.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QpCapacity {
    /// Most send requests.
    pub max_send_wr: u32,
    /// Most receives.
    pub max_recv_wr: u32,
    /// Most buffers of a send request.
    pub max_send_sge: u32,
    /// Most buffers of a receive.
    pub max_recv_sge: u32,
    /// Most bytes of inline data.
    pub max_inline: u32,
}

/// Makes a queue pair.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateQp {
    /// Name of the queue pair in events.
    pub cookie: u64,
    /// Handle of the protection domain.
    pub pd: u32,
    /// One of [`qp_type`].
    pub qp_type: u32,
    /// Handle of the send CQ.
    pub send_cq: u32,
    /// Handle of the receive CQ.
    pub recv_cq: u32,
    /// Handle of the SRQ, if [`has_srq`](Self::has_srq).
    pub srq: u32,
    /// Whether there is an SRQ: 0 or 1.
    pub has_srq: u32,
    /// Whether every send request completes with an entry: 0 or 1.
    pub signal_all: u32,
    /// Least sizes wanted.
    pub capacity: QpCapacity,
}
call!(CreateQp = CreateQp -> QpReply);

/// A queue pair.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QpReply {
    /// Handle.
    pub qp: u32,
    /// Number on the wire.
    pub qp_num: u32,
    /// Bit in the doorbell page.
    pub doorbell: u32,
    /// Bytes of its memory.
    pub bytes: u32,
    /// Sizes that the queue pair got.
    pub capacity: QpCapacity,
    /// Send queue.
    pub send: QueueGeometry,
    /// Receive queue; no slots with a shared one.
    pub recv: QueueGeometry,
}

/// `struct ibv_qp_attr` without the alternate path.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QpAttributes {
    /// `enum ibv_qp_state`
    pub state: u32,
    /// `enum ibv_qp_state`
    pub current_state: u32,
    /// `enum ibv_mtu`
    pub path_mtu: u32,
    /// Q_Key.
    pub qkey: u32,
    /// First PSN that is expected.
    pub rq_psn: u32,
    /// First PSN that is sent.
    pub sq_psn: u32,
    /// Peer's QP.
    pub dest_qp_num: u32,
    /// [`access`](super::access)
    pub access: u32,
    /// The path.
    pub address: AddressVector,
    /// Index in the pkey table.
    pub pkey_index: u16,
    /// Whether to raise an event when the send queue is drained.
    pub en_sqd_async_notify: u8,
    /// Whether the send queue is draining; read only.
    pub sq_draining: u8,
    /// Outgoing READs and atomics.
    pub max_rd_atomic: u8,
    /// Incoming READs and atomics.
    pub max_dest_rd_atomic: u8,
    /// RNR timer code.
    pub min_rnr_timer: u8,
    /// Port.
    pub port: u8,
    /// Time-out exponent.
    pub timeout: u8,
    /// Retries.
    pub retry_count: u8,
    /// RNR retries.
    pub rnr_retry: u8,
    /// Zero.
    pub reserved: u8,
}

/// Changes a queue pair. RESET sets both indices of its rings to zero: the library starts at zero again after the
/// reply. `EINVAL` for transitions, attributes and values.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ModifyQp {
    /// Handle.
    pub qp: u32,
    /// `enum ibv_qp_attr_mask`
    pub mask: u32,
    /// Values of the attributes that the mask names.
    pub attributes: QpAttributes,
}
call!(ModifyQp = ModifyQp -> Done);

/// Asks for the attributes of a queue pair.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryQp {
    /// Handle.
    pub qp: u32,
}
call!(QueryQp = QueryQp -> QueryQpReply);

/// All attributes.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryQpReply {
    /// Current attributes.
    pub attributes: QpAttributes,
    /// Sizes, as at creation.
    pub capacity: QpCapacity,
}

/// Ends a queue pair. None of its completions is written afterwards; those in CQs stay until the library skips them.
/// `EAGAIN`: a page of the client's memory is late, and bytes of a message may still be written there; ask once more.
/// The same holds for [`ModifyQp`] to RESET or ERR.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyQp {
    /// Handle.
    pub qp: u32,
}
call!(DestroyQp = DestroyQp -> Done);

/// Attaches a datagram QP to a multicast GID.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AttachMcast {
    /// Handle.
    pub qp: u32,
    /// Zero in RoCE.
    pub lid: u32,
    /// GID of the group.
    pub gid: [u8; 16],
}
call!(AttachMcast = AttachMcast -> Done);

/// Detaches a datagram QP from a multicast GID.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DetachMcast {
    /// Handle.
    pub qp: u32,
    /// Zero in RoCE.
    pub lid: u32,
    /// GID of the group.
    pub gid: [u8; 16],
}
call!(DetachMcast = DetachMcast -> Done);
