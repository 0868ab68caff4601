//! The process at the other end of a socket.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::Pid;
use vrdma_provider::daemon;
use vrdma_provider::message::Name;

use crate::users::is_ours;

/// A process, as it was when it connected.
#[derive(Clone, Debug)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Process in the daemon's PID namespace; `None` if it is not visible there.
    pub(crate) pid: Option<Pid>,
    gid: u32,
    /// Supplementary groups.
    others: Arc<[u32]>,
    /// The only adapter that this process can see: the one whose socket it came by; `None` if it came by the socket for
    /// all.
    pub(crate) only: Option<Name>,
}

impl Caller {
    /// Finds out the process at the other end of a connected socket.
    ///
    /// # Errors
    /// The descriptor is no such socket.
    pub fn at(socket: BorrowedFd<'_>) -> Result<Self, Errno> {
        let peer = daemon::peer(socket)?;
        Ok(Self {
            uid: peer.uid,
            pid: peer.pid,
            gid: peer.gid,
            others: daemon::peer_groups(socket).into(),
            only: None,
        })
    }

    /// The process's number, if the daemon's PID namespace has it.
    pub fn pid(&self) -> Option<Pid> {
        self.pid
    }

    /// Restricts the process to the adapter by whose socket it came.
    pub(crate) fn at_socket_of(self, adapter: Name) -> Self {
        Self {
            only: Some(adapter),
            ..self
        }
    }

    /// All groups of the process.
    pub(crate) fn groups(&self) -> impl Iterator<Item = u32> {
        [self.gid].into_iter().chain(self.others.iter().copied())
    }

    /// Whether the daemon runs as the same user.
    pub(crate) fn is_ours(&self) -> bool {
        is_ours(self.uid)
    }

    #[cfg(test)]
    pub(crate) fn of(uid: u32, gid: u32, others: &[u32]) -> Self {
        Self {
            uid,
            pid: None,
            gid,
            others: others.into(),
            only: None,
        }
    }
}
