//! Descriptors that clients send, and who closes them.
//!
//! `close` takes as long as their sender likes: a file may lie on a file system that it serves, a socket may
//! linger. So nobody who serves others too may close one, and neither the socket that they came by, in which
//! there may be more.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Closes descriptors somewhere else.
#[derive(Clone)]
pub struct Closing(Arc<dyn Fn(OwnedFd) + Send + Sync>);

impl Closing {
    /// By this function, which must not wait.
    pub fn by(close: impl Fn(OwnedFd) + Send + Sync + 'static) -> Self {
        Self(Arc::new(close))
    }
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing").finish_non_exhaustive()
    }
}

/// A descriptor of a client's. Dropped, it is closed [somewhere else](Closing).
#[derive(Debug)]
pub struct ClientFd {
    fd: Option<OwnedFd>,
    closing: Closing,
}

impl ClientFd {
    /// One that came from a client.
    pub fn new(fd: OwnedFd, closing: Closing) -> Self {
        Self {
            fd: Some(fd),
            closing,
        }
    }

    /// One that is known to close at once.
    ///
    /// # Panics
    /// Never: only what is being dropped has no descriptor.
    pub fn into_harmless(mut self) -> OwnedFd {
        self.fd.take().expect("it is not being dropped")
    }
}

impl AsFd for ClientFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        let fd = self.fd.as_ref().expect("it is not being dropped");
        fd.as_fd()
    }
}

impl Drop for ClientFd {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            (self.closing.0)(fd);
        }
    }
}
