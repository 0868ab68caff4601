//! One connected QEMU: bytes in, frames out, and the frames that it has not taken yet.
//!
//! If another worker goes on with the connection, what is not a whole frame yet stays in the socket ([`kept`](super::kept)).

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use vrdma_wire::qemu_stream::HEADER_BYTES;

use super::kept::{Kept, WHOLE_BYTES};
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
    /// Before the stream, which is closed when it is not written down any more.
    kept: Option<Kept>,
    stream: Stream,
    /// Beginning of a frame whose end has not come yet; shorter than one frame.
    carry: Vec<u8>,
    /// Nothing but the beginning of a frame waits in the socket.
    stalled: bool,
    /// Frames with headers; the first may have lost its beginning to the socket already.
    backlog: VecDeque<u8>,
    /// How long each of them is.
    lengths: VecDeque<usize>,
}

impl Client {
    /// With nothing sent or received; `kept` if another worker goes on with it.
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

    /// Keeps the beginning of a frame, the end of what the last [`Client::receive`] has filled, for the next one.
    pub(super) fn carry(&mut self, buffer: &mut [u8], rest: Range<usize>) -> io::Result<()> {
        if self.kept.is_none() {
            self.carry.clear();
            self.carry.extend_from_slice(&buffer[rest]);
            return Ok(());
        }
        self.stalled = rest.start == 0;
        let mut left = rest.start;
        while left > 0 {
            // All of it is there: nobody else reads.
            let read = self.stream.receive(&mut buffer[..left])?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            left -= read;
        }
        Ok(())
    }

    /// Whether it is of use to look again only when more has come.
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
            // A frame that has begun must be ended, or the stream loses its step.
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

    /// As much is written at once, unless one frame is longer.
    fn part_bytes(&self) -> usize {
        match self.kept {
            Some(_) => WHOLE_BYTES,
            None => usize::MAX,
        }
    }

    /// Writes frames as far as the socket takes them; how many bytes it took.
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

/// How many frames go together: at least one.
fn first_part(lengths: impl Iterator<Item = usize>, most: usize) -> usize {
    let mut sum = 0_usize;
    let fits = |length: &usize| {
        sum = sum.saturating_add(*length);
        sum <= most
    };
    lengths.take_while(fits).count().max(1)
}

/// One `sendmsg` of whole frames, or of the end of one; a full socket takes 0 bytes.
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
