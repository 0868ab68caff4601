//! Structures of `<rdma/rdma_cma.h>`, written by hand; `tests/cm_layout.rs` compares each offset with
//! the installed header. Field names are those of the header.

use core::ffi::{c_char, c_int, c_uint, c_void};

use crate::abi::{AhAttr, CompChannel, Context, Cq, Gid, Pd, Qp, Srq};

/// `struct rdma_ib_addr`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct IbAddress {
    pub sgid: Gid,
    pub dgid: Gid,
    pub pkey: u16,
}

/// `struct rdma_addr`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct Address {
    pub src_storage: libc::sockaddr_storage,
    pub dst_storage: libc::sockaddr_storage,
    pub addr: IbAddress,
}

/// `struct ibv_sa_path_rec`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs, reason = "the fields are those of infiniband/sa.h")]
pub struct PathRecord {
    pub dgid: Gid,
    pub sgid: Gid,
    pub dlid: u16,
    pub slid: u16,
    pub raw_traffic: c_int,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reversible: c_int,
    pub numb_path: u8,
    pub pkey: u16,
    pub sl: u8,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}

/// `struct rdma_route`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct Route {
    pub addr: Address,
    pub path_rec: *mut PathRecord,
    pub num_paths: c_int,
}

/// `struct rdma_event_channel`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct EventChannel {
    pub fd: c_int,
}

/// `struct rdma_cm_id`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct Id {
    pub verbs: *mut Context,
    pub channel: *mut EventChannel,
    pub context: *mut c_void,
    pub qp: *mut Qp,
    pub route: Route,
    pub ps: c_uint,
    pub port_num: u8,
    pub event: *mut Event,
    pub send_cq_channel: *mut CompChannel,
    pub send_cq: *mut Cq,
    pub recv_cq_channel: *mut CompChannel,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub pd: *mut Pd,
    pub qp_type: c_uint,
}

/// `struct rdma_conn_param`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct ConnParam {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}

/// `struct rdma_ud_param`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct UdParam {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub ah_attr: AhAttr,
    pub qp_num: u32,
    pub qkey: u32,
}

/// The union in `struct rdma_cm_event`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "the members are those of rdma/rdma_cma.h")]
pub union Param {
    pub conn: ConnParam,
    pub ud: UdParam,
}

/// `struct rdma_cm_event`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct Event {
    pub id: *mut Id,
    pub listen_id: *mut Id,
    pub event: c_uint,
    pub status: c_int,
    pub param: Param,
}

/// `struct rdma_addrinfo`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct AddrInfo {
    pub ai_flags: c_int,
    pub ai_family: c_int,
    pub ai_qp_type: c_int,
    pub ai_port_space: c_int,
    pub ai_src_len: libc::socklen_t,
    pub ai_dst_len: libc::socklen_t,
    pub ai_src_addr: *mut libc::sockaddr,
    pub ai_dst_addr: *mut libc::sockaddr,
    pub ai_src_canonname: *mut c_char,
    pub ai_dst_canonname: *mut c_char,
    pub ai_route_len: usize,
    pub ai_route: *mut c_void,
    pub ai_connect_len: usize,
    pub ai_connect: *mut c_void,
    pub ai_next: *mut AddrInfo,
}

/// `struct rdma_cm_join_mc_attr_ex`.
#[repr(C)]
#[allow(missing_docs, reason = "the fields are those of rdma/rdma_cma.h")]
pub struct JoinAttr {
    pub comp_mask: u32,
    pub join_flags: u32,
    pub addr: *mut libc::sockaddr,
}
