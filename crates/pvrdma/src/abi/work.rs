//! Work queue entries (`struct pvrdma_sq_wqe_hdr`, `pvrdma_rq_wqe_hdr`, `pvrdma_sge`, `pvrdma_av`).
//!
//! ```text
//!   send     0 header 32 | 32 union by opcode 48 | 80 scatter/gather entries of 16
//!   receive  0 header 16 | 16 scatter/gather entries of 16
//! ```

use super::{U32, U64};

/// Bytes of a send entry before its gather list.
pub const SEND_HEADER_BYTES: usize = 80;
/// Bytes of a receive entry before its scatter list.
pub const RECV_HEADER_BYTES: usize = 16;
/// Bytes of one scatter/gather entry.
pub const SGE_BYTES: usize = 16;

shared! {
    /// Header of a send entry; the opcode tells how to read the union after it.
    pub struct SendHeader {
        /// Cookie.
        pub wr_id: U64,
        /// Number of gather entries.
        pub num_sge: U32,
        /// Not meaningful.
        pub total_len: U32,
        /// An [`opcode`].
        pub opcode: U32,
        /// [`send_flag`]s.
        pub send_flags: U32,
        /// Immediate data in wire order, or the key to invalidate as a little-endian number.
        pub ex: [u8; 4],
        /// Not meaningful.
        pub reserved: U32,
        /// [`RdmaPart`], [`AtomicPart`], [`FastRegisterPart`] or [`DatagramPart`].
        pub part: [u8; 48],
    }

    /// Union of RDMA WRITE and READ.
    pub struct RdmaPart {
        /// Peer's address.
        pub remote_addr: U64,
        /// Peer's key.
        pub rkey: U32,
        /// Padding for alignment.
        pub reserved: U32,
    }

    /// Union of the two atomics.
    pub struct AtomicPart {
        /// Peer's address.
        pub remote_addr: U64,
        /// Expected value, or the addend.
        pub compare_add: U64,
        /// New value.
        pub swap: U64,
        /// Peer's key.
        pub rkey: U32,
        /// Padding for alignment.
        pub reserved: U32,
    }

    /// Union of fast register.
    pub struct FastRegisterPart {
        /// First address.
        pub iova_start: U64,
        /// Bus address of the page directory.
        pub pl_pdir_dma: U64,
        /// Always 12.
        pub page_shift: U32,
        /// Number of pages.
        pub page_list_len: U32,
        /// Length in bytes.
        pub length: U32,
        /// Access rights.
        pub access_flags: U32,
        /// Key, with its new variant in the low byte.
        pub rkey: U32,
        /// Padding for alignment.
        pub reserved: U32,
    }

    /// Union of datagrams.
    pub struct DatagramPart {
        /// QP number of the peer.
        pub remote_qpn: U32,
        /// Q_Key of the peer.
        pub remote_qkey: U32,
        /// Path to the peer.
        pub av: AddressVector,
    }

    /// Path of one datagram (`struct pvrdma_av`).
    pub struct AddressVector {
        /// Port in the upper 8 bits, PD handle in the lower 24.
        pub port_pd: U32,
        /// Flow label in bits 0 to 19, traffic class in bits 20 to 27.
        pub sl_tclass_flowlabel: U32,
        /// Destination GID.
        pub dgid: [u8; 16],
        /// Bit 7: the GRH fields are valid.
        pub src_path_bits: u8,
        /// Index in the GID table.
        pub gid_index: u8,
        /// Always 0.
        pub stat_rate: u8,
        /// Hop limit.
        pub hop_limit: u8,
        /// MAC address of the destination, as the guest resolved it.
        pub dmac: [u8; 6],
        /// Unused.
        pub reserved: [u8; 6],
    }

    /// Header of a receive entry.
    pub struct RecvHeader {
        /// Cookie.
        pub wr_id: U64,
        /// Number of scatter entries.
        pub num_sge: U32,
        /// Not meaningful.
        pub total_len: U32,
    }

    /// One local buffer.
    pub struct SgeEntry {
        /// Address of the first byte.
        pub addr: U64,
        /// Length in bytes.
        pub length: U32,
        /// Key of the region.
        pub lkey: U32,
    }
}

/// Send opcodes (`enum pvrdma_wr_opcode`) that the device executes.
#[allow(missing_docs, reason = "the names are the driver's")]
pub mod opcode {
    pub const RDMA_WRITE: u32 = 0;
    pub const RDMA_WRITE_WITH_IMM: u32 = 1;
    pub const SEND: u32 = 2;
    pub const SEND_WITH_IMM: u32 = 3;
    pub const RDMA_READ: u32 = 4;
    pub const ATOMIC_CMP_AND_SWP: u32 = 5;
    pub const ATOMIC_FETCH_AND_ADD: u32 = 6;
    pub const SEND_WITH_INV: u32 = 8;
    pub const LOCAL_INV: u32 = 10;
    pub const FAST_REG_MR: u32 = 11;
}

/// Flags of a send entry (`enum pvrdma_send_flags`); INLINE (8) has no meaning here.
#[allow(missing_docs, reason = "the names are the driver's")]
pub mod send_flag {
    pub const FENCE: u32 = 1;
    pub const SIGNALED: u32 = 2;
    pub const SOLICITED: u32 = 4;
}
