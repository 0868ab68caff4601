//! One connected QEMU: bytes in, frames out, and the frames that it has not taken yet.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use vrdma_wire::qemu_stream::HEADER_BYTES;

use super::stream::Stream;

/// Bytes that may wait for a guest; past them its frames are dropped, newest first, so that a slow
/// guest costs nobody else anything. As much as Linux lets one TCP connection have in flight
/// (`tcp_wmem`), so that a guest whose processor is taken away for a tick or two loses nothing.
pub(super) const BACKLOG_BYTES_MAX: usize = 4 << 20;

/// A backlog that was once long gives its memory back when it is empty.
const BACKLOG_BYTES_KEPT: usize = 64 << 10;

/// Frames of one batch: all go in one `sendmsg`, which takes this many slices (`IOV_MAX` of Linux),
/// and a flood of tiny frames to every port stays small.
pub(super) const FRAMES_MAX: usize = 1024;

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: Stream,
    /// Beginning of a frame whose end has not come yet; shorter than one frame.
    carry: Vec<u8>,
    /// Frames with headers; the first may have lost its beginning to the socket already.
    backlog: VecDeque<u8>,
}

impl Client {
    /// With nothing sent or received.
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            carry: Vec::new(),
            backlog: VecDeque::new(),
        }
    }

    /// Fills `buffer` with the carried bytes and then what the socket has; `None` when it has
    /// nothing. A closed connection is [`ErrorKind::UnexpectedEof`].
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let carried = self.carry.len();
        buffer[..carried].copy_from_slice(&self.carry);
        match self.stream.receive(&mut buffer[carried..]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => Ok(Some(carried + read)),
            Err(error) if is_transient(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps the beginning of a frame for the next [`Client::receive`].
    pub(super) fn carry(&mut self, rest: &[u8]) {
        self.carry.clear();
        self.carry.extend_from_slice(rest);
    }

    /// Sends at most [`FRAMES_MAX`] frames of `bytes`, each a range with its header, in order. Never
    /// blocks. `give_up` gets the length, without header, of each frame that the guest will not get.
    pub(super) fn send(
        &mut self,
        bytes: &[u8],
        frames: &[Range<usize>],
        mut give_up: impl FnMut(usize),
    ) -> io::Result<()> {
        let idle = self.backlog.is_empty();
        let mut written = if idle {
            write(&self.stream, &joined(bytes, frames))?
        } else {
            0
        };
        for frame in frames {
            let done = written.min(frame.len());
            written -= done;
            // A frame that has begun must be ended, or the stream loses its step.
            if done == 0 && self.backlog.len() + frame.len() > BACKLOG_BYTES_MAX {
                give_up(frame.len() - HEADER_BYTES);
            } else {
                self.backlog.extend(&bytes[frame.start + done..frame.end]);
            }
        }
        Ok(())
    }

    /// Sends waiting frames as far as the socket takes them.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let (front, back) = self.backlog.as_slices();
        let written = write(&self.stream, &[IoSlice::new(front), IoSlice::new(back)])?;
        self.backlog.drain(..written);
        if self.backlog.is_empty() {
            self.backlog.shrink_to(BACKLOG_BYTES_KEPT);
        }
        Ok(())
    }

    /// Frames wait for the socket to become writable.
    pub(super) fn is_waiting(&self) -> bool {
        !self.backlog.is_empty()
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Neighbours in `bytes` as one slice.
fn joined<'a>(bytes: &'a [u8], frames: &[Range<usize>]) -> Vec<IoSlice<'a>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for frame in frames {
        match ranges.last_mut() {
            Some(last) if last.end == frame.start => last.end = frame.end,
            _ => ranges.push(frame.clone()),
        }
    }
    ranges
        .into_iter()
        .map(|range| IoSlice::new(&bytes[range]))
        .collect()
}

/// One `sendmsg`; a full socket takes 0 bytes.
fn write(stream: &Stream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    match stream.send(slices) {
        Ok(written) => Ok(written),
        Err(error) if is_transient(error.kind()) => Ok(0),
        Err(error) => Err(error),
    }
}

fn is_transient(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
