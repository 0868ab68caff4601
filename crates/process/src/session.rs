//! One connection to the process socket.

use std::os::fd::{AsFd, BorrowedFd};

use vrdma_switch::PortId;
use vrdma_verbs::object::Owner;

use super::caller::Caller;
use super::receive::ForeignFile;
use super::users::{Place, User};

/// A session before and after its hello.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) socket: ForeignFile,
    pub(super) caller: Caller,
    /// Its place among those of its user.
    pub(super) place: Place,
    /// The adapter and context that the hello opened.
    pub(super) open: Option<(PortId, Owner)>,
}

impl Session {
    pub(super) fn user(&self) -> &User {
        self.place.user()
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
