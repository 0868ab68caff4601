//! The end of a device whose daemon is gone: as of one that is pulled out (IBTA 11.6.3.2, local catastrophic error).
//!
//! ```text
//!   daemon ends ─► poll_cq: each request that was not done, with IBV_WC_WR_FLUSH_ERR
//!               ─► ibv_get_async_event: IBV_EVENT_DEVICE_FATAL once
//!               ─► ibv_get_cq_event: one for each CQ that was armed, then EIO once
//! ```
//! The descriptors of events end with the daemon and would stay readable for ever: after the last event each is
//! replaced by one that never has anything. The queues are still mapped, so posted requests are found there. Receives
//! of shared queues are not flushed, nor is a receive that a message had begun to fill.

#[cfg(test)]
mod tests;

use core::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use vrdma_provider::layout::Completion;

use crate::abi;
use crate::cq::CompletionQueue;
use crate::errno::{Errno, Result};
use crate::lookup::Object;
use crate::open::OpenDevice;
use crate::qp::QueuePair;

/// `IBV_WC_WR_FLUSH_ERR`.
const WR_FLUSH_ERR: u32 = 5;

/// `IBV_WC_RECV`.
const RECV: u32 = 1 << 7;

/// `IBV_EVENT_DEVICE_FATAL`.
pub(crate) const DEVICE_FATAL: u32 = 8;

/// Whether the daemon of a device is gone, and whether the program was told.
#[derive(Default)]
pub(crate) struct Lost {
    is_lost: AtomicBool,
    is_told: AtomicBool,
}

impl Lost {
    /// Whether the daemon is known to be gone, by the checks so far.
    #[inline]
    pub(crate) fn is_known(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Notes that the daemon is gone.
    pub(crate) fn note(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    /// Whether the caller is the one that tells the program.
    pub(crate) fn tells(&self) -> bool {
        self.note();
        !self.is_told.swap(true, Ordering::Relaxed)
    }
}

/// Whether the other end of a socket has hung up, or does within `patience` milliseconds.
pub(crate) fn has_hung_up(socket: BorrowedFd<'_>, patience: c_int) -> bool {
    let mut socket = libc::pollfd {
        fd: socket.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: one entry, which is ours.
    let ready = unsafe { libc::poll(&raw mut socket, 1, patience) };
    ready > 0 && socket.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

/// Returns a completion of a request that the daemon did not carry out; `None` if the CQ has no more of them.
#[cold]
pub(crate) fn flushed(device: &OpenDevice, cq: &CompletionQueue) -> Option<Completion> {
    device.lookup.find(|object| match object {
        // SAFETY: an object that is found is there until the lookup's lock is released.
        Object::Qp(qp) => take_back(unsafe { &*qp }, cq),
        _ => None,
    })
}

fn take_back(queue_pair: &QueuePair, cq: &CompletionQueue) -> Option<Completion> {
    let is_here = |other: Option<&CompletionQueue>| other.is_some_and(|it| core::ptr::eq(it, cq));
    let send = is_here(queue_pair.send_cq())
        .then(|| queue_pair.send.lock().queue.take_back())
        .flatten();
    let ended = |wr_id, opcode| Completion {
        wr_id,
        opcode,
        status: WR_FLUSH_ERR,
        qp_num: queue_pair.number(),
        ..Completion::default()
    };
    if let Some(request) = send {
        return Some(ended(request.wr_id, 0));
    }
    if !is_here(queue_pair.recv_cq()) {
        return None;
    }
    let mut receives = queue_pair.recv.lock();
    let wr_id = receives.as_mut()?.take_back()?;
    Some(ended(wr_id, RECV))
}

/// Makes a descriptor never readable again, blocking or not as it was.
pub(crate) fn silence(fd: RawFd) -> Result<()> {
    // SAFETY: a socket that nobody sends to takes the number `fd`, which the program knows and which is open.
    unsafe {
        let silent = libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if silent < 0 || flags < 0 {
            return Err(Errno::last());
        }
        let set = libc::fcntl(silent, libc::F_SETFL, flags & libc::O_NONBLOCK);
        let replaced = libc::dup3(silent, fd, libc::O_CLOEXEC);
        libc::close(silent);
        match set < 0 || replaced < 0 {
            true => Err(Errno::last()),
            false => Ok(()),
        }
    }
}

/// Returns the event that the device is gone.
pub(crate) fn fatal() -> abi::AsyncEvent {
    abi::AsyncEvent {
        element: core::ptr::null_mut(),
        event_type: DEVICE_FATAL,
    }
}
