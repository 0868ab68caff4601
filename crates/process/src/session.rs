//! One connection to the process socket.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use vrdma_provider::daemon::Answer;
use vrdma_provider::message::Header;
use vrdma_switch::PortId;
use vrdma_verbs::object::Owner;

use super::caller::Caller;
use super::receive::ForeignFile;
use super::users::{SessionSlot, User};

/// The answer to a request. A process that goes on after this one repeats it if it finds the request.
#[derive(Debug)]
pub(super) struct Answered {
    /// Header of the request.
    pub(super) header: Header,
    pub(super) answer: Result<Answer, Errno>,
}

/// A session before and after its hello.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) socket: ForeignFile,
    pub(super) caller: Caller,
    /// The session's place in its user's quota.
    pub(super) place: SessionSlot,
    /// The answer that was given last, as long as a record has it.
    pub(super) answered: Option<Answered>,
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
