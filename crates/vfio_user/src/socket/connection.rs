//! A connected client.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::backend::Backend;
use crate::client_fd::{ClientFd, Closing};
use crate::session::{DmaRefused, Outgoing, Session, SessionError};

/// Whether a call found something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The client had sent nothing.
    Idle,
    /// Bytes were taken; there may be more.
    Worked,
}

/// Why a connection ended. Dropping the connection has the socket closed; what the client mapped and
/// wired is the backend's to release.
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
    socket: ClientFd,
    closing: Closing,
    session: Session,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// One receive call's yield besides the bytes.
struct Received {
    length: usize,
    fds: Vec<ClientFd>,
    lost: bool,
}

/// Descriptors that one message of a socket can have (SCM_MAX_FD of Linux).
const SENT_FDS_MAX: usize = 253;

/// Bytes of one read, which its owner does between other work: a hundred accesses to registers, each far
/// below a microsecond. Longer messages come in several reads.
pub(super) const READ_BYTES: usize = 4096;

impl Connection {
    /// Serves the client at the other end of this stream socket. That and what it sends is closed by
    /// `closing`.
    pub fn new(socket: OwnedFd, closing: Closing) -> Self {
        Connection {
            socket: ClientFd::new(socket, closing.clone()),
            closing,
            session: Session::new(),
        }
    }

    /// Receives once, carries out every command that is complete and sends the answers: two
    /// system calls for a register access, and no allocation. While the device is
    /// [busy](Backend::is_busy) commands wait: call it again when it is not, readable or not.
    ///
    /// # Errors
    /// The connection is over. The backend got a `dma_done` for every DMA request still open.
    pub fn on_readable(&mut self, backend: &mut dyn Backend) -> Result<Progress, Closed> {
        self.receive(backend)
            .inspect_err(|_| self.session.abandon(backend))
    }

    /// Sends what the socket could not take before.
    ///
    /// # Errors
    /// The connection is over. The backend got a `dma_done` for every DMA request still open.
    pub fn on_writable(&mut self, backend: &mut dyn Backend) -> Result<(), Closed> {
        self.flush().inspect_err(|_| self.session.abandon(backend))
    }

    /// Answers wait for the socket to take them: poll for writability.
    pub fn wants_write(&self) -> bool {
        self.session.outgoing().is_some()
    }

    /// Starts reading `count` bytes of guest memory at `iova`; see [`Session::dma_read`]. It
    /// leaves with the next [`on_writable`](Self::on_writable) or
    /// [`on_readable`](Self::on_readable).
    ///
    /// # Errors
    /// See [`DmaRefused`].
    pub fn dma_read(&mut self, token: u64, iova: u64, count: u32) -> Result<(), DmaRefused> {
        self.session.dma_read(token, iova, count)
    }

    /// Starts writing guest memory at `iova`; see [`Session::dma_write`]. It leaves with the next
    /// [`on_writable`](Self::on_writable) or [`on_readable`](Self::on_readable).
    ///
    /// # Errors
    /// See [`DmaRefused`].
    pub fn dma_write(&mut self, token: u64, iova: u64, data: &[u8]) -> Result<(), DmaRefused> {
        self.session.dma_write(token, iova, data)
    }

    fn receive(&mut self, backend: &mut dyn Backend) -> Result<Progress, Closed> {
        self.session.go_on(backend)?;
        self.flush()?;
        if backend.is_busy() {
            return Ok(Progress::Idle);
        }
        let space = self.session.space();
        let room = space.len().min(READ_BYTES);
        let received = match receive_once(self.socket.as_fd(), &mut space[..room], &self.closing) {
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
            match send_once(self.socket.as_fd(), &outgoing) {
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

/// With room for all descriptors that there can be: those without room the kernel would close here.
fn receive_once(
    socket: BorrowedFd<'_>,
    space: &mut [u8],
    closing: &Closing,
) -> Result<Received, Errno> {
    let mut control = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SENT_FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut control);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut [IoSliceMut::new(space)], &mut control, flags)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights.map(|fd| ClientFd::new(fd, closing.clone())));
        }
    }
    let lost = received.flags.contains(ReturnFlags::CTRUNC);
    Ok(Received {
        length: received.bytes,
        fds,
        lost,
    })
}

fn send_once(socket: BorrowedFd<'_>, outgoing: &Outgoing<'_>) -> Result<usize, Errno> {
    let mut control = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut control);
    let fds = outgoing.fd.as_slice();
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        assert!(fits, "the control buffer was made for one descriptor");
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(outgoing.bytes)], &mut control, flags)
}
