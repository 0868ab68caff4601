//! Completion queues.

#[cfg(test)]
mod tests;

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use vrdma_provider::client::{self, Answer, QueueMemory};
use vrdma_provider::layout::armed;
use vrdma_provider::message::{CqReply, CreateCq, DestroyCq, NO_CHANNEL, ResizeCq};

use crate::abi;
use crate::channel::{Channel, VECTORS};
use crate::completion::{Ring, to_wc};
use crate::errno::{self, Errno, Result};
use crate::event::{Acknowledged, HandedOut};
use crate::lookup::Object;
use crate::lost;
use crate::memory::leak;
use crate::open::OpenDevice;
use crate::patience::Rest;

/// Empty polls between two checks that the daemon is still there; the check takes a small part of their time.
const SUSPICION: u32 = 1024;

/// The structure that `ibv_create_cq` and `ibv_create_cq_ex` return a pointer to.
#[repr(C)]
pub struct CompletionQueue {
    pub(crate) ex: UnsafeCell<abi::CqEx>,
    pub(crate) ring: Mutex<Ring>,
    /// Counted without the lock: a count that is lost between threads does no harm.
    empty_polls: AtomicU32,
    handle: u32,
    cookie: u64,
    pub(crate) completion_events: HandedOut,
    pub(crate) async_events: HandedOut,
}

/// Attributes that the creator of a CQ asks for.
pub(crate) struct Wanted {
    pub(crate) entries: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut abi::CompChannel,
    pub(crate) vector: u32,
}

impl CompletionQueue {
    /// # Safety
    /// `cq` came from this library and is not destroyed yet.
    #[inline]
    pub(crate) unsafe fn of<'a>(cq: *mut abi::Cq) -> Result<(&'a Self, &'a OpenDevice)> {
        // SAFETY: such a pointer is to the first field of a `CompletionQueue`, whose context is open.
        unsafe { Ok((&*cq.cast::<Self>(), OpenDevice::of((*cq).context)?)) }
    }

    /// Whether this CQ notifies by the given channel.
    pub(crate) fn is_of(&self, channel: &abi::CompChannel) -> bool {
        // SAFETY: a field that does not change.
        let own = unsafe { (*self.ex.get()).base.channel };
        core::ptr::eq(own, channel)
    }

    /// Whether the daemon is gone. Called after each empty poll; checks the connection once in [`SUSPICION`] calls.
    #[inline]
    pub(crate) fn has_lost(&self, device: &OpenDevice) -> bool {
        let polls = self.empty_polls.load(Relaxed).wrapping_add(1);
        self.empty_polls.store(polls, Relaxed);
        if polls.is_multiple_of(SUSPICION) && !device.lost.is_known() {
            device.look_after_daemon();
        }
        device.lost.is_known()
    }

    /// Returns where completion events are acknowledged.
    ///
    /// # Safety
    /// `cq` came from this library and is not destroyed yet.
    pub(crate) unsafe fn acknowledged(cq: *mut abi::Cq) -> Acknowledged {
        // SAFETY: fields of a structure that is there; no reference is made.
        unsafe {
            Acknowledged {
                mutex: &raw mut (*cq).mutex,
                condition: &raw mut (*cq).cond,
                count: &raw mut (*cq).comp_events_completed,
            }
        }
    }

    /// Returns where asynchronous events are acknowledged.
    ///
    /// # Safety
    /// As for [`acknowledged`](Self::acknowledged).
    pub(crate) unsafe fn async_acknowledged(cq: *mut abi::Cq) -> Acknowledged {
        // SAFETY: as promised.
        unsafe {
            Acknowledged {
                count: &raw mut (*cq).async_events_completed,
                ..Self::acknowledged(cq)
            }
        }
    }

    /// Makes a CQ; `fill` adds what only an extended CQ has.
    ///
    /// # Safety
    /// The channel is null or came from this library.
    pub(crate) unsafe fn create(
        device: &OpenDevice,
        wanted: &Wanted,
        fill: impl FnOnce(&mut abi::CqEx),
    ) -> Result<*mut abi::CqEx> {
        if wanted.vector >= VECTORS as u32 {
            return Err(Errno(libc::EINVAL));
        }
        let channel = if wanted.channel.is_null() {
            NO_CHANNEL
        } else {
            // SAFETY: as promised.
            unsafe { Channel::handle(wanted.channel) }
        };
        let cookie = device.lookup.cookie();
        let answer = device.call_with(
            &CreateCq {
                cookie,
                entries: wanted.entries,
                channel,
            },
            &[],
        )?;
        let handle = answer.body.cq;
        let (queue, entries) = ring(answer)?;
        let mut ex = blank(device, wanted, handle, entries);
        fill(&mut ex);
        let cq: *mut Self = leak(Self {
            ex: UnsafeCell::new(ex),
            ring: Mutex::new(Ring::new(queue, Arc::clone(&device.regions))),
            empty_polls: AtomicU32::new(0),
            handle,
            cookie,
            completion_events: HandedOut::default(),
            async_events: HandedOut::default(),
        });
        device.lookup.insert(cookie, Object::Cq(cq));
        // SAFETY: as promised.
        unsafe { Channel::count(wanted.channel, 1) };
        Ok(cq.cast())
    }
}

/// Maps the ring of an answer; returns it and the number of its entries.
fn ring(answer: Answer<CqReply>) -> Result<(client::CompletionQueue, u32)> {
    let [memory] = <[OwnedFd; 1]>::try_from(answer.fds).map_err(|_| Errno(libc::EPROTO))?;
    let CqReply { bytes, ring, .. } = answer.body;
    let memory = QueueMemory::map(memory.as_fd(), ring.header, bytes)?;
    let queue = client::CompletionQueue::new(memory.area(), memory.place(ring)?)?;
    Ok((queue, ring.slots))
}

fn blank(device: &OpenDevice, wanted: &Wanted, handle: u32, entries: u32) -> abi::CqEx {
    // SAFETY: numbers, pointers, optional functions, and a mutex and a condition that zero
    // initialises on Linux.
    let mut ex: abi::CqEx = unsafe { core::mem::zeroed() };
    ex.base.context = device.context();
    ex.base.channel = wanted.channel;
    ex.base.cq_context = wanted.cq_context;
    ex.base.handle = handle;
    ex.base.cqe = entries as c_int;
    ex
}

/// `ibv_create_cq`.
///
/// # Safety
/// `context` is open, and `channel` is null or one of its channels.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut abi::Context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut abi::CompChannel,
    comp_vector: c_int,
) -> *mut abi::Cq {
    let wanted = Wanted {
        entries: cqe.max(0) as u32,
        cq_context,
        channel,
        vector: comp_vector as u32,
    };
    // SAFETY: as the caller promises.
    let cq = unsafe { OpenDevice::of(context) }
        // SAFETY: as the caller promises.
        .and_then(|device| unsafe { CompletionQueue::create(device, &wanted, |_| {}) });
    errno::pointer(cq).cast()
}

/// `ibv_resize_cq`.
///
/// # Safety
/// `cq` came from this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut abi::Cq, cqe: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let outcome = unsafe { CompletionQueue::of(cq) }.and_then(|(queue, device)| {
        let entries = u32::try_from(cqe).map_err(|_| Errno(libc::EINVAL))?;
        let mut guard = queue.ring.lock();
        // Read before the call: afterwards that memory may be another queue's. If the daemon notifies meanwhile, it
        // notifies once more.
        let armed = guard.queue.armed();
        let answer = device.call_with(
            &ResizeCq {
                cq: queue.handle,
                entries,
            },
            &[],
        )?;
        let (ring, entries) = ring(answer)?;
        guard.queue = ring;
        if armed != armed::NO {
            guard.queue.arm(armed);
        }
        // SAFETY: the field of a structure that is there, which only this function changes.
        unsafe { (*cq).cqe = entries as c_int };
        Ok(())
    });
    errno::number(outcome)
}

/// `ibv_destroy_cq`: waits until all its events are acknowledged.
///
/// # Safety
/// `cq` came from this library and is given up on success.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut abi::Cq) -> c_int {
    // SAFETY: as the caller promises.
    let outcome = unsafe { CompletionQueue::of(cq) }.and_then(|(queue, device)| {
        device.call(&DestroyCq { cq: queue.handle })?;
        device.lookup.remove(queue.cookie);
        // SAFETY: the structure is there until the end of this function.
        unsafe {
            queue
                .completion_events
                .wait(CompletionQueue::acknowledged(cq));
            queue
                .async_events
                .wait(CompletionQueue::async_acknowledged(cq));
            Channel::count((*cq).channel, -1);
        }
        Ok(())
    });
    if outcome.is_ok() {
        // SAFETY: made by `leak`, and no longer anybody's.
        drop(unsafe { Box::from_raw(cq.cast::<CompletionQueue>()) });
    }
    errno::number(outcome)
}

/// `ops.poll_cq`.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut abi::Cq, count: c_int, to: *mut abi::Wc) -> c_int {
    // SAFETY: the header's wrapper passes a CQ.
    let Ok((queue, device)) = (unsafe { CompletionQueue::of(cq) }) else {
        errno::set(libc::EIO);
        return -libc::EIO;
    };
    loop {
        // SAFETY: the program passed room for `count`.
        let (found, rest) = unsafe { look(queue, count, to) };
        if found == 0 && queue.has_lost(device) {
            // SAFETY: as above.
            return unsafe { flush(queue, device, count, to) };
        }
        if rest == Rest::Return {
            return found as c_int;
        }
        std::thread::yield_now();
        if rest == Rest::Yield {
            // A thread that had the core meanwhile may have sent something and ended. Programs that look at their
            // connections after an empty queue (libfabric's ofi_rxm) must not hear of the end first.
            // SAFETY: as above.
            return unsafe { look(queue, count, to).0 as c_int };
        }
    }
}

/// Takes completions; returns how many, and what the poll does next.
///
/// # Safety
/// `to` has room for `count`.
unsafe fn look(queue: &CompletionQueue, count: c_int, to: *mut abi::Wc) -> (usize, Rest) {
    let mut ring = queue.ring.lock();
    let mut found = 0;
    while found < count.max(0) as usize {
        let Some(completion) = ring.next() else {
            break;
        };
        // SAFETY: as promised.
        unsafe { to.add(found).write(to_wc(&completion)) };
        found += 1;
    }
    let rest = ring.rest(found);
    (found, rest)
}

/// Takes completions of requests that the daemon did not carry out; returns how many.
///
/// # Safety
/// `to` has room for `count`.
#[cold]
unsafe fn flush(
    queue: &CompletionQueue,
    device: &OpenDevice,
    count: c_int,
    to: *mut abi::Wc,
) -> c_int {
    let room = usize::try_from(count).unwrap_or(0);
    let ended = std::iter::from_fn(|| lost::flushed(device, queue)).take(room);
    let mut found = 0;
    for completion in ended {
        // SAFETY: as promised.
        unsafe { to.add(found).write(to_wc(&completion)) };
        found += 1;
    }
    found as c_int
}

/// `ops.req_notify_cq`. Entries that are there already do not notify: programs poll once more.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut abi::Cq, solicited_only: c_int) -> c_int {
    // SAFETY: the header's wrapper passes a CQ.
    let queue = unsafe { CompletionQueue::of(cq) };
    errno::number(queue.map(|(queue, _)| {
        let what = if solicited_only == 0 {
            armed::ANY
        } else {
            armed::SOLICITED
        };
        let mut ring = queue.ring.lock();
        ring.queue.arm(what);
        ring.patience.armed();
    }))
}

/// `verbs_context.modify_cq`: moderation, which is not offered.
pub(crate) unsafe extern "C" fn modify_cq(
    _cq: *mut abi::Cq,
    _attr: *mut abi::ModifyCqAttr,
) -> c_int {
    errno::number(Err(Errno(libc::EOPNOTSUPP)))
}
