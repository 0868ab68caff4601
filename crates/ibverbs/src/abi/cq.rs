//! Completion queues, channels, completions and asynchronous events.

use core::ffi::{c_int, c_uint, c_void};

use super::{Context, Pd};

/// `struct ibv_comp_channel`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct CompChannel {
    pub context: *mut Context,
    pub fd: c_int,
    pub refcnt: c_int,
}

/// `struct ibv_cq`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Cq {
    pub context: *mut Context,
    pub channel: *mut CompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

/// `struct ibv_poll_cq_attr`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct PollCqAttr {
    pub comp_mask: u32,
}

/// `struct ibv_cq_ex`: begins as a [`Cq`] does.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct CqEx {
    pub base: Cq,
    pub comp_mask: u32,
    pub status: c_uint,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(*mut CqEx, *mut PollCqAttr) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(*mut CqEx) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(*mut CqEx)>,
    pub read_opcode: Option<unsafe extern "C" fn(*mut CqEx) -> c_uint>,
    pub read_vendor_err: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_byte_len: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_imm_data: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_qp_num: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_src_qp: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_wc_flags: Option<unsafe extern "C" fn(*mut CqEx) -> c_uint>,
    pub read_slid: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_sl: Option<unsafe extern "C" fn(*mut CqEx) -> u8>,
    pub read_dlid_path_bits: Option<unsafe extern "C" fn(*mut CqEx) -> u8>,
    pub read_completion_ts: Option<unsafe extern "C" fn(*mut CqEx) -> u64>,
    pub read_cvlan: Option<unsafe extern "C" fn(*mut CqEx) -> u16>,
    pub read_flow_tag: Option<unsafe extern "C" fn(*mut CqEx) -> u32>,
    pub read_tm_info: Option<unsafe extern "C" fn(*mut CqEx, *mut c_void)>,
    pub read_completion_wallclock_ns: Option<unsafe extern "C" fn(*mut CqEx) -> u64>,
}

/// `struct ibv_cq_init_attr_ex`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct CqInitAttrEx {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut CompChannel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut Pd,
}

/// `struct ibv_modify_cq_attr`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct ModifyCqAttr {
    pub attr_mask: u32,
    pub cq_count: u16,
    pub cq_period: u16,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct Wc {
    pub wr_id: u64,
    pub status: c_uint,
    pub opcode: c_uint,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// Immediate data in network order, or the key that was invalidated.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// `struct ibv_async_event`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of infiniband/verbs.h")]
pub struct AsyncEvent {
    /// A pointer to the object, or the number of the port.
    pub element: *mut c_void,
    pub event_type: c_uint,
}
