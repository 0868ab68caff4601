//! Queue pairs: making, changing and destroying them, and posting receives.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use vrdma_provider::area::Area;
use vrdma_provider::client::{Full, ReceiveQueue, SendQueue};
use vrdma_provider::message::{
    AttachMcast, CreateQp, DestroyQp, DetachMcast, ModifyQp, QpCapacity, QpReply, QueryQp,
};

use crate::abi;
use crate::cq::CompletionQueue;
use crate::errno::{self, Errno, Result};
use crate::event::{Acknowledged, HandedOut};
use crate::lookup::Object;
use crate::memory::leak;
use crate::open::OpenDevice;
use crate::qp_attributes::{self, capacity};
use crate::qp_ex::Builder;
use crate::request::buffers;
use crate::send::SendSide;

/// `IBV_QPS_RESET`.
const RESET: c_uint = 0;
/// `IBV_QP_STATE` of `enum ibv_qp_attr_mask`.
const STATE: c_int = 1;

/// What `ibv_create_qp` returns a pointer to.
#[repr(C)]
pub struct QueuePair {
    pub(crate) ex: UnsafeCell<abi::QpEx>,
    pub(crate) send: Mutex<SendSide>,
    recv: Mutex<Option<ReceiveQueue>>,
    handle: u32,
    cookie: u64,
    pub(crate) doorbell: u32,
    pub(crate) service: c_uint,
    pub(crate) pd: u32,
    pub(crate) capacity: QpCapacity,
    signal_all: bool,
    /// Whether it was made for `ibv_wr_*`.
    pub(crate) is_extended: bool,
    pub(crate) async_events: HandedOut,
}

/// What the creator of a queue pair wants.
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

    /// Where events are acknowledged.
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

    fn public_state(&self) -> &AtomicU32 {
        // SAFETY: an aligned field of a structure that is there; the program only reads it.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.ex.get()).qp_base.state) }
    }

    /// The state as the program set it last; the daemon may know better.
    #[inline]
    pub(crate) fn state(&self) -> c_uint {
        self.public_state().load(Ordering::Relaxed)
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
        let area = Arc::new(Area::map(memory.as_fd(), reply.bytes as usize)?);
        let queue = SendQueue::new(Arc::clone(&area), reply.send)?;
        let recv = if reply.recv.slots == 0 {
            None
        } else {
            Some(ReceiveQueue::new(area, reply.recv)?)
        };
        wanted.attr.cap = qp_attributes::cap(&reply.capacity);
        let pointer: *mut abi::Qp = leak(Self {
            ex: UnsafeCell::new(blank(device, wanted, &reply)),
            send: Mutex::new(SendSide {
                queue,
                builder: Builder::default(),
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

    /// Drops completions of this one that nobody polled.
    ///
    /// # Safety
    /// `qp` is this one's public pointer.
    unsafe fn forget_completions(qp: *mut abi::Qp) {
        // SAFETY: as promised; its CQs outlive it.
        let (send_cq, recv_cq, number) = unsafe { ((*qp).send_cq, (*qp).recv_cq, (*qp).qp_num) };
        let both = [Some(send_cq), (recv_cq != send_cq).then_some(recv_cq)];
        for cq in both.into_iter().flatten() {
            // SAFETY: as above, and the program keeps the buffers of its other requests.
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
        crate::qp_ex::fill(&mut ex);
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
        device.call(&ModifyQp {
            qp: queue_pair.handle,
            mask: mask as u32,
            attributes,
        })?;
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

/// The rings start at zero again, and completions of the past are gone (IBTA 1.8, 10.3.1.1).
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

/// `ibv_destroy_qp`: waits until all its events are acknowledged.
///
/// # Safety
/// `qp` came from this library and is given up on success.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut abi::Qp) -> c_int {
    // SAFETY: as the caller promises.
    let outcome = unsafe { QueuePair::of(qp) }.and_then(|(queue_pair, device)| {
        device.call(&DestroyQp {
            qp: queue_pair.handle,
        })?;
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

/// Pushes a chain of receives; the first that fails is the second value.
///
/// # Safety
/// A chain of valid requests.
pub(crate) unsafe fn push_receives(
    queue: &mut ReceiveQueue,
    first: *mut abi::RecvWr,
) -> (Result<()>, *mut abi::RecvWr) {
    let mut next = first;
    // SAFETY: null or the next request of the chain.
    while let Some(request) = unsafe { next.as_ref() } {
        // SAFETY: a valid request names its buffers.
        let buffers = unsafe { buffers(request.sg_list, request.num_sge) };
        if buffers.len() > queue.buffers() {
            return (Err(Errno(libc::EINVAL)), next);
        }
        if let Err(Full) = queue.push(request.wr_id, buffers) {
            return (Err(Errno(libc::ENOMEM)), next);
        }
        next = request.next;
    }
    (Ok(()), next)
}

/// # Safety
/// A chain of valid requests.
unsafe fn post(
    queue_pair: &QueuePair,
    device: &OpenDevice,
    first: *mut abi::RecvWr,
) -> (Result<()>, *mut abi::RecvWr) {
    if queue_pair.state() == RESET {
        return (Err(Errno(libc::EINVAL)), first);
    }
    let mut guard = queue_pair.recv.lock();
    let Some(queue) = guard.as_mut() else {
        return (Err(Errno(libc::EINVAL)), first);
    };
    // SAFETY: as promised.
    let (outcome, next) = unsafe { push_receives(queue, first) };
    let must_ring = queue.publish();
    drop(guard);
    if must_ring {
        device.ringer.ring(queue_pair.doorbell);
    }
    (outcome, next)
}

/// `ops.post_recv`.
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut abi::Qp,
    first: *mut abi::RecvWr,
    bad: *mut *mut abi::RecvWr,
) -> c_int {
    // SAFETY: the header's wrapper passes a queue pair.
    let (outcome, failed) = match unsafe { QueuePair::of(qp) } {
        // SAFETY: and a chain of requests.
        Ok((queue_pair, device)) => unsafe { post(queue_pair, device, first) },
        Err(error) => (Err(error), first),
    };
    if outcome.is_err() {
        // SAFETY: the place is the caller's.
        unsafe { bad.write(failed) };
    }
    errno::number(outcome)
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
