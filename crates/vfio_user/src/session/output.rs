//! The stream to the client: whole messages in order, each with at most one descriptor.
//!
//! ```text
//!   0      start                                     len <= OUTPUT_LIMIT
//!   | sent | rest of message | message | message ... |
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::SessionError;
use crate::message::{HEADER_SIZE, Header, Kind, MAX_MESSAGE};

/// Most bytes that may wait for the client. Beyond this the session ends: QEMU reads in its own thread and has at most
/// a few commands open for each vCPU, so a client that gets this far sends without ever reading.
pub const OUTPUT_LIMIT: usize = 4 * MAX_MESSAGE;

/// A message to the client, or the rest of one.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// Bytes to send, not empty.
    pub bytes: &'a [u8],
    /// Descriptor that goes with the first byte.
    pub fd: Option<BorrowedFd<'a>>,
}

#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    start: usize,
    /// Unsent bytes of a partly sent message; 0 when a header is at `start`.
    rest: usize,
    /// Number of bytes ever sent, so that descriptors can be tied to a place in the stream.
    sent: u64,
    /// Descriptors, each with the stream position of its message.
    fds: VecDeque<(u64, OwnedFd)>,
    overflow: bool,
}

impl Output {
    /// Appends a message and returns its payload, zeroed, to be filled. `None` if the limit is reached, which
    /// [`check`](Self::check) then reports.
    pub(super) fn message(
        &mut self,
        id: u16,
        command: u16,
        kind: Kind,
        payload: usize,
    ) -> Option<&mut [u8]> {
        let size = HEADER_SIZE + payload;
        if self.waiting() + size > OUTPUT_LIMIT {
            self.overflow = true;
            return None;
        }
        self.drop_sent(size);
        let header = Header {
            id,
            command,
            payload: payload as u32,
            kind,
        };
        self.bytes.extend_from_slice(&header.emit());
        let start = self.bytes.len();
        self.bytes.resize(start + payload, 0);
        Some(&mut self.bytes[start..])
    }

    /// Starts the reply to a command, unless the client wants none.
    pub(super) fn reply(&mut self, to: &Header, payload: usize) -> Option<&mut [u8]> {
        match to.kind {
            Kind::Command { no_reply: false } => {
                self.message(to.id, to.command, Kind::Reply { error: None }, payload)
            }
            _ => None,
        }
    }

    pub(super) fn reply_with(&mut self, to: &Header, payload: &[u8]) {
        if let Some(space) = self.reply(to, payload.len()) {
            space.copy_from_slice(payload);
        }
    }

    /// Appends a reply, and its descriptor if there is one.
    pub(super) fn reply_with_fd(&mut self, to: &Header, payload: &[u8], fd: Option<OwnedFd>) {
        let position = self.sent + self.waiting() as u64;
        if let Some(space) = self.reply(to, payload.len()) {
            space.copy_from_slice(payload);
            self.fds.extend(fd.map(|fd| (position, fd)));
        }
    }

    pub(super) fn refuse(&mut self, to: &Header, errno: Errno) {
        if let Kind::Command { no_reply: false } = to.kind {
            let error = Some(errno.raw_os_error() as u32);
            self.message(to.id, to.command, Kind::Reply { error }, 0);
        }
    }

    pub(super) fn has_room(&self, payload: usize) -> bool {
        self.waiting() + HEADER_SIZE + payload <= OUTPUT_LIMIT
    }

    pub(super) fn check(&self) -> Result<(), SessionError> {
        if self.overflow {
            Err(SessionError::OutputLimit)
        } else {
            Ok(())
        }
    }

    pub(super) fn front(&self) -> Option<Outgoing<'_>> {
        let waiting = &self.bytes[self.start..];
        if waiting.is_empty() {
            return None;
        }
        let fd = self
            .fds
            .front()
            .filter(|(position, _)| *position == self.sent);
        Some(Outgoing {
            bytes: &waiting[..self.front_length()],
            fd: fd.map(|(_, fd)| fd.as_fd()),
        })
    }

    pub(super) fn sent(&mut self, length: usize) {
        if length == 0 {
            return;
        }
        let front = self.front_length();
        assert!(length <= front, "more was sent than there was");
        if self
            .fds
            .front()
            .is_some_and(|(position, _)| *position == self.sent)
        {
            self.fds.pop_front();
        }
        self.sent += length as u64;
        self.start += length;
        self.rest = front - length;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    fn front_length(&self) -> usize {
        if self.rest > 0 {
            return self.rest;
        }
        let header = self.bytes[self.start..].first_chunk::<HEADER_SIZE>();
        let header = header.expect("sent() is called after front() showed a message");
        let header = Header::parse(header).expect("we wrote this header");
        HEADER_SIZE + header.payload as usize
    }

    fn waiting(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Keeps the buffer within the limit while the client is slow: drops sent bytes before the buffer would be enlarged
    /// for `size` more.
    fn drop_sent(&mut self, size: usize) {
        if self.bytes.len() + size > self.bytes.capacity() {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }
}
