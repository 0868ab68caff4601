//! Event descriptors that clients send for their interrupts.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{CWD, OFlags, fcntl_getfl, fcntl_setfl, readlinkat};
use rustix::io::{Errno, write};

use crate::client_fd::ClientFd;
use crate::interrupter::{self, interruptible};
use crate::irq::{Blocks, Signal};

/// What the kernel calls every eventfd.
const EVENTFD: &[u8] = b"anon_inode:[eventfd]";

/// A client's eventfd.
///
/// The descriptor comes from outside, and a write to a full pipe or socket would stop the thread
/// that serves other guests too. So only eventfds are taken, by what the kernel calls them, which
/// asks no file system, and they are made non-blocking. The client shares that flag: the write of one that takes
/// it back *and* fills the 64-bit counter waits, as no system call writes to an eventfd without heeding the
/// flag. So each write is [interrupted](interrupter) if it does. The end of an asynchronous request (`IOCB_FLAG_RESFD`
/// of io_submit(2)) would not heed the flag, and costs 4 to 5 us where a write costs 1 us; a reader that empties the counter
/// meanwhile would have to be faster than a client that fills it again.
#[derive(Debug)]
pub struct Eventfd(OwnedFd);

impl Eventfd {
    /// Takes a descriptor from a client.
    ///
    /// # Errors
    /// `EINVAL` when it is something else than an eventfd; `EAGAIN` when no thread can be started that interrupts.
    pub fn adopt(fd: ClientFd) -> Result<Self, Errno> {
        interrupter::start().map_err(|_| Errno::AGAIN)?;
        let link = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
        if readlinkat(CWD, link, Vec::new())?.as_bytes() != EVENTFD {
            return Err(Errno::INVAL);
        }
        let fd = fd.into_harmless();
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Eventfd(fd))
    }
}

impl Signal for Eventfd {
    /// A counter that is full is signalled already, and a client that broke its own descriptor
    /// loses its own interrupts.
    fn signal(&self) -> Result<(), Blocks> {
        match interruptible(|| write(&self.0, &1u64.to_ne_bytes())) {
            Err(Errno::INTR) => return Err(Blocks),
            Err(errno) => tracing::debug!(%errno, "an interrupt could not be signalled"),
            Ok(_) => {}
        }
        Ok(())
    }
}
