//! Small values and their codes in records.

use alloc::vec::Vec;

use vrdma_wire::{Gid, Mtu, Psn, Qkey, Qpn};

use crate::attr::{Access, Address, PathMigration, QpAttr, QpState};
use crate::object::{Limits, QpType};
use crate::saved::{RestoreError, check, record};
use crate::work::Status;

/// Narrows a number of the largest type, as records have it, to its own type.
pub(super) fn narrow<T: TryFrom<u32>>(value: u32, what: &'static str) -> Result<T, RestoreError> {
    T::try_from(value).map_err(|_| RestoreError::Inconsistent(what))
}

pub(super) fn psn(value: u32) -> Result<Psn, RestoreError> {
    let psn = Psn::new(value);
    check(psn.get() == value, "a PSN has more than 24 bits")?;
    Ok(psn)
}

pub(super) fn qpn(value: u32) -> Result<Qpn, RestoreError> {
    Qpn::new(value).ok_or(RestoreError::Inconsistent("a QPN has more than 24 bits"))
}

pub(super) fn access(bits: u32) -> Result<Access, RestoreError> {
    Access::from_bits(bits).ok_or(RestoreError::Inconsistent("unknown access rights"))
}

pub(super) fn mtu(code: u32) -> Result<Mtu, RestoreError> {
    Mtu::from_code(code).ok_or(RestoreError::Inconsistent("an MTU is not 256 to 4096"))
}

pub(super) fn gid(bytes: &[u8]) -> Result<Gid, RestoreError> {
    let gid = bytes.try_into().map(Gid);
    gid.map_err(|_| RestoreError::Inconsistent("a GID has not 16 bytes"))
}

/// All statuses, for finding one by its code.
const STATUSES: [Status; 16] = [
    Status::Success,
    Status::LocLen,
    Status::LocQpOp,
    Status::LocProt,
    Status::WrFlush,
    Status::MwBind,
    Status::BadResp,
    Status::LocAccess,
    Status::RemInvReq,
    Status::RemAccess,
    Status::RemOp,
    Status::RetryExc,
    Status::RnrRetryExc,
    Status::RemAbort,
    Status::Fatal,
    Status::General,
];

/// Returns the status of a code, which has to mean failure.
pub(super) fn failure(code: u32) -> Result<Status, RestoreError> {
    let found = STATUSES[1..].iter().find(|status| **status as u32 == code);
    found
        .copied()
        .ok_or(RestoreError::Inconsistent("unknown status of a failure"))
}

pub(super) fn qp_type_code(qp_type: QpType) -> u32 {
    match qp_type {
        QpType::Gsi => 0,
        QpType::Rc => 1,
        QpType::Ud => 2,
        QpType::Uc => 3,
    }
}

pub(super) fn qp_type(code: u32) -> Result<QpType, RestoreError> {
    Ok(match code {
        0 => QpType::Gsi,
        1 => QpType::Rc,
        2 => QpType::Ud,
        3 => QpType::Uc,
        _ => return Err(RestoreError::Inconsistent("unknown queue pair type")),
    })
}

pub(super) fn save_limits(limits: &Limits) -> record::Limits {
    record::Limits {
        pds: limits.pds,
        mrs: limits.mrs,
        cqs: limits.cqs,
        qps: limits.qps,
        srqs: limits.srqs,
        gids: limits.gids,
        rd_atomic: limits.rd_atomic.into(),
        message_bytes: limits.message_bytes,
        port_mtu: limits.port_mtu.code(),
    }
}

pub(super) fn restore_limits(saved: &record::Limits) -> Result<Limits, RestoreError> {
    Ok(Limits {
        pds: saved.pds,
        mrs: saved.mrs,
        cqs: saved.cqs,
        qps: saved.qps,
        srqs: saved.srqs,
        gids: saved.gids,
        rd_atomic: narrow(saved.rd_atomic, "a limit of READs is too large")?,
        message_bytes: saved.message_bytes,
        port_mtu: mtu(saved.port_mtu)?,
    })
}

pub(super) fn save_address(address: &Address) -> record::Address {
    record::Address {
        dgid: address.dgid.0.to_vec(),
        sgid_index: address.sgid_index.into(),
        hop_limit: address.hop_limit.into(),
        traffic_class: address.traffic_class.into(),
        flow_label: address.flow_label,
        sl: address.sl.into(),
        port: address.port.into(),
        dmac: Vec::from(address.dmac),
    }
}

pub(super) fn restore_address(saved: &record::Address) -> Result<Address, RestoreError> {
    const WHAT: &str = "a field of an address is too large";
    let dmac = saved.dmac.as_slice().try_into();
    Ok(Address {
        dgid: gid(&saved.dgid)?,
        sgid_index: narrow(saved.sgid_index, WHAT)?,
        hop_limit: narrow(saved.hop_limit, WHAT)?,
        traffic_class: narrow(saved.traffic_class, WHAT)?,
        flow_label: saved.flow_label,
        sl: narrow(saved.sl, WHAT)?,
        port: narrow(saved.port, WHAT)?,
        dmac: dmac.map_err(|_| RestoreError::Inconsistent("a MAC has not 6 bytes"))?,
    })
}

pub(super) fn save_attr(attr: &QpAttr) -> record::Attr {
    record::Attr {
        state: attr.state as u32,
        sqd_event: attr.sqd_event,
        access: attr.access.bits(),
        pkey_index: attr.pkey_index.into(),
        port: attr.port.into(),
        qkey: attr.qkey.0,
        address: save_address(&attr.address),
        path_mtu: attr.path_mtu.code(),
        timeout: attr.timeout.into(),
        retry_count: attr.retry_count.into(),
        rnr_retry: attr.rnr_retry.into(),
        rq_psn: attr.rq_psn.get(),
        sq_psn: attr.sq_psn.get(),
        max_rd_atomic: attr.max_rd_atomic.into(),
        max_dest_rd_atomic: attr.max_dest_rd_atomic.into(),
        min_rnr_timer: attr.min_rnr_timer.into(),
        dest_qpn: attr.dest_qpn.get(),
    }
}

pub(super) fn restore_attr(saved: &record::Attr) -> Result<QpAttr, RestoreError> {
    const WHAT: &str = "an attribute is too large";
    let state = QpState::from_code(saved.state);
    Ok(QpAttr {
        state: state.ok_or(RestoreError::Inconsistent("unknown queue pair state"))?,
        current_state: QpState::default(),
        sqd_event: saved.sqd_event,
        access: access(saved.access)?,
        pkey_index: narrow(saved.pkey_index, WHAT)?,
        port: narrow(saved.port, WHAT)?,
        qkey: Qkey(saved.qkey),
        address: restore_address(&saved.address)?,
        path_mtu: mtu(saved.path_mtu)?,
        timeout: narrow(saved.timeout, WHAT)?,
        retry_count: narrow(saved.retry_count, WHAT)?,
        rnr_retry: narrow(saved.rnr_retry, WHAT)?,
        rq_psn: psn(saved.rq_psn)?,
        sq_psn: psn(saved.sq_psn)?,
        max_rd_atomic: narrow(saved.max_rd_atomic, WHAT)?,
        max_dest_rd_atomic: narrow(saved.max_dest_rd_atomic, WHAT)?,
        min_rnr_timer: narrow(saved.min_rnr_timer, WHAT)?,
        dest_qpn: qpn(saved.dest_qpn)?,
        path_migration: PathMigration::Migrated,
        sq_draining: false,
    })
}
