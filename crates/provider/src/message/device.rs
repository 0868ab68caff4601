//! Capabilities of the device.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call;

/// Asks for the limits of the device.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryDevice {}
call!(QueryDevice = QueryDevice -> DeviceReply);

/// `struct ibv_device_attr`, as far as the daemon determines it.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DeviceReply {
    /// Version of the daemon, `major << 32 | minor << 16 | patch`.
    pub firmware: u64,
    /// Bytes of the longest region.
    pub max_mr_size: u64,
    /// `enum ibv_device_cap_flags`.
    pub capabilities: u64,
    /// Most queue pairs.
    pub max_qp: u32,
    /// Most requests of a work queue.
    pub max_qp_wr: u32,
    /// Most buffers of a request.
    pub max_sge: u32,
    /// Most buffers of a READ.
    pub max_sge_rd: u32,
    /// Most completion queues.
    pub max_cq: u32,
    /// Most entries of a completion queue.
    pub max_cqe: u32,
    /// Most regions.
    pub max_mr: u32,
    /// Most protection domains.
    pub max_pd: u32,
    /// Most incoming READs and atomics of a queue pair.
    pub max_qp_rd_atom: u32,
    /// Most outgoing READs and atomics of a queue pair.
    pub max_qp_init_rd_atom: u32,
    /// `enum ibv_atomic_cap`.
    pub atomic_cap: u32,
    /// Most memory windows.
    pub max_mw: u32,
    /// Most shared receive queues.
    pub max_srq: u32,
    /// Most requests of a shared receive queue.
    pub max_srq_wr: u32,
    /// Most buffers of its requests.
    pub max_srq_sge: u32,
    /// Most multicast groups.
    pub max_mcast_grp: u32,
    /// Most queue pairs of one group.
    pub max_mcast_qp_attach: u32,
    /// Most bytes of inline data.
    pub max_inline: u32,
}

/// Asks for the state of port 1.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryPort {}
call!(QueryPort = QueryPort -> PortReply);

/// `struct ibv_port_attr`, as far as the daemon determines it.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct PortReply {
    /// `enum ibv_port_state`.
    pub state: u32,
    /// `enum ibv_mtu`.
    pub max_mtu: u32,
    /// `enum ibv_mtu`.
    pub active_mtu: u32,
    /// Entries of the GID table.
    pub gids: u32,
    /// Bytes of the longest message.
    pub max_msg_size: u32,
    /// `port_cap_flags`.
    pub capabilities: u32,
    /// Width code.
    pub active_width: u8,
    /// Speed code.
    pub active_speed: u8,
    /// Physical state.
    pub phys_state: u8,
    /// Zero.
    pub reserved: u8,
    /// `bad_pkey_cntr`.
    pub bad_pkeys: u16,
    /// `qkey_viol_cntr`.
    pub bad_qkeys: u16,
}

/// Asks for an entry of the GID table. `ENODATA` if the entry is empty, `EINVAL` beyond the table.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct QueryGid {
    /// Index of the entry.
    pub index: u32,
}
call!(QueryGid = QueryGid -> GidReply);

/// A GID; all are RoCE v2.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct GidReply {
    /// Its bytes.
    pub gid: [u8; 16],
}
