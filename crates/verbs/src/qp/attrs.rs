//! Values of attributes: which are allowed, and which of them a mask copies.

use crate::attr::{Address, AttrMask, PathMigration, QpAttr, QpState};
use crate::error::Error;
use crate::object::{Limits, QpType};
use crate::qp::state::transition;
use crate::shared::Shared;

/// Largest time-out exponent: five bits (IBTA 9.7.6.1.3).
const TIMEOUT_MAX: u8 = 31;
/// Largest retry counts: three bits; for an unready receiver, 7 means for ever (IBTA 9.9.2).
const RETRIES_MAX: u8 = 7;
/// Largest RNR timer code: five bits (IBTA table 45).
const RNR_TIMER_MAX: u8 = 31;
/// The only port.
pub(crate) const PORT: u8 = 1;

/// Returns the state that a modify asks for, if it may be reached that way.
pub(crate) fn target_state(
    qp_type: QpType,
    from: QpState,
    attr: &QpAttr,
    mask: AttrMask,
) -> Result<QpState, Error> {
    let to = if mask.contains(AttrMask::STATE) {
        attr.state
    } else {
        from
    };
    let masks = transition(qp_type, from, to).ok_or(Error::InvalidTransition)?;
    let allowed = masks.required | masks.optional | AttrMask::STATE;
    let believed = !mask.contains(AttrMask::CUR_STATE) || attr.current_state == from;
    (allowed.contains(mask) && mask.contains(masks.required) && believed)
        .then_some(to)
        .ok_or(Error::InvalidTransition)
}

/// Whether every attribute that the mask names has an allowed value.
pub(crate) fn check_values<R>(
    shared: &Shared<R>,
    attr: &QpAttr,
    mask: AttrMask,
) -> Result<(), Error> {
    let path_is_wrong = mask.contains(AttrMask::AV) && !path_is_valid(shared, &attr.address);
    (values_are_valid(&shared.limits, attr, mask) && !path_is_wrong)
        .then_some(())
        .ok_or(Error::InvalidAttribute)
}

/// Whether the numbers that the mask names are in their ranges.
pub(crate) fn values_are_valid(limits: &Limits, attr: &QpAttr, mask: AttrMask) -> bool {
    mask.iter().all(|flag| value_is_valid(limits, attr, flag))
}

fn value_is_valid(limits: &Limits, attr: &QpAttr, flag: AttrMask) -> bool {
    match flag {
        AttrMask::PKEY_INDEX => attr.pkey_index == 0,
        AttrMask::PORT => attr.port == PORT,
        AttrMask::PATH_MTU => attr.path_mtu <= limits.port_mtu,
        AttrMask::TIMEOUT => attr.timeout <= TIMEOUT_MAX,
        AttrMask::RETRY_CNT => attr.retry_count <= RETRIES_MAX,
        AttrMask::RNR_RETRY => attr.rnr_retry <= RETRIES_MAX,
        AttrMask::MIN_RNR_TIMER => attr.min_rnr_timer <= RNR_TIMER_MAX,
        AttrMask::MAX_QP_RD_ATOMIC => attr.max_rd_atomic <= limits.rd_atomic,
        AttrMask::PATH_MIG_STATE => attr.path_migration == PathMigration::Migrated,
        AttrMask::MAX_DEST_RD_ATOMIC => attr.max_dest_rd_atomic <= limits.rd_atomic,
        _ => true,
    }
}

/// Whether a path leads from a bound GID to one peer, as connections need.
fn path_is_valid<R>(shared: &Shared<R>, address: &Address) -> bool {
    address.port == PORT
        && shared.gid(address.sgid_index).is_some()
        && !address.dgid.is_zero()
        && !address.dgid.is_multicast()
}

/// Copies the attributes that the mask names.
pub(crate) fn apply(to: &mut QpAttr, from: &QpAttr, mask: AttrMask) {
    for flag in mask.iter() {
        apply_one(to, from, flag);
    }
}

fn apply_one(to: &mut QpAttr, from: &QpAttr, flag: AttrMask) {
    match flag {
        AttrMask::EN_SQD_ASYNC_NOTIFY => to.sqd_event = from.sqd_event,
        AttrMask::ACCESS_FLAGS => to.access = from.access,
        AttrMask::PKEY_INDEX => to.pkey_index = from.pkey_index,
        AttrMask::PORT => to.port = from.port,
        AttrMask::QKEY => to.qkey = from.qkey,
        AttrMask::AV => to.address = from.address,
        AttrMask::PATH_MTU => to.path_mtu = from.path_mtu,
        AttrMask::TIMEOUT => to.timeout = from.timeout,
        AttrMask::RETRY_CNT => to.retry_count = from.retry_count,
        AttrMask::RNR_RETRY => to.rnr_retry = from.rnr_retry,
        AttrMask::RQ_PSN => to.rq_psn = from.rq_psn,
        AttrMask::SQ_PSN => to.sq_psn = from.sq_psn,
        AttrMask::MAX_QP_RD_ATOMIC => to.max_rd_atomic = from.max_rd_atomic,
        AttrMask::MAX_DEST_RD_ATOMIC => to.max_dest_rd_atomic = from.max_dest_rd_atomic,
        AttrMask::MIN_RNR_TIMER => to.min_rnr_timer = from.min_rnr_timer,
        AttrMask::DEST_QPN => to.dest_qpn = from.dest_qpn,
        _ => {}
    }
}
