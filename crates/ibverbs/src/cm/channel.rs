//! Event channels.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use vrdma_provider::cm::{CreateChannel, DestroyChannel, TOKEN};

use super::abi;
use super::session;
use crate::errno::{self, Errno, Result};
use crate::lost;

/// The structure that `rdma_create_event_channel` returns a pointer to.
#[repr(C)]
pub(super) struct Channel {
    abi: abi::EventChannel,
    pub(super) arrivals: Arc<Arrivals>,
}

/// Where a channel's events arrive. A thread that waits keeps this, so that another thread may destroy the channel
/// meanwhile.
pub(super) struct Arrivals {
    pipe: OwnedFd,
    pub(super) number: u64,
    /// Changes only while the session is held.
    is_destroyed: AtomicBool,
}

impl Channel {
    pub(super) fn create() -> Result<*mut abi::EventChannel> {
        let (reply, pipe) = session::call_for_fd(&CreateChannel {})?;
        Ok(Self::over(pipe, reply.id))
    }

    /// Makes a channel for the daemon's channel of that number, which tells of events by a pipe.
    pub(super) fn over(pipe: OwnedFd, number: u64) -> *mut abi::EventChannel {
        let channel = Box::new(Self {
            abi: abi::EventChannel {
                fd: pipe.as_raw_fd(),
            },
            arrivals: Arc::new(Arrivals {
                pipe,
                number,
                is_destroyed: AtomicBool::new(false),
            }),
        });
        Box::into_raw(channel).cast()
    }

    /// # Safety
    /// `channel` came from this library and is not destroyed yet, or is null.
    pub(super) unsafe fn of<'a>(channel: *mut abi::EventChannel) -> Result<&'a Self> {
        // SAFETY: such a pointer is to the first field of a `Channel`.
        unsafe { channel.cast::<Self>().as_ref() }.ok_or(Errno(libc::EINVAL))
    }

    /// # Safety
    /// `channel` came from [`Channel::create`] and is given up.
    pub(super) unsafe fn destroy(channel: *mut abi::EventChannel) {
        if channel.is_null() {
            return;
        }
        // SAFETY: made by `create`, and no longer anybody's.
        let channel = unsafe { Box::from_raw(channel.cast::<Self>()) };
        let mut held = session::hold();
        channel.arrivals.is_destroyed.store(true, Ordering::Relaxed);
        let request = DestroyChannel {
            channel: channel.arrivals.number,
        };
        // A channel that the daemon does not know any more is gone as well.
        let _gone = held.get().and_then(|session| session.call(&request));
    }
}

/// Waits until the process ends, as a thread does at a kernel's channel that another thread has destroyed.
pub(super) fn wait_for_ever() -> ! {
    loop {
        // SAFETY: touches no memory.
        unsafe { libc::pause() };
    }
}

/// What ends a wait.
pub(super) enum Arrived {
    /// The byte of an event.
    Byte,
    /// The daemon's end of the pipe is closed.
    End,
}

impl Arrivals {
    /// Whether another thread destroyed the channel; the answer does not change while the session is held.
    pub(super) fn is_destroyed(&self) -> bool {
        self.is_destroyed.load(Ordering::Relaxed)
    }

    /// Silences the channel: nothing comes any more.
    pub(super) fn silence(&self) -> Result<()> {
        lost::silence(self.pipe.as_raw_fd())
    }

    /// Waits for the byte of an event, or does not wait if the program has set the descriptor so.
    pub(super) fn wait(&self) -> Result<Arrived> {
        let mut token = [0; 1];
        // SAFETY: writes at most one byte.
        match unsafe { libc::read(self.pipe.as_raw_fd(), token.as_mut_ptr().cast(), 1) } {
            1 if token == [TOKEN] => Ok(Arrived::Byte),
            count if count < 0 => Err(Errno::last()),
            _ => Ok(Arrived::End),
        }
    }
}

/// `rdma_create_event_channel`.
#[unsafe(no_mangle)]
pub extern "C" fn rdma_create_event_channel() -> *mut abi::EventChannel {
    errno::pointer(Channel::create())
}

/// `rdma_destroy_event_channel`.
///
/// # Safety
/// `channel` came from `rdma_create_event_channel`, has no identifiers, and is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_destroy_event_channel(channel: *mut abi::EventChannel) {
    // SAFETY: as the caller promises.
    unsafe { Channel::destroy(channel) }
}
