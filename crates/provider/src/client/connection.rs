//! The connection to the daemon: one blocking call at a time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect,
    socket_with,
};

use crate::message::{Call, Header, PACKET_MAX, encode, parse, split};
use crate::socket::{receive, send};

/// The reason why a call has no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// The daemon refused with this errno.
    #[error("refused: {0}")]
    Refused(Errno),
    /// The connection is gone: nothing works any more.
    #[error("the connection to vrdmad is gone: {0}")]
    Lost(Errno),
}

impl CallError {
    /// The errno to report; for a lost connection it is `EIO`, as for a device that was removed.
    pub fn raw_os_error(self) -> i32 {
        match self {
            Self::Refused(errno) => errno.raw_os_error(),
            Self::Lost(_) => Errno::IO.raw_os_error(),
        }
    }
}

/// A successful answer.
#[derive(Debug)]
pub struct Answer<R> {
    /// Its body.
    pub body: R,
    /// Descriptors that came with it.
    pub fds: Vec<OwnedFd>,
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    /// Number of calls so far.
    calls: AtomicU16,
}

impl Connection {
    /// Connects. The usual errors are `NotFound` and `ConnectionRefused` (no daemon) and
    /// `PermissionDenied`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self::new(socket))
    }

    /// Makes a connection from a socket that is connected already.
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            calls: AtomicU16::new(0),
        }
    }

    /// Sends a request and waits for the answer. Calls must not overlap.
    pub fn call<T: Call>(
        &self,
        request: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Answer<T::Reply>, CallError> {
        let mut buffer = [0; PACKET_MAX];
        let number = self.calls.fetch_add(1, Relaxed).wrapping_add(1);
        let packet = encode(Header::of::<T>(number), request, &mut buffer);
        send(self.socket.as_fd(), packet, fds, SendFlags::empty()).map_err(CallError::Lost)?;
        loop {
            let answered = self.answer::<T>(number);
            if let Some(answer) = answered.transpose() {
                return answer;
            }
        }
    }

    /// Returns `None` for an answer to an earlier call, which a restarted daemon has repeated.
    fn answer<T: Call>(&self, number: u16) -> Result<Option<Answer<T::Reply>>, CallError> {
        let packet = receive(self.socket.as_fd(), RecvFlags::empty()).map_err(CallError::Lost)?;
        let packet = packet.ok_or(CallError::Lost(Errno::PIPE))?;
        let (header, body) = split(packet.bytes()).ok_or(CallError::Lost(Errno::PROTO))?;
        if header.number != number {
            return Ok(None);
        }
        if u32::from(header.code) != T::CODE {
            return Err(CallError::Lost(Errno::PROTO));
        }
        if header.errno != 0 {
            return Err(CallError::Refused(Errno::from_raw_os_error(
                header.errno as i32,
            )));
        }
        let body = parse(body).ok_or(CallError::Lost(Errno::PROTO))?;
        Ok(Some(Answer {
            body,
            fds: packet.fds,
        }))
    }
}

impl AsFd for Connection {
    /// Readable when the daemon has hung up.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
