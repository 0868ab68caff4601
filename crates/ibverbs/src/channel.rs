//! Completion channels: pipes that carry cookies of CQs.

#[cfg(test)]
mod tests;

use core::ffi::{c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use vrdma_provider::message::{CreateChannel, DestroyChannel};

use crate::abi;
use crate::cq::CompletionQueue;
use crate::errno::{self, Errno, Result};
use crate::event::read_record;
use crate::lookup::Object;
use crate::lost;
use crate::memory::leak;
use crate::open::OpenDevice;

/// Completion vectors: one, as there is no interrupt to spread.
pub(crate) const VECTORS: c_int = 1;

/// The structure that `ibv_create_comp_channel` returns a pointer to.
#[repr(C)]
pub struct Channel {
    abi: abi::CompChannel,
    handle: u32,
    pipe: OwnedFd,
}

impl Channel {
    /// # Safety
    /// `channel` came from `ibv_create_comp_channel`.
    pub(crate) unsafe fn handle(channel: *mut abi::CompChannel) -> u32 {
        // SAFETY: as the caller promises.
        unsafe { (*channel.cast::<Self>()).handle }
    }

    /// Counts the CQs of a channel, as its public structure does.
    ///
    /// # Safety
    /// `channel` is null or came from `ibv_create_comp_channel`.
    pub(crate) unsafe fn count(channel: *mut abi::CompChannel, change: c_int) {
        if channel.is_null() {
            return;
        }
        // SAFETY: as the caller promises; aligned, and only touched through atomics.
        let count = unsafe { std::sync::atomic::AtomicI32::from_ptr(&raw mut (*channel).refcnt) };
        count.fetch_add(change, std::sync::atomic::Ordering::Relaxed);
    }
}

fn create(device: &OpenDevice) -> Result<*mut abi::CompChannel> {
    let answer = device.call_with(&CreateChannel {}, &[])?;
    let [pipe] = <[OwnedFd; 1]>::try_from(answer.fds).map_err(|_| Errno(libc::EPROTO))?;
    let abi = abi::CompChannel {
        context: device.context(),
        fd: pipe.as_raw_fd(),
        refcnt: 0,
    };
    Ok(leak(Channel {
        abi,
        handle: answer.body.channel,
        pipe,
    }))
}

/// `ibv_create_comp_channel`.
///
/// # Safety
/// `context` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut abi::Context,
) -> *mut abi::CompChannel {
    // SAFETY: as the caller promises.
    errno::pointer(unsafe { OpenDevice::of(context) }.and_then(create))
}

/// `ibv_destroy_comp_channel`: `EBUSY` while CQs use it.
///
/// # Safety
/// `channel` came from this library and is given up on success.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut abi::CompChannel) -> c_int {
    // SAFETY: as the caller promises.
    let (abi, handle) = unsafe { (&*channel, Channel::handle(channel)) };
    // SAFETY: its context is open as long as it exists.
    let outcome = unsafe { OpenDevice::of(abi.context) }.and_then(|device| {
        if abi.refcnt != 0 {
            return Err(Errno(libc::EBUSY));
        }
        device.call(&DestroyChannel { channel: handle }).map(|_| ())
    });
    if outcome.is_ok() {
        // SAFETY: made by `leak`, and no longer anybody's.
        drop(unsafe { Box::from_raw(channel.cast::<Channel>()) });
    }
    errno::number(outcome)
}

/// Returns the next notification of a CQ that is still there.
fn next(device: &OpenDevice, channel: &Channel) -> Result<*const CompletionQueue> {
    loop {
        let cookie = match read_record(channel.pipe.as_fd()) {
            Ok(record) => u64::from_ne_bytes(record),
            Err(Errno(libc::EIO)) => return last(device, channel),
            Err(error) => return Err(error),
        };
        let found = device.lookup.with(cookie, |object| {
            let Object::Cq(cq) = object else { return None };
            // SAFETY: an object that is found is there until the lookup's lock is released.
            unsafe { (*cq).completion_events.add() };
            Some(cq)
        });
        if let Some(Some(cq)) = found {
            return Ok(cq);
        }
    }
}

/// When the daemon is gone: returns a notification of a CQ that waits for one, so that its program polls it. The
/// channel falls silent after the last.
#[cold]
fn last(device: &OpenDevice, channel: &Channel) -> Result<*const CompletionQueue> {
    device.lost.note();
    let waiting = device.lookup.find(|object| match object {
        Object::Cq(cq) => {
            // SAFETY: an object that is found is there until the lookup's lock is released.
            let queue = unsafe { &*cq };
            let waits = queue.is_of(&channel.abi) && queue.ring.lock().queue.disarm();
            waits.then(|| {
                queue.completion_events.add();
                cq
            })
        }
        _ => None,
    });
    match waiting {
        Some(cq) => Ok(cq),
        None => {
            lost::silence(channel.pipe.as_raw_fd())?;
            Err(Errno(libc::EIO))
        }
    }
}

/// `ibv_get_cq_event`: blocks, unless the program made the channel's descriptor non-blocking.
///
/// # Safety
/// `channel` came from this library; the other two point to pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut abi::CompChannel,
    cq: *mut *mut abi::Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    let channel = unsafe { &*channel.cast::<Channel>() };
    // SAFETY: its context is open as long as it exists.
    let found =
        unsafe { OpenDevice::of(channel.abi.context) }.and_then(|device| next(device, channel));
    errno::minus_one(found.map(|found| {
        let found = found.cast_mut().cast::<abi::Cq>();
        // SAFETY: the CQ waits for the acknowledgement of this event; the places are the caller's.
        unsafe {
            cq.write(found);
            cq_context.write((*found).cq_context);
        }
    }))
}

/// `ibv_ack_cq_events`.
///
/// # Safety
/// `cq` came from `ibv_get_cq_event`, at least `count` times more than it was acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut abi::Cq, count: core::ffi::c_uint) {
    if count > 0 {
        // SAFETY: as the caller promises, it is there until this acknowledgement.
        unsafe { CompletionQueue::acknowledged(cq).add(count) };
    }
}
