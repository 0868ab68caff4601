//! Shared receive queues.

#[cfg(test)]
mod tests;

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use std::os::fd::{AsFd, OwnedFd};

use parking_lot::Mutex;
use vrdma_provider::client::{QueueMemory, ReceiveQueue};
use vrdma_provider::message::{CreateSrq, DestroySrq, ModifySrq, QuerySrq};

use crate::abi;
use crate::adopt::unmapped;
use crate::errno::{self, Errno, Result};
use crate::event::{Acknowledged, HandedOut};
use crate::lookup::Object;
use crate::memory::leak;
use crate::open::OpenDevice;
use crate::recv::push_receives;
use crate::request::{Posted, report};

/// Attributes of `enum ibv_srq_init_attr_mask` that are known: type and domain.
const KNOWN: u32 = 3;
const TYPE: u32 = 1;
const PD: u32 = 2;

/// The structure that `ibv_create_srq` returns a pointer to.
#[repr(C)]
pub struct SharedQueue {
    abi: UnsafeCell<abi::Srq>,
    queue: Mutex<ReceiveQueue>,
    max_sge: u32,
    handle: u32,
    number: u32,
    cookie: u64,
    pub(crate) async_events: HandedOut,
}

impl SharedQueue {
    /// # Safety
    /// `srq` came from this library and is not destroyed yet.
    unsafe fn of<'a>(srq: *mut abi::Srq) -> Result<(&'a Self, &'a OpenDevice)> {
        // SAFETY: such a pointer is to the first field of a `SharedQueue`, whose context is open.
        unsafe { Ok((&*srq.cast::<Self>(), OpenDevice::of((*srq).context)?)) }
    }

    /// Returns where events are acknowledged.
    ///
    /// # Safety
    /// `srq` came from this library and is not destroyed yet.
    pub(crate) unsafe fn acknowledged(srq: *mut abi::Srq) -> Acknowledged {
        // SAFETY: fields of a structure that is there; no reference is made.
        unsafe {
            Acknowledged {
                mutex: &raw mut (*srq).mutex,
                condition: &raw mut (*srq).cond,
                count: &raw mut (*srq).events_completed,
            }
        }
    }

    /// Makes an SRQ, and writes the capacities that it got to `attr`.
    ///
    /// # Safety
    /// `pd` came from this library.
    unsafe fn create(
        device: &OpenDevice,
        pd: *mut abi::Pd,
        srq_context: *mut c_void,
        attr: &mut abi::SrqAttr,
    ) -> Result<*mut abi::Srq> {
        let cookie = device.lookup.cookie();
        let answer = device.call_with(
            &CreateSrq {
                cookie,
                // SAFETY: as promised.
                pd: unsafe { (*pd).handle },
                max_wr: attr.max_wr,
                max_sge: attr.max_sge,
                limit: attr.srq_limit,
            },
            &[],
        )?;
        let reply = answer.body;
        let [memory] = <[OwnedFd; 1]>::try_from(answer.fds).map_err(|_| Errno(libc::EPROTO))?;
        let memory = QueueMemory::map(memory.as_fd(), reply.ring.header, reply.bytes)?;
        let queue = Mutex::new(ReceiveQueue::new(memory.area(), memory.place(reply.ring)?)?);
        attr.max_wr = reply.ring.slots;
        attr.max_sge = reply.max_sge;
        // SAFETY: numbers, pointers, and a mutex and a condition that zero initialises on Linux.
        let mut abi: abi::Srq = unsafe { core::mem::zeroed() };
        abi.context = device.context();
        abi.srq_context = srq_context;
        abi.pd = pd;
        abi.handle = reply.srq;
        let pointer: *mut abi::Srq = leak(Self {
            abi: UnsafeCell::new(abi),
            queue,
            max_sge: reply.max_sge,
            handle: reply.srq,
            number: reply.number,
            cookie,
            async_events: HandedOut::default(),
        });
        device
            .lookup
            .insert(cookie, Object::Srq(pointer.cast::<Self>()));
        Ok(pointer)
    }
}

/// `ibv_create_srq`.
///
/// # Safety
/// `pd` came from this library, and `init` points to attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut abi::Pd,
    init: *mut abi::SrqInitAttr,
) -> *mut abi::Srq {
    // SAFETY: as the caller promises; the domain's context is open as long as it exists.
    let (device, init) = unsafe { (OpenDevice::of((*pd).context), &mut *init) };
    errno::pointer(device.and_then(|device| {
        // SAFETY: as the caller promises.
        unsafe { SharedQueue::create(device, pd, init.srq_context, &mut init.attr) }
    }))
}

/// `verbs_context.create_srq_ex`: basic SRQs only, neither XRC nor tag matching.
pub(crate) unsafe extern "C" fn create_srq_ex(
    context: *mut abi::Context,
    init: *mut abi::SrqInitAttrEx,
) -> *mut abi::Srq {
    // SAFETY: the header's wrapper passes an open context and what its caller says are attributes.
    let (device, init) = unsafe { (OpenDevice::of(context), &mut *init) };
    let is_basic = init.comp_mask & TYPE == 0 || init.srq_type == 0;
    errno::pointer(device.and_then(|device| {
        if !is_basic || init.comp_mask & !KNOWN != 0 {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if init.comp_mask & PD == 0 || init.pd.is_null() {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: as the caller promises.
        unsafe { SharedQueue::create(device, init.pd, init.srq_context, &mut init.attr) }
    }))
}

/// `verbs_context.get_srq_num`.
pub(crate) unsafe extern "C" fn get_srq_num(srq: *mut abi::Srq, to: *mut u32) -> c_int {
    // SAFETY: the header's wrapper passes an SRQ and a place for the number.
    unsafe { errno::number(SharedQueue::of(srq).map(|(queue, _)| to.write(queue.number))) }
}

/// `ibv_modify_srq`: changes the limit; the size is fixed.
///
/// # Safety
/// `srq` came from this library, and `attr` points to attributes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut abi::Srq,
    attr: *mut abi::SrqAttr,
    mask: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    let (found, limit) = unsafe { (SharedQueue::of(srq), (*attr).srq_limit) };
    errno::number(found.and_then(|(queue, device)| {
        device
            .call(&ModifySrq {
                srq: queue.handle,
                mask: mask as u32,
                limit,
            })
            .map(|_| ())
    }))
}

/// `ibv_query_srq`.
///
/// # Safety
/// `srq` came from this library, and `attr` points to attributes to fill.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut abi::Srq, attr: *mut abi::SrqAttr) -> c_int {
    // SAFETY: as the caller promises.
    let outcome = unsafe { SharedQueue::of(srq) }.and_then(|(queue, device)| {
        let state = device.call(&QuerySrq { srq: queue.handle })?;
        let found = abi::SrqAttr {
            max_wr: state.max_wr,
            max_sge: state.max_sge,
            srq_limit: state.limit,
        };
        // SAFETY: as the caller promises.
        unsafe { attr.write(found) };
        Ok(())
    });
    errno::number(outcome)
}

/// `ibv_destroy_srq`: waits until all its events are acknowledged.
///
/// # Safety
/// `srq` came from this library and is given up on success.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut abi::Srq) -> c_int {
    // SAFETY: as the caller promises.
    let outcome = unsafe { SharedQueue::of(srq) }.and_then(|(queue, device)| {
        device.call(&DestroySrq { srq: queue.handle })?;
        device.lookup.remove(queue.cookie);
        // SAFETY: the structure is there until the end of this function.
        unsafe { queue.async_events.wait(SharedQueue::acknowledged(srq)) };
        Ok(())
    });
    if outcome.is_ok() {
        // SAFETY: made by `leak`, and no longer anybody's.
        drop(unsafe { Box::from_raw(srq.cast::<SharedQueue>()) });
    }
    errno::number(outcome)
}

/// `ops.post_srq_recv`.
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut abi::Srq,
    first: *mut abi::RecvWr,
    bad: *mut *mut abi::RecvWr,
) -> c_int {
    // SAFETY: the header's wrapper passes an SRQ.
    let posted = match unsafe { SharedQueue::of(srq) } {
        Ok((shared, _)) => {
            unmapped::adopt_what_came();
            let mut queue = shared.queue.lock();
            // SAFETY: and a chain of requests.
            let posted = unsafe { push_receives(&mut queue, shared.max_sge, first) };
            // An SRQ has no doorbell: the daemon looks when a message needs a receive.
            let _ = queue.publish();
            posted
        }
        Err(error) => Posted::failed(error, first),
    };
    // SAFETY: the place is the caller's.
    unsafe { report(posted, bad) }
}
