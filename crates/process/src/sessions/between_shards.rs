//! Sessions that move between shards: with a hello, to the shard of the adapter that it names; with an open adapter,
//! along with it.
//!
//! ```text
//!   hello ──the directory names another shard──► OpeningSession ──► adopt there ──► open, or sent on once more
//!   open  ──its adapter moves──────────────────► OpenSession ─────► adopt_open there
//! ```

use std::os::fd::{AsFd, BorrowedFd};

use vrdma_adapter::ShardId;
use vrdma_provider::daemon::Request;
use vrdma_switch::PortId;
use vrdma_verbs::object::Owner;

use super::{Adapters, Here, Served, SessionId, Sessions, UnansweredHello, elsewhere, give, hello};
use crate::receive::ForeignFile;
use crate::session::Session;

/// A session on its way to another shard, with its hello.
#[derive(Debug)]
pub struct OpeningSession {
    session: Session,
    request: Request,
    memory: Option<ForeignFile>,
}

impl OpeningSession {
    /// The session's socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.session.as_fd()
    }
}

/// A session on its way to another shard, with the adapter that it has open.
#[derive(Debug)]
pub struct OpenSession(Session);

impl OpenSession {
    /// Makes a session that goes on for a process that has ended.
    pub(crate) fn resumed(session: Session) -> Self {
        Self(session)
    }

    /// The session's socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The owner number with which it has the adapter open.
    pub fn owner(&self) -> Option<Owner> {
        Some(self.0.open?.1)
    }
}

impl Sessions {
    pub(super) fn transfer(
        &mut self,
        id: SessionId,
        shard: ShardId,
        hello: Box<UnansweredHello>,
    ) -> Served {
        match self.sessions.take(id) {
            Some(session) => Served::Elsewhere(
                shard,
                Box::new(OpeningSession {
                    session,
                    request: hello.request,
                    memory: hello.memory,
                }),
            ),
            None => Served::Closed(None),
        }
    }

    /// Takes a session that was passed on, and answers its hello, or returns where it has to go. `None` if there is no
    /// room for it.
    pub fn adopt(
        &mut self,
        opening: OpeningSession,
        adapters: &mut impl Adapters,
    ) -> Option<(SessionId, Served)> {
        let OpeningSession {
            session,
            request,
            memory,
        } = opening;
        let caller = session.caller.clone();
        let id = self.sessions.put(session)?;
        let here = Here {
            shard: self.shard,
            registry: &self.registry,
            taking: self.taking,
        };
        if let Some(shard) = elsewhere(&caller, &request, here, adapters) {
            let hello = Box::new(UnansweredHello { request, memory });
            return Some((id, self.transfer(id, shard, hello)));
        }
        let session = self.sessions.get_mut(id)?;
        let answer = hello(session, here, &request, memory, adapters);
        let sent = give(session, here, adapters, request.header(), answer);
        let served = match (sent, session.open) {
            (Err(_), open) => Served::Closed(open),
            (Ok(_), Some((port, owner))) => Served::Opened(port, owner),
            (Ok(_), None) => Served::Open,
        };
        self.sessions.note_opened(id);
        Some((id, served))
    }

    /// Takes out the sessions of an adapter that moves to another shard, which [adopts](Self::adopt_open) them.
    pub fn take_of_adapter(&mut self, port: PortId) -> Vec<OpenSession> {
        let taken = self.sessions.take_at(port).into_iter();
        taken.map(OpenSession).collect()
    }

    /// Takes a session of an adapter that has moved here.
    ///
    /// # Errors
    /// There are too many sessions; the error is the session's owner.
    pub fn adopt_open(&mut self, session: OpenSession) -> Result<SessionId, Option<Owner>> {
        let owner = session.owner();
        self.sessions.put(session.0).ok_or(owner)
    }
}
