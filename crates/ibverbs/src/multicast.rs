//! Multicast groups of datagram queue pairs.

use core::ffi::c_int;

use vrdma_provider::message::{AttachMcast, Call, DetachMcast};

use crate::abi;
use crate::errno;
use crate::qp::QueuePair;

/// Asks the daemon to do something with a queue pair and a group.
///
/// # Safety
/// `qp` came from this library, and `gid` points to a GID.
unsafe fn ask<T: Call>(
    qp: *mut abi::Qp,
    gid: *const abi::Gid,
    request: impl FnOnce(u32, [u8; 16]) -> T,
) -> c_int {
    // SAFETY: as the caller promises.
    let (found, gid) = unsafe { (QueuePair::of(qp), (*gid).raw) };
    errno::number(found.and_then(|(queue_pair, device)| {
        device.call(&request(queue_pair.handle, gid))?;
        Ok(())
    }))
}

/// `ibv_attach_mcast`.
///
/// # Safety
/// `qp` came from this library, and `gid` points to a GID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(
    qp: *mut abi::Qp,
    gid: *const abi::Gid,
    lid: u16,
) -> c_int {
    let lid = lid.into();
    // SAFETY: as the caller promises.
    unsafe { ask(qp, gid, |qp, gid| AttachMcast { qp, lid, gid }) }
}

/// `ibv_detach_mcast`.
///
/// # Safety
/// `qp` came from this library, and `gid` points to a GID.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(
    qp: *mut abi::Qp,
    gid: *const abi::Gid,
    lid: u16,
) -> c_int {
    let lid = lid.into();
    // SAFETY: as the caller promises.
    unsafe { ask(qp, gid, |qp, gid| DetachMcast { qp, lid, gid }) }
}
