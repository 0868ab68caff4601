//! Queue pair attributes, converted between the guest's layout and the engine's.
//!
//! Attributes that the mask does not name hold garbage, so only those that it names are checked.

use vrdma_verbs::attr::{Access, Address, AttrMask, PathMigration, QpAttr, QpState};
use vrdma_wire::{Gid, Mtu, Psn, Qkey, Qpn};

use super::Errno;
use crate::abi::qp::{AddressAttributes, QpAttributes, QpCapacity};
use crate::abi::request::ModifyQp;
use crate::abi::response::QpSizes;

const GRH_PRESENT: u8 = 1;
/// Mask of the 20-bit flow label.
const FLOW_LABEL: u32 = 0x000f_ffff;

/// Parses the attributes that the mask names; the others are meaningless.
pub(super) fn parse(request: &ModifyQp) -> Result<(QpAttr, AttrMask), Errno> {
    let mask = AttrMask::from_bits(request.attr_mask.get()).ok_or(Errno::Invalid)?;
    let raw = &request.attrs;
    let mut attr = plain(raw);
    if mask.contains(AttrMask::STATE) {
        attr.state = state(raw.qp_state.get())?;
    }
    if mask.contains(AttrMask::CUR_STATE) {
        attr.current_state = state(raw.cur_qp_state.get())?;
    }
    if mask.contains(AttrMask::PATH_MTU) {
        attr.path_mtu = Mtu::from_code(raw.path_mtu.get()).ok_or(Errno::Invalid)?;
    }
    if mask.contains(AttrMask::PATH_MIG_STATE) {
        let code = raw.path_mig_state.get();
        attr.path_migration = PathMigration::from_code(code).ok_or(Errno::Invalid)?;
    }
    if mask.contains(AttrMask::DEST_QPN) {
        attr.dest_qpn = Qpn::new(raw.dest_qp_num.get()).ok_or(Errno::Invalid)?;
    }
    Ok((attr, mask))
}

fn state(code: u32) -> Result<QpState, Errno> {
    QpState::from_code(code).ok_or(Errno::Invalid)
}

/// The attributes for which any bits are a value; the engine checks ranges.
fn plain(raw: &QpAttributes) -> QpAttr {
    QpAttr {
        sqd_event: raw.en_sqd_async_notify != 0,
        access: Access::from_bits_truncate(raw.qp_access_flags.get()),
        pkey_index: raw.pkey_index.get(),
        port: raw.port_num,
        qkey: Qkey(raw.qkey.get()),
        address: address(&raw.ah_attr),
        timeout: raw.timeout,
        retry_count: raw.retry_cnt,
        rnr_retry: raw.rnr_retry,
        rq_psn: Psn::new(raw.rq_psn.get()),
        sq_psn: Psn::new(raw.sq_psn.get()),
        max_rd_atomic: raw.max_rd_atomic,
        max_dest_rd_atomic: raw.max_dest_rd_atomic,
        min_rnr_timer: raw.min_rnr_timer,
        ..QpAttr::default()
    }
}

fn address(raw: &AddressAttributes) -> Address {
    Address {
        dgid: Gid(raw.dgid),
        sgid_index: raw.sgid_index,
        hop_limit: raw.hop_limit,
        traffic_class: raw.traffic_class,
        flow_label: raw.flow_label.get() & FLOW_LABEL,
        sl: raw.sl,
        port: raw.port_num,
        dmac: raw.dmac,
    }
}

/// All attributes, for QUERY_QP.
pub(super) fn encode(attr: &QpAttr, sizes: &QpSizes) -> QpAttributes {
    QpAttributes {
        qp_state: (attr.state as u32).into(),
        cur_qp_state: (attr.state as u32).into(),
        path_mtu: attr.path_mtu.code().into(),
        path_mig_state: u32::from(attr.path_migration as u8).into(),
        qkey: attr.qkey.0.into(),
        rq_psn: attr.rq_psn.get().into(),
        sq_psn: attr.sq_psn.get().into(),
        dest_qp_num: attr.dest_qpn.get().into(),
        qp_access_flags: attr.access.bits().into(),
        pkey_index: attr.pkey_index.into(),
        en_sqd_async_notify: attr.sqd_event.into(),
        sq_draining: attr.sq_draining.into(),
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port,
        timeout: attr.timeout,
        retry_cnt: attr.retry_count,
        rnr_retry: attr.rnr_retry,
        cap: capacity(sizes),
        ah_attr: encode_address(&attr.address),
        ..QpAttributes::default()
    }
}

fn capacity(sizes: &QpSizes) -> QpCapacity {
    QpCapacity {
        max_send_wr: sizes.max_send_wr,
        max_recv_wr: sizes.max_recv_wr,
        max_send_sge: sizes.max_send_sge,
        max_recv_sge: sizes.max_recv_sge,
        max_inline_data: sizes.max_inline_data,
        ..QpCapacity::default()
    }
}

fn encode_address(address: &Address) -> AddressAttributes {
    AddressAttributes {
        dgid: address.dgid.0,
        flow_label: address.flow_label.into(),
        sgid_index: address.sgid_index,
        hop_limit: address.hop_limit,
        traffic_class: address.traffic_class,
        sl: address.sl,
        ah_flags: GRH_PRESENT,
        port_num: address.port,
        dmac: address.dmac,
        ..AddressAttributes::default()
    }
}
