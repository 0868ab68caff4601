//! Receiving requests, whose descriptors may be anything.
//!
//! A descriptor may be a file of a file system that its sender serves (FUSE): to ask what kind of file it is, or to
//! close it, may then take as long as the sender likes. It may be a socket that lingers, too. Files in memory are
//! recognised without such a question; only the tenant's threads touch others.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use vrdma_memory::{Tenant, is_in_memory};
use vrdma_provider::daemon::{self, Request};
use vrdma_provider::message::{Call, Hello};

/// A descriptor that only its user's thread closes: one that a client sent, or the client's socket, which may hold
/// descriptors that nobody has received.
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

    /// The user whose thread closes the file.
    pub(super) fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Takes out the descriptor, for the tenant's thread.
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

/// When requests are taken from a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taking {
    /// When they are read.
    AtOnce,
    /// When they are answered ([`consume`]): a process that goes on after this one finds those that are not.
    WhenAnswered,
}

/// Takes the request that was answered from the socket.
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

/// Returns the next request, with its files in memory. Of other descriptors only the one that belongs to a hello is
/// kept, and none while the tenant is refused.
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
