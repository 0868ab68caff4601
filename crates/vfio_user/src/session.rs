//! One client's conversation, without I/O: bytes and descriptors in, calls to the device and
//! bytes and descriptors out.
//!
//! ```text
//!             VERSION accepted            end of stream, SessionError
//!   greeting ─────────────────> serving ──────────────────────────────> over
//!      │ any other command: EINVAL │ commands: reply or errno
//!      └───────────<───────────────┘ DMA replies: Backend::dma_done
//! ```
//!
//! A wrong command is answered with an errno and the session goes on: the header tells where the next message starts.
//! The session ends only when that is unknown, when a reply comes that matches no request, or when the client lets
//! replies pile up.
//!
//! Memory is bounded by construction: [`MAX_MESSAGE`] bytes of input, [`OUTPUT_LIMIT`] bytes of output, [`DATA_MAX`]
//! bytes of a device that migrates, [`MAX_PENDING_DMA`] requests of the server and [`MAX_MESSAGE_FDS`] descriptors of
//! an unfinished message, whatever headers claim.
//!
//! [`DATA_MAX`]: crate::message::DATA_MAX
//! [`MAX_MESSAGE`]: crate::message::MAX_MESSAGE
//! [`MAX_MESSAGE_FDS`]: crate::message::MAX_MESSAGE_FDS

mod dispatch;
mod dma;
mod input;
mod migrating;
mod output;

#[cfg(test)]
mod tests;

use rustix::io::Errno;

use crate::backend::Backend;
use crate::client_fd::ClientFd;
use crate::message::{BadHeader, HEADER_SIZE, Header, Kind};
use crate::migration::State;
use crate::state::{MAX_KEPT_DMA, SessionState};
use dma::DmaTable;
pub use dma::{DmaRefused, MAX_PENDING_DMA};
use input::{Attached, Incoming, Input};
use migrating::Migrating;
use output::Output;
pub use output::{OUTPUT_LIMIT, Outgoing};

/// Reasons why a session cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The end of a message is unknown.
    #[error(transparent)]
    Header(#[from] BadHeader),
    /// A reply matches no request of the server.
    #[error("a reply with id {0} came that answers no request")]
    UnexpectedReply(u16),
    /// A reply is larger than any that the server can have requested.
    #[error("a reply of {0} bytes came, more than was ever asked for")]
    ReplySize(u32),
    /// The client sends commands and does not read the answers.
    #[error("the client left {OUTPUT_LIMIT} bytes of answers unread")]
    OutputLimit,
}

/// The protocol state of one client.
#[derive(Debug, Default)]
pub struct Session {
    input: Input,
    peer: Peer,
}

/// The state that handling a command needs, apart from the buffer that holds the command itself.
#[derive(Debug, Default)]
struct Peer {
    output: Output,
    dma: DmaTable,
    /// Most bytes of one DMA transfer; `None` until the client's version was accepted.
    max_transfer: Option<u32>,
    migrating: Migrating,
}

impl Session {
    /// Makes a session with a client that has sent nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Buffer for the next bytes from the client; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.input.space()
    }

    /// Handles the first `length` bytes of [`space`](Self::space), which came from one receive call together with
    /// `fds`, and carries out every command that is complete, until the device is [busy](Backend::is_busy): then call
    /// [`go_on`](Self::go_on) later, and before the next receive call. `lost` tells that the kernel dropped some.
    ///
    /// Afterwards look at [`outgoing`](Self::outgoing).
    ///
    /// # Errors
    /// The session is over; the error tells why. Drop it after [`abandon`](Self::abandon).
    ///
    /// # Panics
    /// If `length` is larger than the space was.
    pub fn received(
        &mut self,
        length: usize,
        fds: Vec<ClientFd>,
        lost: bool,
        backend: &mut dyn Backend,
    ) -> Result<(), SessionError> {
        self.input.filled(length, Attached { fds, lost });
        self.go_on(backend)
    }

    /// Carries out every command that is complete, until the device is [busy](Backend::is_busy).
    ///
    /// # Errors
    /// The same as [`received`](Self::received).
    pub fn go_on(&mut self, backend: &mut dyn Backend) -> Result<(), SessionError> {
        while !backend.is_busy()
            && let Some(incoming) = self.input.next()?
        {
            self.peer.handle(incoming, backend)?;
        }
        self.input.compact();
        Ok(())
    }

    /// The next message to send, or the rest of it. Messages are handed out one at a time: descriptors travel with the
    /// first byte of their message, and QEMU takes a header that arrives in two pieces for the end of the connection.
    pub fn outgoing(&self) -> Option<Outgoing<'_>> {
        self.peer.output.front()
    }

    /// Notes that the first `length` bytes of [`outgoing`](Self::outgoing), with the descriptor if any, were sent to
    /// the client.
    ///
    /// # Panics
    /// If `length` is larger than the message.
    pub fn sent(&mut self, length: usize) {
        self.peer.output.sent(length);
    }

    /// Requests `count` bytes of guest memory at `iova` from the client; the answer is a call of [`Backend::dma_done`]
    /// with this token.
    ///
    /// QEMU serves these from its main loop, so none is answered while a vCPU waits for the reply
    /// to a region access.
    ///
    /// # Errors
    /// Nothing was requested; see [`DmaRefused`].
    pub fn dma_read(&mut self, token: u64, iova: u64, count: u32) -> Result<(), DmaRefused> {
        self.peer.dma_read(token, iova, count)
    }

    /// Requests that the client puts `data` into guest memory at `iova`; the answer is a call of [`Backend::dma_done`]
    /// with this token.
    ///
    /// # Errors
    /// Nothing was requested; see [`DmaRefused`].
    pub fn dma_write(&mut self, token: u64, iova: u64, data: &[u8]) -> Result<(), DmaRefused> {
        self.peer.dma_write(token, iova, data)
    }

    /// Most bytes of one such request; 0 until the client's version was accepted.
    pub fn max_transfer(&self) -> usize {
        self.peer.max_transfer.unwrap_or(0) as usize
    }

    /// Number of the server's requests with this token that have no answer yet.
    pub fn open_requests(&self, token: u64) -> usize {
        let pending = self.peer.dma.pending.iter();
        pending.filter(|pending| pending.token == token).count()
    }

    /// Ends the session, since the client is gone: every open DMA request fails with `ECONNRESET`.
    pub fn abandon(&mut self, backend: &mut dyn Backend) {
        self.peer.dma.abandon(backend);
    }

    /// Limits the server's requests to as many as a state has room for.
    pub(crate) fn keep(&mut self) {
        self.peer.dma.limit = MAX_KEPT_DMA;
    }

    /// Resumes a session that another process began, between two messages.
    pub(crate) fn resume(state: &SessionState) -> Self {
        let mut session = Self::new();
        session.keep();
        session.peer.max_transfer = state.max_transfer;
        session.peer.dma.next_id = state.next_id;
        session.peer.dma.pending.clone_from(&state.requests);
        session.peer.migrating = Migrating::resume(state.migration);
        session
    }

    /// Saves the part of the session that another process needs; the connection saves the rest.
    pub(crate) fn save(&self, state: &mut SessionState) {
        state.max_transfer = self.peer.max_transfer;
        state.next_id = self.peer.dma.next_id;
        state.requests.clone_from(&self.peer.dma.pending);
        state.migration = self.peer.migrating.kept_state();
    }

    /// Whether the device must stand still: its client stopped it for migration.
    pub(crate) fn is_stopped(&self) -> bool {
        self.peer.migrating.kept_state() != State::Running
    }

    /// Fails the requests that the previous process never sent, with `ECONNRESET`.
    pub(crate) fn abandon_unsent(&mut self, backend: &mut dyn Backend) {
        self.peer.dma.abandon_unsent(backend);
    }

    /// Notes that the whole message that [`outgoing`](Self::outgoing) shows will reach the client.
    pub(crate) fn leaves(&mut self) {
        let Some(outgoing) = self.outgoing() else {
            return;
        };
        let (length, head) = (
            outgoing.bytes.len(),
            outgoing.bytes.first_chunk::<HEADER_SIZE>(),
        );
        if let Some(Ok(header)) = head.map(Header::parse)
            && matches!(header.kind, Kind::Command { .. })
        {
            self.peer.dma.leaves(header.id);
        }
        self.sent(length);
    }

    /// Keeps descriptors that came with the previous message, and belong to the next one.
    pub(crate) fn hold(&mut self, fds: Vec<ClientFd>, lost: bool) {
        self.input.filled(0, Attached { fds, lost });
    }

    /// Bytes missing from the message at the front of the stream; do not read more at once.
    pub(crate) fn missing(&self) -> usize {
        self.input.missing()
    }

    /// Whether the stream may end here: no message is partly received.
    pub fn is_between_messages(&self) -> bool {
        self.input.is_between_messages()
    }
}

impl Peer {
    fn handle(
        &mut self,
        incoming: Incoming<'_>,
        backend: &mut dyn Backend,
    ) -> Result<(), SessionError> {
        match incoming {
            Incoming::Message {
                header,
                payload,
                attached,
            } => match header.kind {
                Kind::Command { .. } => self.command(&header, payload, attached, backend),
                Kind::Reply { error } => self.dma.reply(&header, error, payload, backend)?,
            },
            Incoming::Oversized(header) => self.oversized(&header)?,
        }
        self.output.check()
    }

    fn oversized(&mut self, header: &Header) -> Result<(), SessionError> {
        match header.kind {
            Kind::Command { .. } => {
                self.refuse(
                    header,
                    Errno::MSGSIZE,
                    "the message is larger than any we know",
                );
                Ok(())
            }
            Kind::Reply { .. } => Err(SessionError::ReplySize(header.payload)),
        }
    }

    fn refuse(&mut self, header: &Header, errno: Errno, reason: &str) {
        tracing::debug!(command = header.command, id = header.id, %errno, reason, "refused");
        self.output.refuse(header, errno);
    }
}
