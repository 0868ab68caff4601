//! Multicast groups of datagram queue pairs.

use core::ffi::c_int;

use vrdma_provider::message::{AttachMcast, DetachMcast};

use crate::abi;
use crate::errno;
use crate::qp::QueuePair;

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
    // SAFETY: as the caller promises.
    let (found, gid) = unsafe { (QueuePair::of(qp), (*gid).raw) };
    errno::number(found.and_then(|(queue_pair, device)| {
        device
            .call(&AttachMcast {
                qp: queue_pair.handle,
                lid: lid.into(),
                gid,
            })
            .map(|_| ())
    }))
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
    // SAFETY: as the caller promises.
    let (found, gid) = unsafe { (QueuePair::of(qp), (*gid).raw) };
    errno::number(found.and_then(|(queue_pair, device)| {
        device
            .call(&DetachMcast {
                qp: queue_pair.handle,
                lid: lid.into(),
                gid,
            })
            .map(|_| ())
    }))
}
