//! Checks of records that need no guest memory: that they belong to this adapter, and that there are not too many.

use prost::Message;
use vrdma_verbs::saved::{RestoreError, read_frame};

use super::{Kind, Past, SavedRecord, record};
use crate::config::DeviceConfig;
use crate::config_space::CONFIG_BYTES;

/// The configuration space in the record of a device's registers.
pub(crate) fn config_space_of(records: &[SavedRecord]) -> Option<[u8; CONFIG_BYTES]> {
    let registers = Past::new(records).get(Kind::Registers, 0)?;
    let registers = record::Registers::decode(registers).ok()?;
    registers.config_space.try_into().ok()
}

/// Checks whether a device of this configuration may have these records.
///
/// # Errors
/// They belong to another adapter, or to one with higher limits, or are more than it may have.
pub(crate) fn check(records: &[SavedRecord], config: &DeviceConfig) -> Result<(), RestoreError> {
    let past = Past::new(records);
    let limits = &config.limits;
    let bounds = [
        (Kind::Context, limits.uar_pages),
        (Kind::Pd, limits.pds),
        (Kind::Mr, limits.mrs),
        (Kind::CqRequest, limits.cqs),
        (Kind::Cq, limits.cqs),
        (Kind::SrqRequest, limits.srqs),
        (Kind::QpRequest, limits.qps),
        (Kind::Qp, limits.qps),
    ];
    if (bounds.iter()).any(|(kind, most)| past.count(*kind) > *most as usize) {
        return Err(RestoreError::Inconsistent(
            "there are more objects than an adapter may have",
        ));
    }
    match past.count(Kind::Frame) {
        0 => Ok(()),
        _ => check_frame(&past.frame(), config),
    }
}

/// Checks the frame before an engine is made from it.
pub(super) fn check_frame(frame: &[u8], config: &DeviceConfig) -> Result<(), RestoreError> {
    let (mac, saved) = read_frame(frame)?;
    let own = crate::adapter::engine_limits(config);
    let fits = saved.pds <= own.pds
        && saved.mrs <= own.mrs
        && saved.cqs <= own.cqs
        && saved.qps <= own.qps
        && saved.srqs <= own.srqs
        && saved.gids <= own.gids
        && saved.rd_atomic <= own.rd_atomic
        && saved.message_bytes <= own.message_bytes;
    if mac != config.identity.mac {
        return Err(RestoreError::Inconsistent(
            "the engine has another MAC address",
        ));
    }
    match fits {
        true => Ok(()),
        false => Err(RestoreError::Inconsistent(
            "the engine has other limits than this adapter",
        )),
    }
}
