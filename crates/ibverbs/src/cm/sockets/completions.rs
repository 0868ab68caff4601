//! A socket's completions, and waiting for them.

use core::ffi::c_int;

use crate::abi::{CompChannel, Context, Cq, Wc};
use crate::channel::{
    ibv_ack_cq_events, ibv_create_comp_channel, ibv_destroy_comp_channel, ibv_get_cq_event,
};
use crate::cq::{ibv_create_cq, ibv_destroy_cq, poll_cq, req_notify_cq};
use crate::errno::{Errno, Result};

/// Completions taken at a time.
pub(super) const BATCH: usize = 16;

/// A completion queue with a channel of its own.
pub(super) struct Completions {
    channel: *mut CompChannel,
    pub(super) cq: *mut Cq,
    unacknowledged: u32,
}

impl Completions {
    /// # Safety
    /// `context` is open and outlives them.
    pub(super) unsafe fn new(context: *mut Context, entries: u32) -> Result<Self> {
        // SAFETY: as promised.
        unsafe {
            let channel = ibv_create_comp_channel(context);
            if channel.is_null() {
                return Err(Errno::last());
            }
            let entries = entries as c_int;
            let cq = ibv_create_cq(context, entries, core::ptr::null_mut(), channel, 0);
            if cq.is_null() {
                let error = Errno::last();
                ibv_destroy_comp_channel(channel);
                return Err(error);
            }
            Ok(Self {
                channel,
                cq,
                unacknowledged: 0,
            })
        }
    }

    /// Returns the descriptor that becomes readable with a notification.
    pub(super) fn fd(&self) -> c_int {
        // SAFETY: the channel is there as long as this is.
        unsafe { (*self.channel).fd }
    }

    /// Takes the next completions; returns how many.
    pub(super) fn poll(&self, batch: &mut [Wc; BATCH]) -> Result<usize> {
        // SAFETY: room for that many, from a queue that is there.
        let count = unsafe { poll_cq(self.cq, BATCH as c_int, batch.as_mut_ptr()) };
        usize::try_from(count).map_err(|_| Errno(libc::EIO))
    }

    /// Asks for a notification of the next completion.
    pub(super) fn arm(&self) {
        // SAFETY: a queue that is there.
        unsafe { req_notify_cq(self.cq, 0) };
    }

    /// Takes a notification, which must have come.
    pub(super) fn notified(&mut self) {
        let (mut cq, mut context) = (core::ptr::null_mut(), core::ptr::null_mut());
        // SAFETY: the channel has an event, and the places are ours.
        if unsafe { ibv_get_cq_event(self.channel, &raw mut cq, &raw mut context) } == 0 {
            self.unacknowledged += 1;
        }
    }

    /// Frees the queue and its channel; the queue pair must be gone.
    pub(super) fn release(self) {
        // SAFETY: made by `new`, and no queue pair uses them.
        unsafe {
            ibv_ack_cq_events(self.cq, self.unacknowledged);
            ibv_destroy_cq(self.cq);
            ibv_destroy_comp_channel(self.channel);
        }
    }
}
