//! This side's end of a QEMU's stream: a socket, or a file that QEMU writes (`stream_file`).

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Bytes that are read from QEMU at a time: as much as its socket holds.
const PIECE_BYTES: usize = 256 << 10;

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Nothing yet.
    Nothing,
    /// A piece has arrived.
    Piece,
    /// QEMU sends no more.
    End,
}

/// A piece of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece<'a> {
    /// Offset at which QEMU wrote it, if the end is a file.
    pub(crate) at: Option<u64>,
    pub(crate) bytes: &'a [u8],
}

/// An end of the stream; its descriptor tells when something can be read or written.
pub(crate) trait End: AsFd {
    /// Reads a piece, unless one is already there.
    fn read(&mut self) -> io::Result<Arrival>;

    /// The unread piece, or what is left of it.
    fn piece(&self) -> Piece<'_>;

    /// Marks bytes of the piece as taken. QEMU may go on when nothing is left.
    fn take(&mut self, bytes: usize) -> io::Result<()>;

    /// Writes bytes to QEMU and returns how many it took.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Shuts the end down.
    fn shutdown(&mut self, how: Shutdown);
}

/// A socket that QEMU is connected to.
pub(crate) struct SocketEnd {
    socket: UnixStream,
    piece: Vec<u8>,
    unread: Range<usize>,
}

impl SocketEnd {
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            piece: vec![0; PIECE_BYTES],
            unread: 0..0,
        })
    }
}

impl AsFd for SocketEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl End for SocketEnd {
    fn read(&mut self) -> io::Result<Arrival> {
        if !self.unread.is_empty() {
            return Ok(Arrival::Piece);
        }
        match self.socket.read(&mut self.piece) {
            Ok(0) => Ok(Arrival::End),
            Ok(count) => {
                self.unread = 0..count;
                Ok(Arrival::Piece)
            }
            Err(error) if is_later(&error) => Ok(Arrival::Nothing),
            Err(error) => Err(error),
        }
    }

    fn piece(&self) -> Piece<'_> {
        Piece {
            at: None,
            bytes: &self.piece[self.unread.clone()],
        }
    }

    fn take(&mut self, bytes: usize) -> io::Result<()> {
        self.unread.start += bytes;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.write(bytes) {
            Err(error) if is_later(&error) => Ok(0),
            written => written,
        }
    }

    fn shutdown(&mut self, how: Shutdown) {
        // QEMU may have hung up already.
        let _ = self.socket.shutdown(how);
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
