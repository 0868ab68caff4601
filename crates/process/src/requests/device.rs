//! Queries of the device's capabilities.

use rustix::io::Errno;
use vrdma_provider::message::{DeviceReply, GidReply, PortReply, QueryDevice, QueryGid, QueryPort};
use vrdma_provider::{BUFFERS_MAX, CQ_ENTRIES_MAX, INLINE_MAX, SLOTS_MAX};

use vrdma_verbs::{ATTACHMENTS_MAX, GROUP_QPS_MAX};

use super::{Asker, Outcome};
use crate::limits;

/// `IBV_DEVICE_*`: CURR_QP_STATE_MOD, PORT_ACTIVE_EVENT, SYS_IMAGE_GUID, RC_RNR_NAK_GEN, MEM_WINDOW,
/// MEM_MGT_EXTENSIONS, MEM_WINDOW_TYPE_2B.
const CAPABILITIES: u64 = 1 << 7 | 1 << 10 | 1 << 11 | 1 << 12 | 1 << 17 | 1 << 21 | 1 << 24;

/// `IBV_ATOMIC_HCA`: atomic among this adapter's requests.
const ATOMIC_HCA: u32 = 1;

/// `IBV_PORT_ACTIVE`.
const ACTIVE: u32 = 4;
/// `IBV_MTU_4096`.
const MTU_4096: u32 = 5;
/// Link up.
const LINK_UP: u8 = 5;
/// 8 lanes at 100 Gb/s: a number for programs that ask for one, such as UCX, which weighs its transports by it. The
/// share of each rank of a host must exceed the speed that UCX assumes for its own copies, or UCX cuts large messages
/// into pieces of 8 KiB where one READ would do: 7 GB/s are too little for UCX 1.18. No rank waits for a port; the
/// ranks share only the host's memory. pyverbs takes 12X for an invalid width.
const WIDTH_8X: u8 = 4;
const SPEED_NDR: u8 = 128;
/// `IBV_PORT_CM_SUP`, `IBV_PORT_IP_BASED_GIDS`.
const PORT_CAPABILITIES: u32 = 1 << 16 | 1 << 26;

pub(super) fn query(_: &mut Asker<'_>, _: QueryDevice) -> Outcome<QueryDevice> {
    Ok(DeviceReply {
        firmware: version(),
        max_mr_size: limits::REGION_BYTES,
        capabilities: CAPABILITIES,
        max_qp: limits::QPS,
        max_qp_wr: SLOTS_MAX,
        max_sge: BUFFERS_MAX,
        max_sge_rd: BUFFERS_MAX,
        max_cq: limits::CQS,
        max_cqe: CQ_ENTRIES_MAX,
        max_mr: limits::MRS,
        max_pd: limits::PDS,
        max_qp_rd_atom: limits::RD_ATOMIC.into(),
        max_qp_init_rd_atom: limits::RD_ATOMIC.into(),
        atomic_cap: ATOMIC_HCA,
        max_mw: limits::MRS,
        max_srq: limits::SRQS,
        max_srq_wr: SLOTS_MAX,
        max_srq_sge: BUFFERS_MAX,
        max_mcast_grp: ATTACHMENTS_MAX as u32,
        max_mcast_qp_attach: GROUP_QPS_MAX as u32,
        max_inline: INLINE_MAX,
    })
}

/// This crate's version, packed as in `fw_ver`.
fn version() -> u64 {
    let part = |text: &str| text.parse().unwrap_or(0u64);
    part(env!("CARGO_PKG_VERSION_MAJOR")) << 32
        | part(env!("CARGO_PKG_VERSION_MINOR")) << 16
        | part(env!("CARGO_PKG_VERSION_PATCH"))
}

pub(super) fn query_port(asker: &mut Asker<'_>, _: QueryPort) -> Outcome<QueryPort> {
    let hca = &asker.process.core.hca;
    let [bad_pkeys, bad_qkeys] = hca.counters().drops.key_violations();
    Ok(PortReply {
        state: ACTIVE,
        max_mtu: MTU_4096,
        active_mtu: hca.limits().port_mtu.code(),
        gids: limits::GIDS,
        max_msg_size: limits::MESSAGE_BYTES,
        capabilities: PORT_CAPABILITIES,
        active_width: WIDTH_8X,
        active_speed: SPEED_NDR,
        phys_state: LINK_UP,
        reserved: 0,
        bad_pkeys,
        bad_qkeys,
    })
}

pub(super) fn query_gid(asker: &mut Asker<'_>, request: QueryGid) -> Outcome<QueryGid> {
    if request.index >= limits::GIDS {
        return Err(Errno::INVAL);
    }
    let gid = asker
        .process
        .core
        .hca
        .gid(request.index as u8)
        .ok_or(Errno::NODATA)?;
    Ok(GidReply { gid: gid.0 })
}
