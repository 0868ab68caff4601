//! One connected QEMU: bytes in, frames out, and frames that it has not taken yet.
//!
//! If another worker is to go on with the connection, an incomplete frame stays in the socket ([`kept`](super::kept)).

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use vrdma_wire::qemu_stream::HEADER_BYTES;

use super::kept::{Kept, WHOLE_BYTES};
use super::stream::Stream;

/// Most bytes that may wait for a guest; beyond them its new frames are dropped, so that a slow guest costs nobody else
/// anything. Linux lets one TCP connection have as much in flight (`tcp_wmem`), so a guest that loses its processor for
/// a tick or two loses no frames.
pub(super) const BACKLOG_BYTES_MAX: usize = 4 << 20;

/// Most memory that an empty backlog keeps: one that was once long gives the rest back.
const BACKLOG_BYTES_KEPT: usize = 64 << 10;

/// Most frames of one batch: all go in one `sendmsg`, which takes this many slices (`IOV_MAX` of Linux), and a flood of
/// tiny frames to every port stays small.
pub(super) const FRAMES_MAX: usize = 1024;

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    /// Record of the connection. Before the stream in drop order: the record is removed first, then the connection is
    /// closed.
    kept: Option<Kept>,
    stream: Stream,
    /// Beginning of a frame whose end has not come yet; shorter than one frame.
    carry: Vec<u8>,
    /// Whether only the beginning of a frame waits in the socket.
    stalled: bool,
    /// Frames with headers; part of the first one may have been written already.
    backlog: VecDeque<u8>,
    /// Bytes left of each of these frames.
    lengths: VecDeque<usize>,
}

impl Client {
    /// A client with nothing sent or received; `kept` if another worker is to go on with it.
    pub(super) fn new(stream: Stream, kept: Option<Kept>) -> Self {
        Self {
            kept,
            stream,
            carry: Vec::new(),
            stalled: false,
            backlog: VecDeque::new(),
            lengths: VecDeque::new(),
        }
    }

    /// Fills `buffer` with the carried bytes and then what the socket has; `None` when it has
    /// nothing. A closed connection is [`ErrorKind::UnexpectedEof`].
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.kept.is_some() {
            return taken(self.stream.peek(buffer));
        }
        let carried = self.carry.len();
        buffer[..carried].copy_from_slice(&self.carry);
        let read = taken(self.stream.receive(&mut buffer[carried..]))?;
        Ok(read.map(|read| carried + read))
    }

    /// Keeps the beginning of a frame, at the end of the bytes of the last [`Client::receive`], for the next one.
    pub(super) fn carry(&mut self, buffer: &mut [u8], rest: Range<usize>) -> io::Result<()> {
        if self.kept.is_none() {
            self.carry.clear();
            self.carry.extend_from_slice(&buffer[rest]);
            return Ok(());
        }
        self.stalled = rest.start == 0;
        let mut left = rest.start;
        while left > 0 {
            // All of these bytes are there: nobody else reads.
            let read = self.stream.receive(&mut buffer[..left])?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            left -= read;
        }
        Ok(())
    }

    /// Whether looking again is useful only after more bytes have come.
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
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
            self.write_frames(bytes, frames)?
        } else {
            0
        };
        for frame in frames {
            let done = written.min(frame.len());
            written -= done;
            // A frame that has begun must be completed, or the stream loses its framing.
            if done == 0 && self.backlog.len() + frame.len() > BACKLOG_BYTES_MAX {
                give_up(frame.len() - HEADER_BYTES);
            } else {
                let rest = &bytes[frame.start + done..frame.end];
                self.backlog.extend(rest);
                self.lengths
                    .extend((!rest.is_empty()).then_some(rest.len()));
            }
        }
        Ok(())
    }

    /// Sends waiting frames as far as the socket takes them.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.lengths.is_empty() {
            let count = first_part(self.lengths.iter().copied(), self.part_bytes());
            let length: usize = self.lengths.iter().take(count).sum();
            let mut written = self.write_backlog(length)?;
            let is_all = written == length;
            self.backlog.drain(..written);
            while let Some(first) = self.lengths.front_mut().filter(|_| written > 0) {
                let done = written.min(*first);
                written -= done;
                *first -= done;
                if *first == 0 {
                    self.lengths.pop_front();
                }
            }
            if !is_all {
                break;
            }
        }
        if self.backlog.is_empty() {
            self.backlog.shrink_to(BACKLOG_BYTES_KEPT);
        }
        Ok(())
    }

    /// Most bytes of one write, unless one frame is longer.
    fn part_bytes(&self) -> usize {
        match self.kept {
            Some(_) => WHOLE_BYTES,
            None => usize::MAX,
        }
    }

    /// Writes frames as far as the socket takes them. Returns the bytes that it took.
    fn write_frames(&mut self, bytes: &[u8], mut frames: &[Range<usize>]) -> io::Result<usize> {
        let mut written = 0;
        while !frames.is_empty() {
            let count = first_part(frames.iter().map(Range::len), self.part_bytes());
            let (part, rest) = frames.split_at(count);
            let length = part.iter().map(Range::len).sum();
            let took = write(&self.stream, &mut self.kept, &joined(bytes, part), length)?;
            written += took;
            if took < length {
                break;
            }
            frames = rest;
        }
        Ok(written)
    }

    fn write_backlog(&mut self, length: usize) -> io::Result<usize> {
        let (front, back) = self.backlog.as_slices();
        let front = &front[..length.min(front.len())];
        let slices = [
            IoSlice::new(front),
            IoSlice::new(&back[..length - front.len()]),
        ];
        write(&self.stream, &mut self.kept, &slices, length)
    }

    /// Whether frames wait for the socket to become writable.
    pub(super) fn is_waiting(&self) -> bool {
        !self.backlog.is_empty()
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Joins adjacent ranges of `bytes` into slices.
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

/// Returns how many frames fit in one write: at least one.
fn first_part(lengths: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut sum = 0_usize;
    let fits = |length: &usize| {
        sum = sum.saturating_add(*length);
        sum <= most
    };
    lengths.take_while(fits).count().max(1)
}

/// Sends whole frames, or the end of one, with one `sendmsg`; a full socket takes 0 bytes.
fn write(
    stream: &Stream,
    kept: &mut Option<Kept>,
    slices: &[IoSlice<'_>],
    length: usize,
) -> io::Result<usize> {
    let was_cut = kept.as_ref().is_some_and(Kept::is_cut);
    let written = match stream.send(slices) {
        Err(error) if is_transient(error.kind()) => 0,
        sent => sent?,
    };
    if let Some(kept) = kept {
        kept.cut(written < length && (written > 0 || was_cut));
    }
    Ok(written)
}

fn taken(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(read) => Ok(Some(read)),
        Err(error) if is_transient(error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_transient(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
