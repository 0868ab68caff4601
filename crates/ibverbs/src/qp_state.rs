//! Changing, querying and destroying queue pairs.

#[cfg(test)]
mod tests;

use core::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::Ordering;

use vrdma_provider::message::{DestroyQp, ModifyQp, QueryQp};

use crate::abi;
use crate::errno::{self, Errno};
use crate::memory::patiently;
use crate::qp::{QueuePair, RESET};
use crate::qp_attributes;

/// `IBV_QP_STATE` of `enum ibv_qp_attr_mask`.
const STATE: c_int = 1;

/// `ibv_modify_qp`.
///
/// # Safety
/// `qp` came from this library, and `attr` points to attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut abi::Qp,
    attr: *mut abi::QpAttr,
    mask: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let (found, attr) = unsafe { (QueuePair::of(qp), &*attr) };
    let outcome = found.and_then(|(queue_pair, device)| {
        let attributes = qp_attributes::to_daemon(attr);
        if device.grants.is_some() {
            queue_pair.send.lock().peer.forget();
        }
        let request = ModifyQp {
            qp: queue_pair.handle,
            mask: mask as u32,
            attributes,
        };
        patiently(|| device.call(&request))?;
        if mask & STATE != 0 {
            if attr.qp_state == RESET {
                reset(queue_pair, qp);
            }
            queue_pair
                .public_state()
                .store(attr.qp_state, Ordering::Relaxed);
        }
        Ok(())
    });
    errno::number(outcome)
}

/// Starts the rings at zero again, and drops completions of the past (IBTA 1.8, 10.3.1).
fn reset(queue_pair: &QueuePair, qp: *mut abi::Qp) {
    queue_pair.send.lock().queue.reset();
    if let Some(queue) = queue_pair.recv.lock().as_mut() {
        queue.reset();
    }
    // SAFETY: the public pointer of this queue pair.
    unsafe { QueuePair::forget_completions(qp) };
}

/// `ibv_query_qp`.
///
/// # Safety
/// `qp` came from this library, and the others point to structures to fill.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut abi::Qp,
    attr: *mut abi::QpAttr,
    _mask: c_int,
    init: *mut abi::QpInitAttr,
) -> c_int {
    // SAFETY: as the caller promises.
    let outcome = unsafe { QueuePair::of(qp) }.and_then(|(queue_pair, device)| {
        let reply = device.call(&QueryQp {
            qp: queue_pair.handle,
        })?;
        let found = qp_attributes::from_daemon(&reply.attributes, &reply.capacity);
        queue_pair
            .public_state()
            .store(found.qp_state, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe {
            attr.write(found);
            init.write(abi::QpInitAttr {
                qp_context: (*qp).qp_context,
                send_cq: (*qp).send_cq,
                recv_cq: (*qp).recv_cq,
                srq: (*qp).srq,
                cap: found.cap,
                qp_type: queue_pair.service,
                sq_sig_all: queue_pair.signal_all.into(),
            });
        }
        Ok(())
    });
    errno::number(outcome)
}

/// `ibv_destroy_qp`: waits until all its events are acknowledged, and nothing is written to its buffers any more.
///
/// # Safety
/// `qp` came from this library and is given up on success.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut abi::Qp) -> c_int {
    // SAFETY: as the caller promises.
    let outcome = unsafe { QueuePair::of(qp) }.and_then(|(queue_pair, device)| {
        let request = DestroyQp {
            qp: queue_pair.handle,
        };
        patiently(|| device.call(&request))?;
        device.lookup.remove(queue_pair.cookie);
        // SAFETY: the structure is there until the end of this function.
        unsafe {
            QueuePair::forget_completions(qp);
            queue_pair.async_events.wait(QueuePair::acknowledged(qp));
        }
        Ok(())
    });
    if outcome.is_ok() {
        // SAFETY: made by `leak`, and no longer anybody's.
        drop(unsafe { Box::from_raw(qp.cast::<QueuePair>()) });
    }
    errno::number(outcome)
}

/// `ibv_set_ece`: there are no extras to agree on.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_set_ece(_qp: *mut abi::Qp, _ece: *mut abi::Ece) -> c_int {
    errno::number(Err(Errno(libc::EOPNOTSUPP)))
}

/// `ibv_query_ece`.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_ece(_qp: *mut abi::Qp, _ece: *mut abi::Ece) -> c_int {
    errno::number(Err(Errno(libc::EOPNOTSUPP)))
}

/// `ibv_query_qp_data_in_order`: bytes may become visible in any order, except the last ones.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_qp_data_in_order(
    _qp: *mut c_void,
    _operation: c_uint,
    _flags: u32,
) -> c_int {
    0
}
