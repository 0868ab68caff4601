//! The end of a QEMU's stream that is here: a socket, or a file that QEMU writes (`stream_file`).

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Bytes that are read from QEMU at a time: what its socket holds.
const PIECE_BYTES: usize = 256 << 10;

/// What came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Nothing yet.
    Nothing,
    /// A piece is there.
    Piece,
    /// QEMU sends no more.
    End,
}

/// A piece of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece<'a> {
    /// Where it was written, if that is a file.
    pub(crate) at: Option<u64>,
    pub(crate) bytes: &'a [u8],
}

/// An end; its descriptor tells when something can be read or written.
pub(crate) trait End: AsFd {
    /// Reads a piece, unless one is there.
    fn read(&mut self) -> io::Result<Arrival>;

    /// The piece, or what is left of it.
    fn piece(&self) -> Piece<'_>;

    /// So much of it was taken. QEMU may go on when nothing is left.
    fn take(&mut self, bytes: usize) -> io::Result<()>;

    /// Bytes for QEMU: how many it took.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Hangs up.
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
        // It may have hung up already.
        let _ = self.socket.shutdown(how);
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
