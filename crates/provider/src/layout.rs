//! The contents of the rings, byte for byte, and the sizes of the parts of a queue's memory.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{DATA_ALIGN, EAGER_MAX};

/// Offsets of the words of a work queue's header; see the crate's documentation.
pub mod queue_header {
    /// Client's index.
    pub const PRODUCER: usize = 0;
    /// Daemon's index.
    pub const CONSUMER: usize = 64;
    /// Whether the client must ring after posting.
    pub const RING: usize = 128;
    /// Bytes of the header.
    pub const BYTES: usize = 256;
}

/// Stands for the place of a work queue's header: [`queue_header`] has the offsets of its words.
pub struct QueueHeader;

/// Offsets of the words of a completion queue's header; see the crate's documentation.
pub mod cq_header {
    /// Client's index.
    pub const CONSUMER: usize = 0;
    /// The kind of completion that the client wants to be notified of: [`armed`](super::armed).
    pub const ARMED: usize = 64;
    /// Daemon's index.
    pub const PRODUCER: usize = 128;
    /// Not 0 while the daemon has taken an arming away and may not have notified the client yet. For a daemon that goes
    /// on in place of one that ended.
    pub const OWED: usize = 132;
    /// Bytes of the header.
    pub const BYTES: usize = 256;
}

/// Values of a completion queue's `armed` word.
pub mod armed {
    /// No notification.
    pub const NO: u32 = 0;
    /// For a solicited completion or an error.
    pub const SOLICITED: u32 = 1;
    /// For any completion.
    pub const ANY: u32 = 2;
}

/// Flags of a send slot: `enum ibv_send_flags`, and those of this protocol from bit 31 down.
pub mod send_flag {
    /// Wait for earlier READs and atomics to complete.
    pub const FENCE: u32 = 1;
    /// Write a completion entry.
    pub const SIGNALED: u32 = 2;
    /// Raise a solicited event at the peer.
    pub const SOLICITED: u32 = 4;
    /// Payload is in the data area; there are no buffers.
    pub const DATA: u32 = 1 << 31;
}

/// Operations of a send slot: `enum ibv_wr_opcode`.
#[allow(missing_docs, reason = "the names are the field's own")]
pub mod opcode {
    pub const RDMA_WRITE: u32 = 0;
    pub const RDMA_WRITE_WITH_IMM: u32 = 1;
    pub const SEND: u32 = 2;
    pub const SEND_WITH_IMM: u32 = 3;
    pub const RDMA_READ: u32 = 4;
    pub const ATOMIC_CMP_AND_SWP: u32 = 5;
    pub const ATOMIC_FETCH_AND_ADD: u32 = 6;
    pub const LOCAL_INV: u32 = 7;
    pub const BIND_MW: u32 = 8;
    pub const SEND_WITH_INV: u32 = 9;
}

/// The destination of a datagram: `struct ibv_ah_attr` for RoCE.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AddressVector {
    /// Destination.
    pub dgid: [u8; 16],
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Index of our GID.
    pub sgid_index: u8,
    /// IP hop limit.
    pub hop_limit: u8,
    /// IP traffic class.
    pub traffic_class: u8,
    /// Service level.
    pub sl: u8,
    /// Destination's Ethernet address if the program knows it; zero if the daemon has to find it out.
    pub dmac: [u8; 6],
    /// Port, 1.
    pub port: u8,
    /// Zero.
    pub reserved: u8,
}

/// Start of a send slot, 128 bytes; buffers follow. [`crate::operation`] lists the fields that each operation uses.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SendHeader {
    /// Cookie for the completion.
    pub wr_id: u64,
    /// One of [`opcode`].
    pub opcode: u32,
    /// Bits of [`send_flag`].
    pub flags: u32,
    /// Number of buffers behind this header.
    pub buffers: u32,
    /// Immediate data in network byte order, or the rkey to invalidate, in native order.
    pub imm: [u8; 4],
    /// With [`send_flag::DATA`]: offset of the payload in the data area.
    pub data_offset: u32,
    /// With [`send_flag::DATA`]: bytes of payload.
    pub data_length: u32,
    /// Peer's address.
    pub remote_addr: u64,
    /// Peer's key. Bind: the new rkey.
    pub rkey: u32,
    /// Datagrams: peer's QP. Bind: handle of the memory window.
    pub target: u32,
    /// Compare value or addend. Bind: the address.
    pub compare_add: u64,
    /// Swap value. Bind: the length.
    pub swap: u64,
    /// Datagrams: Q_Key. Bind: access flags.
    pub qkey: u32,
    /// Bind: lkey of the region.
    pub bind_lkey: u32,
    /// Datagrams: the path.
    pub address: AddressVector,
    /// Zero.
    pub reserved: [u64; 3],
}

/// Start of a receive slot; buffers follow.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RecvHeader {
    /// Cookie for the completion.
    pub wr_id: u64,
    /// Number of buffers behind this header.
    pub buffers: u32,
    /// Zero.
    pub reserved: u32,
}

/// One buffer: `struct ibv_sge`.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Buffer {
    /// Address of the first byte.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// Key of the region.
    pub lkey: u32,
}

/// Flags of a completion: `enum ibv_wc_flags`.
pub mod wc_flag {
    /// The buffer begins with the 40-byte GRH area of a datagram.
    pub const GRH: u32 = 1;
    /// `imm` is immediate data.
    pub const WITH_IMM: u32 = 2;
    /// `imm` is an invalidated rkey.
    pub const WITH_INV: u32 = 8;
}

/// A completion queue entry, 64 bytes.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Completion {
    /// Cookie of the work request.
    pub wr_id: u64,
    /// Number of the queue pair.
    pub qp_num: u32,
    /// `enum ibv_wc_opcode`.
    pub opcode: u32,
    /// `enum ibv_wc_status`.
    pub status: u32,
    /// Bytes received or read; a datagram's include its 40-byte GRH area.
    pub byte_len: u32,
    /// Immediate data in network byte order, or the invalidated rkey, in native order.
    pub imm: [u8; 4],
    /// Sender's QP.
    pub src_qp: u32,
    /// Bits of [`wc_flag`].
    pub flags: u32,
    /// Service level: 9 for a datagram over IPv6, 10 over IPv4, where UCX looks for it.
    pub sl: u32,
    /// Time of writing, in nanoseconds of the daemon's clock.
    pub timestamp: u64,
    /// Offset of the enclosed message in the data area.
    pub enclosed_at: u32,
    /// Bytes of the enclosed message with its [`EnclosedHeader`]; 0 if there is none.
    pub enclosed_bytes: u32,
    /// Zero.
    pub reserved: u64,
}

/// Start of a message that an entry encloses: its buffers ([`Buffer`], as the receive names them) follow, then its
/// bytes, as many as the buffers have.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct EnclosedHeader {
    /// 0 until one end sets it to 1: that end puts the bytes in place. An atomic.
    pub taken: u32,
    /// Number of buffers.
    pub buffers: u32,
    /// Zero.
    pub reserved: u64,
}

/// Bytes of an enclosed message with its header and that many buffers.
pub const fn enclosed_bytes(buffers: u32, bytes: u32) -> u32 {
    size_of::<EnclosedHeader>() as u32 + buffers * size_of::<Buffer>() as u32 + bytes
}

/// Bytes of a completion queue's data area in which messages begin.
pub const ENCLOSING_AREA: u32 = if cfg!(loom) { 2 } else { 16 } * ENCLOSED_MAX;

/// Longest enclosed message, with its header. Short in loom's models, so that they soon come round the data area.
pub const ENCLOSED_MAX: u32 = if cfg!(loom) { 64 } else { 8192 };

/// Bytes of a [`Completion`].
pub const COMPLETION_BYTES: u32 = size_of::<Completion>() as u32;

/// Bytes of a send slot for that many buffers.
pub const fn send_stride(buffers: u32) -> u32 {
    (size_of::<SendHeader>() as u32 + buffers * size_of::<Buffer>() as u32).next_multiple_of(64)
}

/// Bytes of a receive slot for that many buffers.
pub const fn recv_stride(buffers: u32) -> u32 {
    (size_of::<RecvHeader>() as u32 + buffers * size_of::<Buffer>() as u32).next_multiple_of(32)
}

/// Most bytes of a send queue's data area that may be in use after an eager payload was put there.
pub const EAGER_AREA: u32 = 16 * EAGER_MAX;

/// Bytes of a send queue's data area: behind the most eager payload, each slot can hold `inline` bytes at the same
/// time. Less than one piece is lost where the area wraps.
pub const fn send_data_bytes(slots: u32, inline: u32) -> u32 {
    EAGER_AREA + slots * inline.next_multiple_of(DATA_ALIGN) + EAGER_MAX
}

const _: () = {
    assert!(size_of::<SendHeader>() == 128);
    assert!(size_of::<AddressVector>() == 32);
    assert!(size_of::<RecvHeader>() == 16);
    assert!(size_of::<Buffer>() == 16);
    assert!(size_of::<Completion>() == 64);
};
