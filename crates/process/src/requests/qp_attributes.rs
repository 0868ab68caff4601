//! Queue pair attributes, converted between the library's layout and the engine's.
//!
//! Attributes that the mask does not name hold garbage, so only named values are checked.

use rustix::io::Errno;
use vrdma_provider::layout::AddressVector;
use vrdma_provider::message::{ModifyQp, QpAttributes};
use vrdma_verbs::attr::{Access, Address, AttrMask, QpAttr, QpState};
use vrdma_wire::{Mtu, Psn, Qkey, Qpn};

use crate::decode::address;

/// Decodes the attributes that the mask names; the others are meaningless.
pub(super) fn parse(request: &ModifyQp) -> Result<(QpAttr, AttrMask), Errno> {
    let mask = AttrMask::from_bits(request.mask).ok_or(Errno::INVAL)?;
    let raw = &request.attributes;
    let mut attr = plain(raw);
    if mask.contains(AttrMask::STATE) {
        attr.state = state(raw.state)?;
    }
    if mask.contains(AttrMask::CUR_STATE) {
        attr.current_state = state(raw.current_state)?;
    }
    if mask.contains(AttrMask::PATH_MTU) {
        attr.path_mtu = Mtu::from_code(raw.path_mtu).ok_or(Errno::INVAL)?;
    }
    if mask.contains(AttrMask::DEST_QPN) {
        attr.dest_qpn = Qpn::new(raw.dest_qp_num).ok_or(Errno::INVAL)?;
    }
    Ok((attr, mask))
}

fn state(code: u32) -> Result<QpState, Errno> {
    QpState::from_code(code).ok_or(Errno::INVAL)
}

/// Decodes the attributes for which any bits make a value; the engine checks ranges.
fn plain(raw: &QpAttributes) -> QpAttr {
    QpAttr {
        sqd_event: raw.en_sqd_async_notify != 0,
        access: Access::from_bits_truncate(raw.access),
        pkey_index: raw.pkey_index,
        port: raw.port,
        qkey: Qkey(raw.qkey),
        address: address(&raw.address),
        timeout: raw.timeout,
        retry_count: raw.retry_count,
        rnr_retry: raw.rnr_retry,
        rq_psn: Psn::new(raw.rq_psn),
        sq_psn: Psn::new(raw.sq_psn),
        max_rd_atomic: raw.max_rd_atomic,
        max_dest_rd_atomic: raw.max_dest_rd_atomic,
        min_rnr_timer: raw.min_rnr_timer,
        ..QpAttr::default()
    }
}

/// Encodes all attributes, for a query.
pub(super) fn encode(attr: &QpAttr) -> QpAttributes {
    QpAttributes {
        state: attr.state as u32,
        current_state: attr.state as u32,
        path_mtu: attr.path_mtu.code(),
        qkey: attr.qkey.0,
        rq_psn: attr.rq_psn.get(),
        sq_psn: attr.sq_psn.get(),
        dest_qp_num: attr.dest_qpn.get(),
        access: attr.access.bits(),
        address: encode_address(&attr.address),
        pkey_index: attr.pkey_index,
        en_sqd_async_notify: attr.sqd_event.into(),
        sq_draining: attr.sq_draining.into(),
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port: attr.port,
        timeout: attr.timeout,
        retry_count: attr.retry_count,
        rnr_retry: attr.rnr_retry,
        reserved: 0,
    }
}

fn encode_address(address: &Address) -> AddressVector {
    AddressVector {
        dgid: address.dgid.0,
        flow_label: address.flow_label,
        sgid_index: address.sgid_index,
        hop_limit: address.hop_limit,
        traffic_class: address.traffic_class,
        sl: address.sl,
        dmac: address.dmac,
        port: address.port,
        reserved: 0,
    }
}
