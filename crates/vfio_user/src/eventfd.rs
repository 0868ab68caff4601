//! Event descriptors that clients send for their interrupts.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{CWD, OFlags, fcntl_getfl, fcntl_setfl, readlinkat};
use rustix::io::{Errno, write};

use crate::client_fd::ClientFd;
use crate::interrupter::{self, interruptible};
use crate::irq::{Blocks, Signal};

/// The kernel's name for every eventfd.
const EVENTFD: &[u8] = b"anon_inode:[eventfd]";

/// A client's eventfd.
///
/// The descriptor comes from outside, and a write to a full pipe or socket would stop the thread, which also serves
/// other guests. So only eventfds are accepted, recognized by the kernel's name for them, which involves no file
/// system, and they are made non-blocking. The client shares that flag: if it clears the flag *and* fills the 64-bit
/// counter, the write waits, as no system call writes to an eventfd regardless of the flag. Such a write is
/// [interrupted](interrupter). The end of an asynchronous request (`IOCB_FLAG_RESFD` of io_submit(2)) would ignore the
/// flag, but costs 4 to 5 us where a write costs 1 us; a reader that empties the counter meanwhile would have to be
/// faster than a client that fills it again.
#[derive(Debug)]
pub struct Eventfd(OwnedFd);

impl Eventfd {
    /// Takes a descriptor from a client.
    ///
    /// # Errors
    /// `EINVAL` if it is not an eventfd; `EAGAIN` if the interrupting thread cannot be started.
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
    /// Writes to the eventfd. A full counter is signalled already, and a client that broke its own descriptor loses its
    /// own interrupts.
    fn signal(&self) -> Result<(), Blocks> {
        match interruptible(|| write(&self.0, &1u64.to_ne_bytes())) {
            Err(Errno::INTR) => return Err(Blocks),
            Err(errno) => tracing::debug!(%errno, "an interrupt could not be signalled"),
            Ok(_) => {}
        }
        Ok(())
    }
}
