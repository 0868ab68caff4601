//! Bodies of requests: the bytes after the 16-byte header (`struct pvrdma_cmd_*`).

use super::qp::QpAttributes;
use super::{U16, U32, U64};

shared! {
    /// QUERY_PORT.
    pub struct QueryPort {
        /// Always 1.
        pub port: u8,
        /// Unused.
        pub reserved: [u8; 7],
    }

    /// QUERY_PKEY.
    pub struct QueryPkey {
        /// Always 1.
        pub port: u8,
        /// Index in the P_Key table.
        pub index: u8,
        /// Unused.
        pub reserved: [u8; 6],
    }

    /// CREATE_UC.
    pub struct CreateUc {
        /// Page frame of the context's UAR page: 32 bits before version 19.
        pub pfn: U64,
    }

    /// DESTROY_UC, CREATE_PD.
    pub struct Context {
        /// Handle of the context; 0 is the kernel.
        pub ctx_handle: U32,
        /// Unused.
        pub reserved: U32,
    }

    /// DESTROY_PD, DESTROY_MR, DESTROY_CQ, DESTROY_QP, QUERY_SRQ, DESTROY_SRQ.
    pub struct Handle {
        /// Handle of the object.
        pub handle: U32,
        /// Unused.
        pub reserved: U32,
    }

    /// CREATE_MR.
    pub struct CreateMr {
        /// First address.
        pub start: U64,
        /// Length in bytes.
        pub length: U64,
        /// Bus address of the page directory.
        pub pdir_dma: U64,
        /// Protection domain.
        pub pd_handle: U32,
        /// Access rights.
        pub access_flags: U32,
        /// [`mr_flag`].
        pub flags: U32,
        /// Number of pages.
        pub nchunks: U32,
    }

    /// CREATE_CQ.
    pub struct CreateCq {
        /// Bus address of the page directory.
        pub pdir_dma: U64,
        /// Owner; 0 is the kernel.
        pub ctx_handle: U32,
        /// Entries, a power of two.
        pub cqe: U32,
        /// Number of pages.
        pub nchunks: U32,
        /// Unused.
        pub reserved: U32,
    }

    /// RESIZE_CQ.
    pub struct ResizeCq {
        /// The CQ.
        pub cq_handle: U32,
        /// Number of entries wanted.
        pub cqe: U32,
    }

    /// Attributes of a shared receive queue (`struct pvrdma_srq_attr`).
    pub struct SrqAttributes {
        /// Number of work requests.
        pub max_wr: U32,
        /// Most entries of one scatter list.
        pub max_sge: U32,
        /// Limit below which the event is raised.
        pub srq_limit: U32,
        /// Unused.
        pub reserved: U32,
    }

    /// CREATE_SRQ.
    pub struct CreateSrq {
        /// Bus address of the page directory.
        pub pdir_dma: U64,
        /// Protection domain.
        pub pd_handle: U32,
        /// Number of pages.
        pub nchunks: U32,
        /// Size.
        pub attrs: SrqAttributes,
        /// Always 0, a basic SRQ.
        pub srq_type: u8,
        /// Unused.
        pub reserved: [u8; 7],
    }

    /// MODIFY_SRQ.
    pub struct ModifySrq {
        /// The SRQ.
        pub srq_handle: U32,
        /// Bit 0: size. Bit 1: limit.
        pub attr_mask: U32,
        /// New values.
        pub attrs: SrqAttributes,
    }

    /// CREATE_QP.
    pub struct CreateQp {
        /// Bus address of the page directory.
        pub pdir_dma: U64,
        /// Protection domain.
        pub pd_handle: U32,
        /// CQ for send completions.
        pub send_cq_handle: U32,
        /// CQ for receive completions.
        pub recv_cq_handle: U32,
        /// Shared receive queue, if `is_srq` is set.
        pub srq_handle: U32,
        /// Number of send work requests.
        pub max_send_wr: U32,
        /// Number of receive work requests.
        pub max_recv_wr: U32,
        /// Most entries of one send gather list.
        pub max_send_sge: U32,
        /// Most entries of one receive scatter list.
        pub max_recv_sge: U32,
        /// Always 0.
        pub max_inline_data: U32,
        /// Always 0.
        pub lkey: U32,
        /// Always LOCAL_WRITE.
        pub access_flags: U32,
        /// Number of pages in all.
        pub total_chunks: U16,
        /// Number of pages of the send queue.
        pub send_chunks: U16,
        /// Always 0.
        pub max_atomic_arg: U16,
        /// Whether every send makes a completion.
        pub sq_sig_all: u8,
        /// A [`qp_type`].
        pub qp_type: u8,
        /// Whether `srq_handle` is valid.
        pub is_srq: u8,
        /// Unused.
        pub reserved: [u8; 3],
    }

    /// MODIFY_QP.
    pub struct ModifyQp {
        /// The QP.
        pub qp_handle: U32,
        /// Mask of the attributes that are valid.
        pub attr_mask: U32,
        /// New values.
        pub attrs: QpAttributes,
    }

    /// QUERY_QP.
    pub struct QueryQp {
        /// The QP.
        pub qp_handle: U32,
        /// Mask of the attributes of interest; the response has all.
        pub attr_mask: U32,
    }

    /// CREATE_BIND.
    pub struct CreateBind {
        /// Always 1024.
        pub mtu: U32,
        /// Always 0xfff.
        pub vlan: U32,
        /// Index in the GID table.
        pub index: U32,
        /// The GID.
        pub gid: [u8; 16],
        /// A [`super::region::gid_type`].
        pub gid_type: u8,
        /// Unused.
        pub reserved: [u8; 3],
    }

    /// DESTROY_BIND.
    pub struct DestroyBind {
        /// Index in the GID table.
        pub index: U32,
        /// The GID at that index.
        pub gid: [u8; 16],
        /// Unused.
        pub reserved: [u8; 4],
    }
}

/// Flags of CREATE_MR (`PVRDMA_MR_FLAG_*`). With none of them it is a user's region.
pub mod mr_flag {
    /// All of bus memory.
    pub const DMA: u32 = 1;
    /// Empty until a fast-register work request fills it.
    pub const FAST_REGISTER: u32 = 2;
}

/// Queue pair types (`enum pvrdma_qp_type`) that the device serves.
pub mod qp_type {
    /// QP1.
    pub const GSI: u8 = 1;
    /// Reliable connection.
    pub const RC: u8 = 2;
    /// Unreliable datagram.
    pub const UD: u8 = 4;
}

/// Bit of MODIFY_SRQ's `attr_mask` that names the limit.
pub const SRQ_LIMIT: u32 = 1 << 1;
