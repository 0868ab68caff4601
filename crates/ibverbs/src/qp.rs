//! Queue pairs and their creation.

#[cfg(test)]
mod tests;

use core::cell::UnsafeCell;
use core::ffi::c_uint;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use vrdma_provider::client::{QueueMemory, ReceiveQueue, SendQueue};
use vrdma_provider::layout::{SendHeader, send_flag};
use vrdma_provider::message::{CreateQp, QpCapacity, QpReply};

use crate::abi;
use crate::builder::Builder;
use crate::cq::CompletionQueue;
use crate::errno::{self, Errno, Result};
use crate::event::{Acknowledged, HandedOut};
use crate::fast::Peer;
use crate::lookup::Object;
use crate::memory::leak;
use crate::open::OpenDevice;
use crate::qp_attributes::{self, capacity};
use crate::send::SendSide;

/// `IBV_QPS_RESET`.
pub(crate) const RESET: c_uint = 0;
/// The structure that `ibv_create_qp` returns a pointer to.
#[repr(C)]
pub struct QueuePair {
    pub(crate) ex: UnsafeCell<abi::QpEx>,
    pub(crate) send: Mutex<SendSide>,
    pub(crate) recv: Mutex<Option<ReceiveQueue>>,
    pub(crate) handle: u32,
    pub(crate) cookie: u64,
    pub(crate) doorbell: u32,
    pub(crate) service: c_uint,
    pub(crate) pd: u32,
    pub(crate) capacity: QpCapacity,
    pub(crate) signal_all: bool,
    /// Whether it was made for `ibv_wr_*`.
    pub(crate) is_extended: bool,
    pub(crate) async_events: HandedOut,
}

/// Attributes that the creator of a queue pair asks for.
pub(crate) struct Wanted {
    pub(crate) pd: *mut abi::Pd,
    pub(crate) attr: abi::QpInitAttr,
    pub(crate) is_extended: bool,
}

impl QueuePair {
    /// # Safety
    /// `qp` came from this library and is not destroyed yet.
    #[inline]
    pub(crate) unsafe fn of<'a>(qp: *mut abi::Qp) -> Result<(&'a Self, &'a OpenDevice)> {
        // SAFETY: such a pointer is to the first field of a `QueuePair`, whose context is open.
        unsafe { Ok((&*qp.cast::<Self>(), OpenDevice::of((*qp).context)?)) }
    }

    /// Returns where events are acknowledged.
    ///
    /// # Safety
    /// `qp` came from this library and is not destroyed yet.
    pub(crate) unsafe fn acknowledged(qp: *mut abi::Qp) -> Acknowledged {
        // SAFETY: fields of a structure that is there; no reference is made.
        unsafe {
            Acknowledged {
                mutex: &raw mut (*qp).mutex,
                condition: &raw mut (*qp).cond,
                count: &raw mut (*qp).events_completed,
            }
        }
    }

    pub(crate) fn public_state(&self) -> &AtomicU32 {
        // SAFETY: an aligned field of a structure that is there; the program only reads it.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.ex.get()).qp_base.state) }
    }

    /// Returns the state that the program set last; the daemon may know better.
    #[inline]
    pub(crate) fn state(&self) -> c_uint {
        self.public_state().load(Ordering::Relaxed)
    }

    pub(crate) fn number(&self) -> u32 {
        // SAFETY: a field of a structure that is there, which does not change.
        unsafe { (*self.ex.get()).qp_base.qp_num }
    }

    /// Returns the CQ where sends complete.
    pub(crate) fn send_cq(&self) -> Option<&CompletionQueue> {
        // SAFETY: a field that does not change; the program keeps the CQ as long as the queue pair.
        unsafe {
            (*self.ex.get())
                .qp_base
                .send_cq
                .cast::<CompletionQueue>()
                .as_ref()
        }
    }

    /// Returns the CQ where receives complete.
    pub(crate) fn recv_cq(&self) -> Option<&CompletionQueue> {
        // SAFETY: as above.
        unsafe {
            (*self.ex.get())
                .qp_base
                .recv_cq
                .cast::<CompletionQueue>()
                .as_ref()
        }
    }

    /// Notes that the daemon gets this request, and may owe a completion.
    pub(crate) fn owe(&self, header: &SendHeader) {
        let signaled = self.signal_all || header.flags & send_flag::SIGNALED != 0;
        if let Some(cq) = self.send_cq().filter(|_| signaled) {
            cq.ring.lock().owe();
        }
    }

    /// Makes a queue pair.
    ///
    /// # Safety
    /// The pointers in `wanted` are null or of this library.
    pub(crate) unsafe fn create(device: &OpenDevice, wanted: &mut Wanted) -> Result<*mut abi::Qp> {
        let cookie = device.lookup.cookie();
        // SAFETY: as promised.
        let request = unsafe { request(wanted, cookie)? };
        let answer = device.call_with(&request, &[])?;
        let reply = answer.body;
        let [memory] = <[OwnedFd; 1]>::try_from(answer.fds).map_err(|_| Errno(libc::EPROTO))?;
        let memory = QueueMemory::map(memory.as_fd(), reply.send.header, reply.bytes)?;
        let queue = SendQueue::new(memory.area(), memory.place(reply.send)?)?;
        let recv = if reply.recv.slots == 0 {
            None
        } else {
            Some(ReceiveQueue::new(memory.area(), memory.place(reply.recv)?)?)
        };
        wanted.attr.cap = qp_attributes::cap(&reply.capacity);
        let pointer: *mut abi::Qp = leak(Self {
            ex: UnsafeCell::new(blank(device, wanted, &reply)),
            send: Mutex::new(SendSide {
                queue,
                builder: Builder::default(),
                peer: Peer::default(),
            }),
            recv: Mutex::new(recv),
            handle: reply.qp,
            cookie,
            doorbell: reply.doorbell,
            service: wanted.attr.qp_type,
            pd: request.pd,
            capacity: reply.capacity,
            signal_all: wanted.attr.sq_sig_all != 0,
            is_extended: wanted.is_extended,
            async_events: HandedOut::default(),
        });
        device
            .lookup
            .insert(cookie, Object::Qp(pointer.cast::<Self>()));
        Ok(pointer)
    }

    /// Drops completions of this queue pair that nobody polled.
    ///
    /// # Safety
    /// `qp` is the public pointer of this queue pair.
    pub(crate) unsafe fn forget_completions(qp: *mut abi::Qp) {
        // SAFETY: as promised; its CQs outlive it.
        let (send_cq, recv_cq, number) = unsafe { ((*qp).send_cq, (*qp).recv_cq, (*qp).qp_num) };
        let both = [Some(send_cq), (recv_cq != send_cq).then_some(recv_cq)];
        for cq in both.into_iter().flatten() {
            // SAFETY: as above.
            unsafe {
                if let Ok((queue, _)) = CompletionQueue::of(cq) {
                    queue.ring.lock().forget(number);
                }
            }
        }
    }
}

/// # Safety
/// The pointers in `wanted` are null or of this library.
unsafe fn request(wanted: &Wanted, cookie: u64) -> Result<CreateQp> {
    let attr = &wanted.attr;
    // SAFETY: as promised.
    let (pd, send_cq, recv_cq, srq) = unsafe {
        (
            wanted.pd.as_ref(),
            attr.send_cq.as_ref(),
            attr.recv_cq.as_ref(),
            attr.srq.as_ref(),
        )
    };
    let (Some(pd), Some(send_cq), Some(recv_cq)) = (pd, send_cq, recv_cq) else {
        return Err(Errno(libc::EINVAL));
    };
    Ok(CreateQp {
        cookie,
        pd: pd.handle,
        qp_type: attr.qp_type,
        send_cq: send_cq.handle,
        recv_cq: recv_cq.handle,
        srq: srq.map_or(0, |srq| srq.handle),
        has_srq: (!attr.srq.is_null()).into(),
        signal_all: (attr.sq_sig_all != 0).into(),
        capacity: capacity(&attr.cap),
    })
}

fn blank(device: &OpenDevice, wanted: &Wanted, reply: &QpReply) -> abi::QpEx {
    // SAFETY: numbers, pointers, optional functions, and a mutex and a condition that zero
    // initialises on Linux.
    let mut ex: abi::QpEx = unsafe { core::mem::zeroed() };
    let base = &mut ex.qp_base;
    base.context = device.context();
    base.qp_context = wanted.attr.qp_context;
    base.pd = wanted.pd;
    base.send_cq = wanted.attr.send_cq;
    base.recv_cq = wanted.attr.recv_cq;
    base.srq = wanted.attr.srq;
    base.handle = reply.qp;
    base.qp_num = reply.qp_num;
    base.state = RESET;
    base.qp_type = wanted.attr.qp_type;
    if wanted.is_extended {
        crate::wr::fill(&mut ex);
    }
    ex
}

/// `ibv_create_qp`.
///
/// # Safety
/// `pd` came from this library, and `attr` points to attributes with objects of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut abi::Pd,
    attr: *mut abi::QpInitAttr,
) -> *mut abi::Qp {
    // SAFETY: as the caller promises; the domain's context is open as long as it exists.
    let made = unsafe { OpenDevice::of((*pd).context) }.and_then(|device| {
        // SAFETY: as the caller promises.
        let copy = unsafe { *attr };
        let mut wanted = Wanted {
            pd,
            attr: copy,
            is_extended: false,
        };
        // SAFETY: as the caller promises.
        let qp = unsafe { QueuePair::create(device, &mut wanted)? };
        // SAFETY: as the caller promises.
        unsafe { (*attr).cap = wanted.attr.cap };
        Ok(qp)
    });
    errno::pointer(made)
}
