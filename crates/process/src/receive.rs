//! What a client sends, with descriptors that may be anything.
//!
//! A descriptor may be a file of a file system that its sender serves (FUSE). Then whoever asks what it
//! is, or closes it, waits for the sender. Files in memory are told apart without asking them; only the
//! tenant's thread touches others.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_memory::{Tenant, is_in_memory};
use vrdma_provider::daemon::{self, Request};
use vrdma_provider::message::{Call, Hello};
use vrdma_provider::socket::Descriptors;

/// A descriptor that only the thread of its user touches.
#[derive(Debug)]
pub(super) struct ForeignFile {
    fd: Option<OwnedFd>,
    tenant: Arc<Tenant>,
}

impl ForeignFile {
    /// For the tenant's thread.
    pub(super) fn take(mut self) -> Option<OwnedFd> {
        self.fd.take()
    }
}

impl Drop for ForeignFile {
    fn drop(&mut self) {
        self.tenant.close(self.fd.take().into_iter().collect());
    }
}

/// The next request, with its files in memory. Of foreign descriptors only the one that a client says
/// hello with is kept. While the tenant is refused none are taken at all.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    tenant: &Arc<Tenant>,
) -> Result<Option<(Request, Option<ForeignFile>)>, Errno> {
    let fds = if tenant.is_refused() {
        Descriptors::Left
    } else {
        Descriptors::Taken
    };
    let Some(mut request) = daemon::take(socket, fds)? else {
        return Ok(None);
    };
    let mut foreign = request.sift_fds(|fd| is_in_memory(fd.as_fd()));
    if request.code() != Hello::CODE || foreign.len() > 1 {
        tenant.close(foreign);
        return Ok(Some((request, None)));
    }
    let kept = foreign.pop().map(|fd| ForeignFile {
        fd: Some(fd),
        tenant: Arc::clone(tenant),
    });
    Ok(Some((request, kept)))
}
