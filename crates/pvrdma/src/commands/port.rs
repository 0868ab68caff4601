//! QUERY_PORT and QUERY_PKEY.

use vrdma_wire::Mtu;

use super::errno::require;
use super::{Body, Errno, Reply};
use crate::abi::request;
use crate::abi::response::{Pkey, PortAttributes};
use crate::adapter::{Adapter, Turn};
use crate::capabilities::PKEYS;
use crate::config::DeviceLimits;

const PORT: u8 = 1;
const STATE_ACTIVE: u32 = 4;
const PHYSICAL_LINK_UP: u8 = 5;
/// 8X at 50 Gbit/s a lane: the speed that a program may expect. UCX shares it among a guest's ranks, and copies large
/// messages in pieces of 8 KiB if that leaves 7 GB/s or less. Libraries of older guests know no higher speed.
const WIDTH_8X: u8 = 4;
const SPEED_HDR: u8 = 64;
/// Full member of the default partition.
const DEFAULT_PKEY: u16 = 0xffff;

pub(super) fn query(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::QueryPort = body.parse();
    require(request.port == PORT)?;
    let [pkeys, qkeys] = adapter.core.hca.counters().drops.key_violations();
    Ok(Reply::with(&PortAttributes {
        state: STATE_ACTIVE.into(),
        max_mtu: Mtu::B4096.code().into(),
        active_mtu: adapter.config.mtu.code().into(),
        gid_tbl_len: adapter.config.limits.gids.into(),
        max_msg_sz: DeviceLimits::MESSAGE_BYTES.into(),
        bad_pkey_cntr: u32::from(pkeys).into(),
        qkey_viol_cntr: u32::from(qkeys).into(),
        pkey_tbl_len: PKEYS.into(),
        max_vl_num: 1,
        active_width: WIDTH_8X,
        active_speed: SPEED_HDR,
        phys_state: PHYSICAL_LINK_UP,
        ..PortAttributes::default()
    }))
}

pub(super) fn query_pkey(_: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::QueryPkey = body.parse();
    require(request.port == PORT && u16::from(request.index) < PKEYS)?;
    Ok(Reply::with(&Pkey {
        pkey: DEFAULT_PKEY.into(),
        ..Pkey::default()
    }))
}
