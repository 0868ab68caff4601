//! Protection domains, regions, windows and address handles.

use core::ffi::{c_uint, c_void};

use super::Context;

/// `struct ibv_pd`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Pd {
    pub context: *mut Context,
    pub handle: u32,
}

/// `struct ibv_td`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Td {
    pub context: *mut Context,
}

/// `struct ibv_td_init_attr`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct TdInitAttr {
    pub comp_mask: u32,
}

/// `struct ibv_parent_domain_init_attr`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct ParentDomainInitAttr {
    pub pd: *mut Pd,
    pub td: *mut Td,
    pub comp_mask: u32,
    pub alloc: Option<unsafe extern "C" fn(*mut Pd, *mut c_void, usize, usize, u64) -> *mut c_void>,
    pub free: Option<unsafe extern "C" fn(*mut Pd, *mut c_void, *mut c_void, u64)>,
    pub pd_context: *mut c_void,
}

/// `struct ibv_mr`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// `struct ibv_mw`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Mw {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub rkey: u32,
    pub handle: u32,
    pub type_: c_uint,
}

/// `struct ibv_mw_bind_info`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct MwBindInfo {
    pub mr: *mut Mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}

/// `struct ibv_mw_bind`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct MwBind {
    pub wr_id: u64,
    pub send_flags: c_uint,
    pub bind_info: MwBindInfo,
}

/// `struct ibv_ah`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Ah {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub handle: u32,
}
