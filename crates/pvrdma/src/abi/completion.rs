//! Completion queue entries (`struct pvrdma_cqe`).

use super::{U16, U32, U64};

shared! {
    /// One completion, 64 bytes.
    pub struct CompletionEntry {
        /// Cookie of the work request.
        pub wr_id: U64,
        /// Handle of the queue pair, not its number.
        pub qp: U64,
        /// `enum pvrdma_wc_opcode`.
        pub opcode: U32,
        /// `enum pvrdma_wc_status`.
        pub status: U32,
        /// Bytes received or read.
        pub byte_len: U32,
        /// Immediate data in wire order, or an invalidated key as a little-endian number.
        pub imm: [u8; 4],
        /// Sender's queue pair number.
        pub src_qp: U32,
        /// [`wc_flag`]s.
        pub wc_flags: U32,
        /// Always 0.
        pub vendor_err: U32,
        /// Always 0.
        pub pkey_index: U16,
        /// Always 0.
        pub slid: U16,
        /// [`header_level`] of a datagram to a program, else 0.
        pub sl: u8,
        /// Always 0.
        pub dlid_path_bits: u8,
        /// Always 1.
        pub port_num: u8,
        /// Always 0: neither driver nor provider copies it.
        pub smac: [u8; 6],
        /// [`network_header`], for kernel queue pairs.
        pub network_hdr_type: u8,
        /// Unused.
        pub reserved: [u8; 6],
    }
}

/// Flags of a completion (`enum pvrdma_wc_flags`) that the device sets.
#[allow(missing_docs, reason = "the names are the driver's")]
pub mod wc_flag {
    pub const GRH: u32 = 1;
    pub const WITH_IMM: u32 = 2;
    pub const WITH_INVALIDATE: u32 = 4;
    pub const WITH_NETWORK_HDR_TYPE: u32 = 64;
}

/// Kinds of the header before a datagram (`enum rdma_network_type`).
#[allow(missing_docs, reason = "the names are the kernel's")]
pub mod network_header {
    pub const IPV4: u8 = 1;
    pub const IPV6: u8 = 2;
}

/// Service levels of received RoCE v2 datagrams: bit 3 stands for UDP, the others for the header before it.
#[allow(missing_docs, reason = "the names are the headers")]
pub mod header_level {
    pub const IPV6: u8 = 0b1001;
    pub const IPV4: u8 = 0b1010;
}
