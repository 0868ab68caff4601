//! Descriptors that clients send, and where they are closed.
//!
//! The sender of a descriptor decides how long `close` takes: a file may lie on a file system that the sender serves, a
//! socket may linger. So a thread that serves others too must close neither such a descriptor nor the socket that it
//! came by, which may hold more.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A way to close descriptors elsewhere.
#[derive(Clone)]
pub struct Closing(Arc<dyn Fn(OwnedFd) + Send + Sync>);

impl Closing {
    /// Closes by this function, which must not wait.
    pub fn by(close: impl Fn(OwnedFd) + Send + Sync + 'static) -> Self {
        Self(Arc::new(close))
    }
}

impl fmt::Debug for Closing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closing").finish_non_exhaustive()
    }
}

/// A descriptor that a client sent. When dropped, it is closed [elsewhere](Closing).
#[derive(Debug)]
pub struct ClientFd {
    fd: Option<OwnedFd>,
    closing: Closing,
}

impl ClientFd {
    /// Wraps a descriptor that came from a client.
    pub fn new(fd: OwnedFd, closing: Closing) -> Self {
        Self {
            fd: Some(fd),
            closing,
        }
    }

    /// Unwraps a descriptor that is known to close at once.
    ///
    /// # Panics
    /// Never: the descriptor is missing only while the value is dropped.
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
