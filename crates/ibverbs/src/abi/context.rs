//! The opened device, and the functions that the header's inline wrappers call through it.

use core::ffi::{c_int, c_uint, c_void};

use super::{
    Cq, CqEx, CqInitAttrEx, Device, DeviceAttr, DeviceAttrEx, ModifyCqAttr, Mr, Mw, MwBind,
    ParentDomainInitAttr, Pd, PortAttr, Qp, QpInitAttrEx, RecvWr, SendWr, Sge, Srq, SrqInitAttrEx,
    Td, TdInitAttr, Wc,
};

/// A function that this library never offers: always `NULL` or never called.
pub type NotOffered = Option<unsafe extern "C" fn()>;

/// `struct ibv_context_ops`. The wrappers call the eight real ones without checking for `NULL`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct ContextOps {
    pub query_device: Option<unsafe extern "C" fn(*mut Context, *mut DeviceAttr) -> c_int>,
    pub query_port: Option<unsafe extern "C" fn(*mut Context, u8, *mut PortAttr) -> c_int>,
    pub obsolete_memory: [NotOffered; 5],
    pub alloc_mw: Option<unsafe extern "C" fn(*mut Pd, c_uint) -> *mut Mw>,
    pub bind_mw: Option<unsafe extern "C" fn(*mut Qp, *mut Mw, *mut MwBind) -> c_int>,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut Mw) -> c_int>,
    pub obsolete_create_cq: NotOffered,
    pub poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    pub obsolete_cq_and_srq: [NotOffered; 7],
    pub post_srq_recv:
        Option<unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub obsolete_qp: [NotOffered; 4],
    pub post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub post_recv: Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub obsolete_rest: [NotOffered; 5],
}

/// `struct ibv_context`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Context {
    pub device: *mut Device,
    pub ops: ContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

/// `struct ibv_values_ex`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct ValuesEx {
    pub comp_mask: u32,
    pub raw_clock: libc::timespec,
}

/// `struct verbs_context` of rdma-core 44. It grows at its front: `sz` tells programs built with a
/// newer header that the functions before `query_port` are not there.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct VerbsContext {
    pub query_port: Option<unsafe extern "C" fn(*mut Context, u8, *mut PortAttr, usize) -> c_int>,
    pub advise_mr: Option<unsafe extern "C" fn(*mut Pd, c_uint, u32, *mut Sge, u32) -> c_int>,
    pub alloc_null_mr: Option<unsafe extern "C" fn(*mut Pd) -> *mut Mr>,
    pub read_counters: NotOffered,
    pub attach_counters_point_flow: NotOffered,
    pub create_counters: NotOffered,
    pub destroy_counters: NotOffered,
    pub reg_dm_mr: NotOffered,
    pub alloc_dm: NotOffered,
    pub free_dm: NotOffered,
    pub modify_flow_action_esp: NotOffered,
    pub destroy_flow_action: NotOffered,
    pub create_flow_action_esp: NotOffered,
    pub modify_qp_rate_limit: NotOffered,
    pub alloc_parent_domain:
        Option<unsafe extern "C" fn(*mut Context, *mut ParentDomainInitAttr) -> *mut Pd>,
    pub dealloc_td: Option<unsafe extern "C" fn(*mut Td) -> c_int>,
    pub alloc_td: Option<unsafe extern "C" fn(*mut Context, *mut TdInitAttr) -> *mut Td>,
    pub modify_cq: Option<unsafe extern "C" fn(*mut Cq, *mut ModifyCqAttr) -> c_int>,
    pub post_srq_ops: NotOffered,
    pub destroy_rwq_ind_table: NotOffered,
    pub create_rwq_ind_table: NotOffered,
    pub destroy_wq: NotOffered,
    pub modify_wq: NotOffered,
    pub create_wq: NotOffered,
    pub query_rt_values: Option<unsafe extern "C" fn(*mut Context, *mut ValuesEx) -> c_int>,
    pub create_cq_ex: Option<unsafe extern "C" fn(*mut Context, *mut CqInitAttrEx) -> *mut CqEx>,
    /// rdma-core's own; programs do not look at it.
    pub priv_: *mut c_void,
    pub query_device_ex: Option<
        unsafe extern "C" fn(*mut Context, *const c_void, *mut DeviceAttrEx, usize) -> c_int,
    >,
    pub ibv_destroy_flow: NotOffered,
    pub abi_placeholder2: NotOffered,
    pub ibv_create_flow: NotOffered,
    pub abi_placeholder1: NotOffered,
    pub open_qp: NotOffered,
    pub create_qp_ex: Option<unsafe extern "C" fn(*mut Context, *mut QpInitAttrEx) -> *mut Qp>,
    pub get_srq_num: Option<unsafe extern "C" fn(*mut Srq, *mut u32) -> c_int>,
    pub create_srq_ex: Option<unsafe extern "C" fn(*mut Context, *mut SrqInitAttrEx) -> *mut Srq>,
    pub open_xrcd: NotOffered,
    pub close_xrcd: NotOffered,
    pub abi_placeholder3: u64,
    /// Bytes of this structure, from its (unknown) beginning to the end of `context`.
    pub sz: usize,
    pub context: Context,
}
