//! What a client sends, with descriptors that may be anything.
//!
//! A descriptor may be a file of a file system that its sender serves (FUSE). Then whoever asks what it
//! is, or closes it, waits for the sender. It may be a socket that lingers, too. Files in memory are told
//! apart without asking them; only the tenant's threads touch others.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_memory::{Tenant, is_in_memory};
use vrdma_provider::daemon::{self, Request};
use vrdma_provider::message::{Call, Hello};

/// A descriptor that only the thread of its user closes: one that a client sent, or its socket, which
/// may have others in it that nobody has read.
#[derive(Debug)]
pub(super) struct ForeignFile {
    fd: Option<OwnedFd>,
    tenant: Arc<Tenant>,
}

impl ForeignFile {
    pub(super) fn new(fd: OwnedFd, tenant: Arc<Tenant>) -> Self {
        Self {
            fd: Some(fd),
            tenant,
        }
    }

    /// Whose thread closes it.
    pub(super) fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// For the tenant's thread.
    pub(super) fn take(mut self) -> Option<OwnedFd> {
        self.fd.take()
    }
}

impl AsFd for ForeignFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Some(fd) => fd.as_fd(),
            None => unreachable!("only what is being dropped has none"),
        }
    }
}

impl Drop for ForeignFile {
    fn drop(&mut self) {
        self.tenant.close(self.fd.take().into_iter().collect());
    }
}

/// How requests are taken from a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taking {
    /// At once.
    AtOnce,
    /// When they are answered ([`consume`]): whoever goes on after this process finds those that are not.
    WhenAnswered,
}

/// The request that was answered is not the next one any more.
///
/// # Errors
/// The client hung up.
pub(super) fn consume(socket: BorrowedFd<'_>, tenant: &Arc<Tenant>) -> Result<(), Errno> {
    let taken = daemon::take(socket, |fds| tenant.close(fds))?;
    if let Some(mut request) = taken {
        tenant.close(request.take_fds());
    }
    Ok(())
}

/// The next request, with its files in memory. Of foreign descriptors only the one that a client says
/// hello with is kept. While the tenant is refused none is.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    tenant: &Arc<Tenant>,
    taking: Taking,
) -> Result<Option<(Request, Option<ForeignFile>)>, Errno> {
    let close = |fds| tenant.close(fds);
    let next = match taking {
        Taking::AtOnce => daemon::take(socket, close),
        Taking::WhenAnswered => daemon::peek(socket, close),
    };
    let Some(mut request) = next? else {
        return Ok(None);
    };
    if tenant.is_refused() {
        tenant.close(request.take_fds());
    }
    let mut foreign = request.sift_fds(|fd| is_in_memory(fd.as_fd()));
    if request.code() != Hello::CODE || foreign.len() > 1 {
        tenant.close(foreign);
        return Ok(Some((request, None)));
    }
    let kept = foreign
        .pop()
        .map(|fd| ForeignFile::new(fd, Arc::clone(tenant)));
    Ok(Some((request, kept)))
}
