//! Event descriptors that clients send for their interrupts.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{CWD, OFlags, fcntl_getfl, fcntl_setfl, readlinkat};
use rustix::io::{Errno, write};

use crate::client_fd::ClientFd;
use crate::irq::Signal;

/// What the kernel calls every eventfd.
const EVENTFD: &[u8] = b"anon_inode:[eventfd]";

/// A client's eventfd.
///
/// The descriptor comes from outside, and a write to a full pipe or socket would stop the thread
/// that serves other guests too. So only eventfds are taken, by what the kernel calls them, which
/// asks no file system, and they are made non-blocking. The client shares that flag: one that takes
/// it back *and* fills the 64-bit counter stops the thread that signals, as no system call writes to
/// an eventfd without heeding the flag. The end of an asynchronous request (`IOCB_FLAG_RESFD` of
/// io_submit(2)) does not heed it, and costs 4 to 5 us where a write costs 1 us: SECURITY.md says that
/// QEMU is trusted instead.
#[derive(Debug)]
pub struct Eventfd(OwnedFd);

impl Eventfd {
    /// Takes a descriptor from a client.
    ///
    /// # Errors
    /// `EINVAL` when it is something else than an eventfd.
    pub fn adopt(fd: ClientFd) -> Result<Self, Errno> {
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
    fn signal(&self) {
        if let Err(errno) = write(&self.0, &1u64.to_ne_bytes()) {
            tracing::debug!(%errno, "an interrupt could not be signalled");
        }
    }
}
