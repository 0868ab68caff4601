//! One connection to the process socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vrdma_provider::daemon::Peer;
use vrdma_switch::PortId;
use vrdma_verbs::object::Owner;

/// A client before and after its hello.
pub(super) struct Session {
    pub(super) socket: OwnedFd,
    pub(super) peer: Peer,
    /// The adapter and context that the hello opened.
    pub(super) open: Option<(PortId, Owner)>,
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
