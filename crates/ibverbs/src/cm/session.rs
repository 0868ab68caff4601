//! The process's one connection for connection management, and its identifiers by number.
//!
//! It is made with the first channel and stays. A child of a fork makes its own: identifiers of the
//! parent remember the [`fork::generation`] and are refused.

use core::ffi::c_int;
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use parking_lot::{Mutex, MutexGuard};
use vrdma_provider::VERSION;
use vrdma_provider::client::{Answer, Connection};
use vrdma_provider::cm::Greet;
use vrdma_provider::message::{Call, Name};
use vrdma_provider::socket::ADAPTER_VARIABLE;

use super::identifier::Identifier;
use crate::beginning::begin;
use crate::errno::{Errno, Result};
use crate::fork;
use crate::lost;

/// The connection.
pub(super) struct Session {
    generation: u32,
    connection: Connection,
    /// Identifiers that are not destroyed yet.
    pub(super) identifiers: HashMap<u64, Known>,
}

/// An identifier that events may name.
#[derive(Clone, Copy)]
pub(super) struct Known(pub(super) *mut Identifier);

// SAFETY: identifiers may be used from any thread; one is taken out before it is freed.
unsafe impl Send for Known {}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

impl Session {
    fn open() -> Result<Self> {
        fork::watch();
        begin(Self::over)
    }

    /// Begins a session over a connection on which nothing was said yet.
    fn over(connection: Connection) -> Result<Self> {
        let wanted = std::env::var(ADAPTER_VARIABLE).unwrap_or_default();
        let greet = Greet {
            version: VERSION,
            reserved: 0,
            adapter: Name::new(&wanted).ok_or(Errno(libc::ENODEV))?,
        };
        connection
            .call(&greet, &[])
            .map_err(|error| Errno(error.raw_os_error()))?;
        Ok(Self {
            generation: fork::generation(),
            connection,
            identifiers: HashMap::new(),
        })
    }

    pub(super) fn call<T: Call>(&self, request: &T) -> Result<Answer<T::Reply>> {
        let answer = self.connection.call(request, &[]);
        answer.map_err(|error| Errno(error.raw_os_error()))
    }
}

/// The session, held while the guard lives.
pub(super) struct Held(MutexGuard<'static, Option<Session>>);

impl Held {
    /// # Errors
    /// There is no daemon, or it has no adapter for this process.
    pub(super) fn get(&mut self) -> Result<&mut Session> {
        let stale = |session: &Session| session.generation != fork::generation();
        if self.0.as_ref().is_none_or(stale) {
            *self.0 = Some(Session::open()?);
        }
        self.0.as_mut().ok_or(Errno(libc::EIO))
    }
}

/// Takes a test's connection for the session while the guard lives; returns the daemon's end of it, too.
#[cfg(test)]
pub(super) fn taken_over() -> (MutexGuard<'static, ()>, OwnedFd) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    static TAKEN: Mutex<()> = Mutex::new(());
    let taken = TAKEN.lock();
    let seqpacket = SocketType::SEQPACKET;
    let pair = socketpair(AddressFamily::UNIX, seqpacket, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.expect("a pair of sockets");
    *SESSION.lock() = Some(Session {
        generation: fork::generation(),
        connection: Connection::new(ours),
        identifiers: HashMap::new(),
    });
    (taken, theirs)
}

/// Waits until the session is free, and holds it.
pub(super) fn hold() -> Held {
    Held(SESSION.lock())
}

/// How long an ending daemon takes to close its descriptors, one after the other.
const ENDING_MS: c_int = 200;

/// Whether the daemon is gone or about to end: one of its pipes has ended.
pub(super) fn is_lost() -> bool {
    let socket = {
        let held = SESSION.lock();
        let session = held.as_ref();
        session.and_then(|session| session.connection.as_fd().try_clone_to_owned().ok())
    };
    socket.is_none_or(|socket| lost::has_hung_up(socket.as_fd(), ENDING_MS))
}

/// Asks the daemon.
pub(super) fn call<T: Call>(request: &T) -> Result<T::Reply> {
    Ok(hold().get()?.call(request)?.body)
}

/// Asks the daemon for something that comes with a descriptor.
pub(super) fn call_for_fd<T: Call>(request: &T) -> Result<(T::Reply, OwnedFd)> {
    let answer = hold().get()?.call(request)?;
    let fd = answer.fds.into_iter().next().ok_or(Errno(libc::EPROTO))?;
    Ok((answer.body, fd))
}
