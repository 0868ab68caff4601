//! The stream from the client, cut into messages.
//!
//! ```text
//!   0          parsed              filled            MAX_MESSAGE
//!   | handled  | start of a message | free            |
//! ```
//!
//! One fixed buffer as long as the longest message: a message that fits is always completed, a longer one is skipped.
//! After each round the unfinished rest moves to the front.
//!
//! **Which message owns descriptors?** On a stream the kernel ends a receive call with the send call that carried
//! descriptors, and clients send each message with its own call. Descriptors thus belong to the message that holds the
//! last byte of their receive call, not to the first message in it: QEMU sends mappings with and without a file in one
//! burst.

use crate::client_fd::ClientFd;
use crate::message::{HEADER_SIZE, Header, MAX_MESSAGE, MAX_MESSAGE_FDS};

use super::SessionError;

/// Descriptors that came with a message.
#[derive(Debug, Default)]
pub(super) struct Attached {
    pub(super) fds: Vec<ClientFd>,
    /// Whether there were more, which are closed.
    pub(super) lost: bool,
}

impl Attached {
    fn append(&mut self, mut more: Attached) {
        self.fds.append(&mut more.fds);
        self.lost |= more.lost || self.fds.len() > MAX_MESSAGE_FDS;
        self.fds.truncate(MAX_MESSAGE_FDS);
    }
}

/// The next item on the stream.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    Message {
        header: Header,
        payload: &'a [u8],
        attached: Attached,
    },
    /// A message longer than [`MAX_MESSAGE`]; the bytes after its header are dropped.
    Oversized(Header),
}

#[derive(Debug)]
pub(super) struct Input {
    buffer: Box<[u8]>,
    filled: usize,
    parsed: usize,
    /// Bytes of an oversized message that are still to come.
    skip: usize,
    /// Descriptors that came with earlier parts of the message at `parsed`.
    held: Attached,
    /// Descriptors that came with the last bytes.
    arrived: Attached,
}

impl Default for Input {
    fn default() -> Self {
        Input {
            buffer: vec![0; MAX_MESSAGE].into_boxed_slice(),
            filled: 0,
            parsed: 0,
            skip: 0,
            held: Attached::default(),
            arrived: Attached::default(),
        }
    }
}

impl Input {
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    pub(super) fn filled(&mut self, length: usize, attached: Attached) {
        assert!(
            length <= self.buffer.len() - self.filled,
            "more bytes than there was space"
        );
        self.filled += length;
        self.arrived.append(attached);
    }

    /// The next whole message, or `None` when more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Incoming<'_>>, SessionError> {
        if !self.skip_past() {
            return Ok(None);
        }
        let Some(header) = self.header()? else {
            self.hold();
            return Ok(None);
        };
        let size = HEADER_SIZE + header.payload as usize;
        if size > MAX_MESSAGE {
            return Ok(Some(self.start_skipping(header, size)));
        }
        let end = self.parsed + size;
        if end > self.filled {
            self.hold();
            return Ok(None);
        }
        let attached = self.take_attached(end);
        let start = std::mem::replace(&mut self.parsed, end) + HEADER_SIZE;
        Ok(Some(Incoming::Message {
            header,
            payload: &self.buffer[start..end],
            attached,
        }))
    }

    /// Drops bytes that are still to be skipped; false if there are no bytes after them.
    fn skip_past(&mut self) -> bool {
        let now = self.skip.min(self.filled - self.parsed);
        self.skip -= now;
        self.parsed += now;
        let more = self.parsed < self.filled;
        if now > 0 && !more {
            self.arrived = Attached::default();
        }
        more
    }

    fn header(&self) -> Result<Option<Header>, SessionError> {
        let bytes = self.buffer[self.parsed..self.filled].first_chunk::<HEADER_SIZE>();
        Ok(bytes.map(Header::parse).transpose()?)
    }

    fn start_skipping(&mut self, header: Header, size: usize) -> Incoming<'static> {
        self.held = Attached::default();
        self.skip = size - HEADER_SIZE;
        self.parsed += HEADER_SIZE;
        if self.parsed == self.filled {
            self.arrived = Attached::default();
        }
        Incoming::Oversized(header)
    }

    /// Keeps the new descriptors for the message at `parsed`: it is unfinished, so it holds the last byte.
    fn hold(&mut self) {
        self.held.append(std::mem::take(&mut self.arrived));
    }

    fn take_attached(&mut self, end: usize) -> Attached {
        if end == self.filled {
            self.hold();
        }
        std::mem::take(&mut self.held)
    }

    /// Makes room after the unfinished message.
    pub(super) fn compact(&mut self) {
        self.buffer.copy_within(self.parsed..self.filled, 0);
        self.filled -= self.parsed;
        self.parsed = 0;
    }

    /// Bytes known to be missing from the message at `parsed`: of its header, or of the rest.
    pub(super) fn missing(&self) -> usize {
        let have = self.filled - self.parsed;
        match self.header() {
            _ if self.skip > 0 => self.skip,
            Ok(Some(header)) => (HEADER_SIZE + header.payload as usize).saturating_sub(have),
            _ => HEADER_SIZE.saturating_sub(have),
        }
    }

    pub(super) fn is_between_messages(&self) -> bool {
        self.filled == self.parsed && self.skip == 0
    }
}
