//! A connected client.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::calls::{self, Received};
use super::kept::{KEPT_DESCRIPTORS, Kept, TURN_MESSAGES};
use crate::backend::Backend;
use crate::client_fd::{ClientFd, Closing};
use crate::message::{DmaAccess, HEADER_SIZE};
use crate::session::{DmaRefused, Session, SessionError};
use crate::state::SessionState;

/// Whether a call found work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The client had sent nothing.
    Idle,
    /// Bytes were received; there may be more.
    Worked,
}

/// Reasons why a connection ended. Dropping the connection closes the socket; the backend must release everything that
/// the client mapped and wired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// The client hung up between two messages, as QEMU does when it exits.
    #[error("the client hung up")]
    HungUp,
    /// The client hung up in the middle of a message.
    #[error("the client hung up in the middle of a message")]
    Torn,
    /// The client broke the protocol.
    #[error("the client was disconnected: {0}")]
    Protocol(#[from] SessionError),
    /// The socket failed.
    #[error("the connection to the client failed: {0}")]
    Io(Errno),
}

/// A client's socket and session.
#[derive(Debug)]
pub struct Connection {
    pub(super) client: Client,
    /// State that lets another process go on with the connection.
    pub(super) kept: Option<Box<Kept>>,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: ClientFd,
    pub(super) closing: Closing,
    pub(super) session: Session,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.socket.as_fd()
    }
}

/// Bytes of one read, so that the caller can do other work in between: a hundred accesses to registers, each far below
/// a microsecond. Longer messages take several reads.
pub(super) const READ_BYTES: usize = 4096;

impl Connection {
    /// Serves the client at the other end of this stream socket. `closing` closes the socket and the descriptors that
    /// the client sends.
    pub fn new(socket: OwnedFd, closing: Closing) -> Self {
        Connection {
            client: Client {
                socket: ClientFd::new(socket, closing.clone()),
                closing,
                session: Session::new(),
            },
            kept: None,
        }
    }

    /// Makes a [new](Self::new) connection that is [kept](Self::keep).
    ///
    /// # Errors
    /// See [`keep`](Self::keep).
    pub fn kept(socket: OwnedFd, closing: Closing) -> io::Result<Self> {
        Self::new(socket, closing).keep()
    }

    /// Lets another process [go on](Self::resume) with the connection whenever this one ends: with these
    /// [descriptors](Self::descriptors) and the last [committed](Backend::commit) state, at first the present
    /// [state](Self::state). The client gets one answer to each command. Nothing must have been read yet.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn keep(mut self) -> io::Result<Self> {
        self.kept = Some(Box::new(Kept::new(&mut self.client)?));
        Ok(self)
    }

    /// Goes on with the connection of another process, which ended, from its [descriptors](Self::descriptors) and its
    /// last committed state. The device is as it was at that commit. Call [`on_writable`](Self::on_writable) next, as
    /// [`wants_write`](Self::wants_write) says.
    ///
    /// # Errors
    /// A part of a message was lost with that process, so no process can go on; or the descriptors are not the right
    /// ones.
    pub fn resume(
        descriptors: [OwnedFd; KEPT_DESCRIPTORS],
        state: &SessionState,
        closing: Closing,
    ) -> io::Result<Self> {
        let [socket, first_read, first_write, second_read, second_write] = descriptors;
        let client = Client {
            socket: ClientFd::new(socket, closing.clone()),
            closing,
            session: Session::resume(state),
        };
        if state.in_pieces {
            return Err(io::Error::other(
                "a part of a message was lost with the process that had read it",
            ));
        }
        let pipes = [(first_read, first_write), (second_read, second_write)];
        let kept = Kept::resume(&client, pipes, state)?;
        Ok(Connection {
            client,
            kept: Some(Box::new(kept)),
        })
    }

    /// Descriptors that outlive the process, in the order of [`resume`](Self::resume), if the connection is
    /// [kept](Self::keep).
    pub fn descriptors(&self) -> Option<[BorrowedFd<'_>; KEPT_DESCRIPTORS]> {
        let [a, b, c, d] = self.kept.as_ref()?.pipe_ends();
        Some([self.as_fd(), a, b, c, d])
    }

    /// State to commit before the first message, if the connection is [kept](Self::keep).
    pub fn state(&self) -> Option<SessionState> {
        Some(self.kept.as_ref()?.state(&self.client))
    }

    /// Whether the device must stand still: its client stopped it for migration, perhaps in another process.
    pub fn is_stopped(&self) -> bool {
        self.client.session.is_stopped()
    }

    /// Receives once, carries out every complete command and sends the answers: two system calls for a register access,
    /// and no allocation; four if the connection is [kept](Self::keep). While the device is [busy](Backend::is_busy)
    /// commands wait: call it again when the device is not busy, readable or not.
    ///
    /// # Errors
    /// The connection is over. The backend got a `dma_done` for every open DMA request.
    pub fn on_readable(&mut self, backend: &mut dyn Backend) -> Result<Progress, Closed> {
        let result = match &mut self.kept {
            None => self.client.receive(backend),
            Some(kept) => kept.work(&mut self.client, backend, TURN_MESSAGES),
        };
        result.inspect_err(|_| self.client.session.abandon(backend))
    }

    /// Sends the bytes that the socket had no room for.
    ///
    /// # Errors
    /// The connection is over. The backend got a `dma_done` for every open DMA request.
    pub fn on_writable(&mut self, backend: &mut dyn Backend) -> Result<(), Closed> {
        let result = match &mut self.kept {
            None => self.client.flush(),
            Some(kept) => kept.work(&mut self.client, backend, 0).map(drop),
        };
        result.inspect_err(|_| self.client.session.abandon(backend))
    }

    /// Shuts the socket down: the client is told, and the next call here reports that it hung up.
    pub fn hang_up(&self) {
        // This fails if the client has already hung up.
        let _ = shutdown(self.as_fd(), Shutdown::Both);
    }

    /// Whether answers wait for room in the socket: poll for writability.
    pub fn wants_write(&self) -> bool {
        match &self.kept {
            None => self.client.session.outgoing().is_some(),
            Some(kept) => kept.wants_write(&self.client),
        }
    }

    /// Whether to poll for readability. A [kept](Self::keep) connection reads nothing until the client has taken its
    /// answer.
    pub fn wants_read(&self) -> bool {
        !self.kept.as_ref().is_some_and(|kept| kept.is_held_up())
    }

    /// Starts reading `count` bytes of guest memory at `iova`; see [`Session::dma_read`]. The request is sent by the
    /// next [`on_writable`](Self::on_writable) or [`on_readable`](Self::on_readable).
    ///
    /// # Errors
    /// See [`DmaRefused`].
    pub fn dma_read(&mut self, token: u64, iova: u64, count: u32) -> Result<(), DmaRefused> {
        self.client.session.dma_read(token, iova, count)
    }

    /// Number of reads and writes of guest memory with this token that the client has not answered.
    pub fn open_requests(&self, token: u64) -> usize {
        self.client.session.open_requests(token)
    }

    /// Most bytes of one write. Fewer on a [kept](Self::keep) connection, so that its pipes need no more memory.
    pub fn dma_write_max(&self) -> usize {
        match &self.kept {
            None => self.client.session.max_transfer(),
            Some(kept) => kept.longest_message() - HEADER_SIZE - size_of::<DmaAccess>(),
        }
    }

    /// Starts writing guest memory at `iova`; see [`Session::dma_write`]. The request is sent by the next
    /// [`on_writable`](Self::on_writable) or [`on_readable`](Self::on_readable).
    ///
    /// # Errors
    /// See [`DmaRefused`].
    pub fn dma_write(&mut self, token: u64, iova: u64, data: &[u8]) -> Result<(), DmaRefused> {
        self.client.session.dma_write(token, iova, data)
    }
}

impl Client {
    fn receive(&mut self, backend: &mut dyn Backend) -> Result<Progress, Closed> {
        self.session.go_on(backend)?;
        self.flush()?;
        if backend.is_busy() {
            return Ok(Progress::Idle);
        }
        let space = self.session.space();
        let room = space.len().min(READ_BYTES);
        let received = match calls::receive(self.socket.as_fd(), &mut space[..room], &self.closing)
        {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Progress::Idle),
            Err(errno) => return Err(Closed::Io(errno)),
            Ok(Received { length: 0, .. }) => return Err(self.hang_up()),
            Ok(received) => received,
        };
        let Received { length, fds, lost } = received;
        let result = self.session.received(length, fds, lost, backend);
        self.flush()?;
        result?;
        Ok(Progress::Worked)
    }

    fn hang_up(&self) -> Closed {
        if self.session.is_between_messages() {
            Closed::HungUp
        } else {
            Closed::Torn
        }
    }

    fn flush(&mut self) -> Result<(), Closed> {
        while let Some(outgoing) = self.session.outgoing() {
            match calls::send(self.socket.as_fd(), &outgoing) {
                Ok(length) => self.session.sent(length),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Closed::HungUp),
                Err(errno) => return Err(Closed::Io(errno)),
            }
        }
        Ok(())
    }
}
