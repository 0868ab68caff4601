//! Asynchronous events, and the acknowledgements that a destruction waits for.
//!
//! `ibv_get_cq_event` and `ibv_get_async_event` count what they hand out; the program counts what it
//! acknowledges; an object goes away when both are equal, so that no event names it afterwards.

#[cfg(test)]
mod tests;

use core::ffi::{c_int, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use vrdma_provider::message::{AsyncEvent, element};

use crate::abi;
use crate::cq::CompletionQueue;
use crate::errno::{self, Errno, Result};
use crate::lookup::Object;
use crate::lost;
use crate::open::OpenDevice;
use crate::qp::QueuePair;
use crate::srq::SharedQueue;

/// Events of one kind handed out for one object.
#[derive(Default)]
pub(crate) struct HandedOut(AtomicU32);

/// Fields of an object's public structure in which acknowledgements are counted.
#[derive(Clone, Copy)]
pub(crate) struct Acknowledged {
    pub(crate) mutex: *mut libc::pthread_mutex_t,
    pub(crate) condition: *mut libc::pthread_cond_t,
    pub(crate) count: *mut u32,
}

impl HandedOut {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until the program has acknowledged all events. The object must not be found by lookups any more.
    ///
    /// # Safety
    /// The fields belong to an object that is still there.
    pub(crate) unsafe fn wait(&self, acknowledged: Acknowledged) {
        // SAFETY: initialised with the object, and locked around the wait.
        unsafe {
            libc::pthread_mutex_lock(acknowledged.mutex);
            while *acknowledged.count != self.0.load(Ordering::Relaxed) {
                libc::pthread_cond_wait(acknowledged.condition, acknowledged.mutex);
            }
            libc::pthread_mutex_unlock(acknowledged.mutex);
        }
    }
}

impl Acknowledged {
    /// # Safety
    /// The fields belong to an object that is there.
    pub(crate) unsafe fn add(self, count: u32) {
        // SAFETY: initialised with the object.
        unsafe {
            libc::pthread_mutex_lock(self.mutex);
            *self.count = (*self.count).wrapping_add(count);
            libc::pthread_cond_broadcast(self.condition);
            libc::pthread_mutex_unlock(self.mutex);
        }
    }
}

/// Reads one record from a pipe whose writer writes whole records. Fails with `EIO` if the pipe ended with the daemon.
pub(crate) fn read_record<const BYTES: usize>(pipe: BorrowedFd<'_>) -> Result<[u8; BYTES]> {
    let mut record = [0; BYTES];
    // SAFETY: writes at most the length of the array.
    let count = unsafe { libc::read(pipe.as_raw_fd(), record.as_mut_ptr().cast(), BYTES) };
    match count {
        count if count == BYTES as isize => Ok(record),
        count if count < 0 => Err(std::io::Error::last_os_error().into()),
        // The daemon is gone.
        _ => Err(Errno(libc::EIO)),
    }
}

/// Returns the next event whose object is still there.
fn next(device: &OpenDevice) -> Result<abi::AsyncEvent> {
    loop {
        let record = match read_record::<{ size_of::<AsyncEvent>() }>(device.events()) {
            Err(Errno(libc::EIO)) if device.lost.tells() => {
                lost::silence(device.events().as_raw_fd())?;
                return Ok(lost::fatal());
            }
            record => record?,
        };
        let event: AsyncEvent = vrdma_provider::message::parse(&record).ok_or(Errno(libc::EIO))?;
        let element = match event.element {
            element::PORT => Some(event.cookie as usize as *mut _),
            _ => device.lookup.with(event.cookie, hand_out),
        };
        if let Some(element) = element {
            return Ok(abi::AsyncEvent {
                element,
                event_type: event.event,
            });
        }
    }
}

/// Counts the event; returns the object's public pointer.
fn hand_out(object: Object) -> *mut core::ffi::c_void {
    // SAFETY: an object that is found is there until the lookup's lock is released.
    unsafe {
        match object {
            Object::Cq(cq) => {
                (*cq).async_events.add();
            }
            Object::Qp(qp) => {
                (*qp).async_events.add();
            }
            Object::Srq(srq) => {
                (*srq).async_events.add();
            }
        }
    }
    match object {
        Object::Cq(cq) => cq.cast_mut().cast(),
        Object::Qp(qp) => qp.cast_mut().cast(),
        Object::Srq(srq) => srq.cast_mut().cast(),
    }
}

/// `ibv_get_async_event`: blocks, unless the program made `async_fd` non-blocking.
///
/// # Safety
/// `context` is open and `to` points to an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut abi::Context,
    to: *mut abi::AsyncEvent,
) -> c_int {
    // SAFETY: as the caller promises.
    let event = unsafe { OpenDevice::of(context) }.and_then(next);
    // SAFETY: as the caller promises.
    errno::minus_one(event.map(|event| unsafe { to.write(event) }))
}

/// The kind of object that an event is about, by `enum ibv_event_type`.
enum About {
    Cq,
    Qp,
    Srq,
    Other,
}

fn about(event: c_uint) -> About {
    match event {
        0 => About::Cq,
        1..=7 | 16 => About::Qp,
        14 | 15 => About::Srq,
        _ => About::Other,
    }
}

/// `ibv_ack_async_event`.
///
/// # Safety
/// `event` came from `ibv_get_async_event` and was not acknowledged yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut abi::AsyncEvent) {
    // SAFETY: as the caller promises; the object waits for this acknowledgement and is still there.
    unsafe {
        let element = (*event).element;
        match about((*event).event_type) {
            About::Cq => CompletionQueue::async_acknowledged(element.cast()).add(1),
            About::Qp => QueuePair::acknowledged(element.cast()).add(1),
            About::Srq => SharedQueue::acknowledged(element.cast()).add(1),
            About::Other => {}
        }
    }
}
