//! Event descriptors that clients send for their interrupts.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::{Errno, write};

use crate::irq::Signal;

/// A client's eventfd.
///
/// The descriptor comes from outside, and a write to a full pipe or socket would stop the thread
/// that serves other guests too. So only anonymous inodes are taken, which eventfds are and pipes,
/// sockets, files and terminals are not, and they are made non-blocking. The client shares that
/// flag: one that takes it back *and* fills the 64-bit counter stops the thread that signals, as
/// no system call writes to an eventfd without heeding the flag.
#[derive(Debug)]
pub struct Eventfd(OwnedFd);

impl Eventfd {
    /// Takes a descriptor from a client.
    ///
    /// # Errors
    /// `EINVAL` when it is something else than an eventfd.
    pub fn adopt(fd: OwnedFd) -> Result<Self, Errno> {
        // The kernel gives anonymous inodes no file type.
        if FileType::from_raw_mode(fstat(&fd)?.st_mode) != FileType::Unknown {
            return Err(Errno::INVAL);
        }
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
