//! Work requests.

use core::ffi::{c_int, c_uint, c_void};

use super::{Ah, Mw, MwBindInfo};

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// Member `wr.rdma`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// Member `wr.atomic`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// Member `wr.ud`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Ud {
    pub ah: *mut Ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// Union `wr`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the members are those of infiniband/verbs.h")]
pub union Kind {
    pub rdma: Rdma,
    pub atomic: Atomic,
    pub ud: Ud,
}

/// Member `bind_mw`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct BindMw {
    pub mw: *mut Mw,
    pub rkey: u32,
    pub bind_info: MwBindInfo,
}

/// Member `tso`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Tso {
    pub hdr: *mut c_void,
    pub hdr_sz: u16,
    pub mss: u16,
}

/// The last union of a send request.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the members are those of infiniband/verbs.h")]
pub union Tail {
    pub bind_mw: BindMw,
    pub tso: Tso,
}

/// `struct ibv_send_wr`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    /// Immediate data in network order, or the key to invalidate.
    pub imm_data: u32,
    pub wr: Kind,
    pub remote_srqn: u32,
    pub tail: Tail,
}

/// `struct ibv_recv_wr`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}
