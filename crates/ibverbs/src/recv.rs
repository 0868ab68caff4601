//! Posting receives.

#[cfg(test)]
pub(crate) mod tests;

use core::ffi::c_int;

use vrdma_provider::client::{Full, ReceiveQueue};

use crate::abi;
use crate::adopt::unmapped;
use crate::errno::Errno;
use crate::open::OpenDevice;
use crate::qp::{QueuePair, RESET};
use crate::request::{Posted, buffers, report};

/// Pushes a chain of receives of at most `max_sge` buffers each, up to the first receive that fails.
///
/// # Safety
/// A chain of valid requests.
pub(crate) unsafe fn push_receives(
    queue: &mut ReceiveQueue,
    max_sge: u32,
    first: *mut abi::RecvWr,
) -> Posted<abi::RecvWr> {
    let mut next = first;
    // SAFETY: null or the next request of the chain.
    while let Some(request) = unsafe { next.as_ref() } {
        // SAFETY: a valid request names its buffers.
        let buffers = unsafe { buffers(request.sg_list, request.num_sge) };
        if buffers.len() > max_sge as usize {
            return Posted::failed(Errno(libc::EINVAL), next);
        }
        if let Err(Full) = queue.push(request.wr_id, buffers) {
            return Posted::failed(Errno(libc::ENOMEM), next);
        }
        next = request.next;
    }
    Posted {
        outcome: Ok(()),
        bad_wr: next,
    }
}

/// # Safety
/// A chain of valid requests.
unsafe fn post(
    queue_pair: &QueuePair,
    device: &OpenDevice,
    first: *mut abi::RecvWr,
) -> Posted<abi::RecvWr> {
    if queue_pair.state() == RESET {
        return Posted::failed(Errno(libc::EINVAL), first);
    }
    unmapped::adopt_what_came();
    let mut guard = queue_pair.recv.lock();
    let Some(queue) = guard.as_mut() else {
        return Posted::failed(Errno(libc::EINVAL), first);
    };
    // SAFETY: as promised.
    let posted = unsafe { push_receives(queue, queue_pair.capacity.max_recv_sge, first) };
    let must_ring = queue.publish();
    drop(guard);
    if must_ring {
        device.ringer.ring(queue_pair.doorbell);
    }
    posted
}

/// `ops.post_recv`.
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut abi::Qp,
    first: *mut abi::RecvWr,
    bad: *mut *mut abi::RecvWr,
) -> c_int {
    // SAFETY: the header's wrapper passes a queue pair.
    let posted = match unsafe { QueuePair::of(qp) } {
        // SAFETY: and a chain of requests.
        Ok((queue_pair, device)) => unsafe { post(queue_pair, device, first) },
        Err(error) => Posted::failed(error, first),
    };
    // SAFETY: the place is the caller's.
    unsafe { report(posted, bad) }
}
