//! A connection that another process can go on with, whenever this one ends.
//!
//! ```text
//!   message ──looked at, handled──► answer ──► pipe ──► commit ──► message consumed ──► answer spliced
//!   (stays in the socket)                                                              to the socket
//! ```
//! Each arrow is one step and at most one system call that others notice. The descriptors outlive the process, and so
//! does the last commit: the device, and the [`SessionState`]. Both tell the next process where the one before ended. M
//! is the message, L the one before it, which was done.
//!
//! | it ended after | committed | pipe of the state | other pipe | head of the stream | the next one |
//! |---|---|---|---|---|---|
//! | M was handled | L | empty | empty | M | handles M |
//! | its answer was put | L | empty | M's answer | M | empties the other pipe, handles M |
//! | the commit | M | M's answer | empty | M | consumes M, splices |
//! | M was consumed | M | M's answer | empty | another or none | splices |
//! | a part was spliced | M | its rest | empty | another or none | splices |
//! | all was spliced | M | empty | empty | another or none | goes on |
//!
//! * *Head is M* is decided by the header, byte for byte. A client that waits for the answer before it uses the number
//!   again has no other such message there as long as the pipe holds the answer; if the pipe is empty and there was an
//!   answer, M was consumed. Messages without an answer (posted writes, replies to the server) are known by the header
//!   alone: a client that sends two equal headers one after the other may lose the second if the process ends
//!   between them. QEMU does not, since it counts.
//! * *Requests of the server* go the same way, without M. Those that were queued but never put fail with `ECONNRESET`.
//! * *An answer with a descriptor* cannot pass a pipe. It is sent, then the commit is made, then M is consumed. If the
//!   process ends after it was sent and before the commit, it is sent twice, which QEMU takes for the end of the
//!   connection. Only answers about regions have descriptors, and QEMU asks for them when it starts.
//! * *A message in pieces* (larger than any, its end not there yet, or its descriptors in another piece than its end or
//!   with the previous message) cannot stay in the socket, which would be readable all the time. It is read as on any
//!   other connection, after a commit that says so; if the process ends before the next commit, the connection cannot
//!   go on.
//! * *A message is consumed* with room for its descriptors, which are closed elsewhere, like those that were looked at;
//!   and into memory that was just written, so that the process cannot be killed by a page fault in the middle of it.
//! * *A client that takes no answers* is not served, and its answers do not pile up.
//!
//! The process ignores SIGPIPE, as Rust's programs do: splice(2) has no flag against it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::calls::{self, Received};
use super::connection::{Client, Closed, Progress, READ_BYTES};
use super::peeking::{self, Found};
use super::pipes::{PIPE_BYTES, Pipes};
use crate::backend::Backend;
use crate::migration::State;
use crate::state::{Handled, Head, SessionState};

/// Number of descriptors that outlive the process: the socket, and the read end and write end of two pipes.
pub const KEPT_DESCRIPTORS: usize = 5;

/// Messages, or pieces of one, of a turn, so that the caller can do other work in between.
pub(super) const TURN_MESSAGES: usize = 16;

#[derive(Debug)]
pub(super) struct Kept {
    pipes: Pipes,
    phase: Phase,
    handled: Option<Handled>,
    in_pieces: bool,
    /// Whether there was more after the last message that was looked at.
    saw_more: bool,
    /// Whether descriptors came with that message.
    saw_fds: bool,
}

/// The next step. A message that is still in the socket is named by its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Another process began; its last message may still be in the socket.
    Resumed(Option<Head>),
    /// Sends what is in the pipe, then requests of the server, then takes the next message.
    Ready,
    /// The device carried the message out, and the answer is in the session.
    Carried {
        message: Option<Head>,
        is_direct: bool,
    },
    /// The answer, with this length, is in the other pipe.
    Put {
        message: Option<Head>,
        length: usize,
    },
    /// The committed state says that the message was handled.
    Committed(Option<Head>),
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Go on.
    Done,
    /// Go on; a message, or a piece of one, was taken.
    Taken,
    /// Nothing to do until the client sends something, or the device is no longer busy.
    Idle,
    /// Nothing to do until the client takes something.
    Full,
}

impl Kept {
    pub(super) fn new(client: &mut Client) -> Result<Self, Errno> {
        client.session.keep();
        nonblocking(client.socket.as_fd())?;
        Ok(Self {
            pipes: Pipes::new()?,
            phase: Phase::Ready,
            handled: None,
            in_pieces: false,
            saw_more: false,
            saw_fds: true,
        })
    }

    pub(super) fn resume(
        client: &Client,
        pipes: [(OwnedFd, OwnedFd); 2],
        state: &SessionState,
    ) -> Result<Self, Errno> {
        nonblocking(client.socket.as_fd())?;
        let pipes = Pipes::resume(pipes, state.pipe)?;
        let doubtful = |last: &Handled| !last.has_answer || pipes.is_holding();
        let doubtful = state.handled.filter(doubtful).map(|last| last.head);
        Ok(Self {
            pipes,
            phase: Phase::Resumed(doubtful),
            handled: state.handled,
            in_pieces: false,
            saw_more: false,
            saw_fds: true,
        })
    }

    /// The state to commit.
    pub(super) fn state(&self, client: &Client) -> SessionState {
        let mut state = SessionState {
            max_transfer: None,
            handled: self.handled,
            pipe: self.pipes.current(),
            in_pieces: self.in_pieces,
            next_id: 0,
            requests: Vec::new(),
            migration: State::default(),
        };
        client.session.save(&mut state);
        state
    }

    /// Longest message in bytes that needs no more memory.
    pub(super) fn longest_message(&self) -> usize {
        PIPE_BYTES
    }

    pub(super) fn pipe_ends(&self) -> [BorrowedFd<'_>; 4] {
        self.pipes.ends()
    }

    /// Whether nothing is read until the client takes an answer.
    pub(super) fn is_held_up(&self) -> bool {
        self.pipes.is_holding() || matches!(self.phase, Phase::Carried { .. })
    }

    /// Whether there is something to do that does not wait for the client to send.
    pub(super) fn wants_write(&self, client: &Client) -> bool {
        let has_begun = self.phase != Phase::Ready || self.pipes.is_holding();
        has_begun || client.session.outgoing().is_some()
    }

    /// Completes what was begun, and handles up to `messages` messages.
    pub(super) fn work(
        &mut self,
        client: &mut Client,
        backend: &mut dyn Backend,
        mut messages: usize,
    ) -> Result<Progress, Closed> {
        let mut progress = Progress::Idle;
        while messages > 0 || self.wants_write(client) {
            match self.step(client, backend)? {
                Step::Done => {}
                Step::Taken => {
                    progress = Progress::Worked;
                    messages = if self.saw_more { messages - 1 } else { 0 };
                }
                Step::Idle | Step::Full => break,
            }
        }
        Ok(progress)
    }

    pub(super) fn step(
        &mut self,
        client: &mut Client,
        backend: &mut dyn Backend,
    ) -> Result<Step, Closed> {
        match self.phase {
            Phase::Resumed(doubtful) => self.verify_doubtful(doubtful, client, backend),
            Phase::Ready if self.pipes.is_holding() => self.splice(client),
            Phase::Ready if client.session.outgoing().is_some() => self.put(None, client),
            Phase::Ready if backend.is_busy() => Ok(Step::Idle),
            Phase::Ready if self.in_pieces => self.take_piece(client, backend),
            Phase::Ready => self.take(client, backend),
            Phase::Carried { message, is_direct } => self.answer(message, is_direct, client),
            Phase::Put { message, length } => {
                self.commit(message, length, client, backend);
                Ok(Step::Done)
            }
            Phase::Committed(None) => {
                self.phase = Phase::Ready;
                Ok(Step::Done)
            }
            Phase::Committed(Some(head)) => self.consume(head, client, backend),
        }
    }

    /// Consumes the last message that was handled, if that is not done.
    fn verify_doubtful(
        &mut self,
        doubtful: Option<Head>,
        client: &mut Client,
        backend: &mut dyn Backend,
    ) -> Result<Step, Closed> {
        client.session.abandon_unsent(backend);
        self.phase = Phase::Ready;
        let Some(last) = doubtful else {
            return Ok(Step::Done);
        };
        match peeking::is_first(client, &last) {
            Ok(true) => self.phase = Phase::Committed(doubtful),
            Ok(false) | Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => self.phase = Phase::Resumed(doubtful),
            Err(errno) => return Err(Closed::Io(errno)),
        }
        Ok(Step::Done)
    }

    fn splice(&mut self, client: &Client) -> Result<Step, Closed> {
        went(self.pipes.send(client.socket.as_fd()))
    }

    /// Looks at the first message, and has it handled if it is complete.
    fn take(&mut self, client: &mut Client, backend: &mut dyn Backend) -> Result<Step, Closed> {
        match peeking::first_message(client)? {
            Found::Nothing => Ok(Step::Idle),
            Found::End => Err(Closed::HungUp),
            Found::Piece => Ok(self.begin_pieces(client, backend)),
            Found::Whole {
                head,
                received: Received { length, fds, lost },
                has_more,
            } => {
                (self.saw_more, self.saw_fds) = (has_more, lost || !fds.is_empty());
                client.session.received(length, fds, lost, backend)?;
                self.phase = carried(Some(head));
                Ok(Step::Taken)
            }
        }
    }

    /// From now on a part of the stream is in memory only; commits that first.
    fn begin_pieces(&mut self, client: &Client, backend: &mut dyn Backend) -> Step {
        self.in_pieces = true;
        self.handled = None;
        backend.commit(&self.state(client));
        Step::Done
    }

    fn take_piece(
        &mut self,
        client: &mut Client,
        backend: &mut dyn Backend,
    ) -> Result<Step, Closed> {
        let room = client.session.missing().min(READ_BYTES);
        let space = &mut client.session.space()[..room];
        let received = match calls::receive(client.socket.as_fd(), space, &client.closing) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Step::Idle),
            received => received.map_err(Closed::Io)?,
        };
        let Received { length, fds, lost } = received;
        if length == 0 {
            return Err(Closed::Torn);
        }
        self.saw_more = true;
        client.session.received(length, fds, lost, backend)?;
        if client.session.is_between_messages() {
            self.in_pieces = false;
            self.phase = carried(None);
        }
        Ok(Step::Taken)
    }

    /// Puts the answer into a pipe, if there is one and it can go there.
    fn answer(
        &mut self,
        message: Option<Head>,
        is_direct: bool,
        client: &mut Client,
    ) -> Result<Step, Closed> {
        match client.session.outgoing() {
            None => {
                self.phase = Phase::Put { message, length: 0 };
                Ok(Step::Done)
            }
            Some(answer) if is_direct || answer.fd.is_some() => self.send(message, client),
            Some(_) => self.put(message, client),
        }
    }

    fn put(&mut self, message: Option<Head>, client: &mut Client) -> Result<Step, Closed> {
        if let Some(outgoing) = client.session.outgoing() {
            let length = outgoing.bytes.len();
            self.pipes.put(outgoing.bytes).map_err(Closed::Io)?;
            client.session.leaves();
            self.phase = Phase::Put { message, length };
        }
        Ok(Step::Done)
    }

    /// Sends an answer with its descriptor.
    fn send(&mut self, message: Option<Head>, client: &mut Client) -> Result<Step, Closed> {
        let Some(answer) = client.session.outgoing() else {
            return Ok(Step::Done);
        };
        let whole = answer.bytes.len();
        let sent = calls::send(client.socket.as_fd(), &answer);
        if let Ok(sent) = sent {
            client.session.sent(sent);
            self.phase = if sent == whole {
                Phase::Put { message, length: 0 }
            } else {
                Phase::Carried {
                    message,
                    is_direct: true,
                }
            };
        }
        went(sent.map(drop))
    }

    fn commit(
        &mut self,
        message: Option<Head>,
        length: usize,
        client: &Client,
        backend: &mut dyn Backend,
    ) {
        let has_answer = length > 0;
        if has_answer {
            self.pipes.turn(length);
        }
        self.handled = message.map(|head| Handled { head, has_answer });
        backend.commit(&self.state(client));
        self.phase = Phase::Committed(message);
    }

    fn consume(
        &mut self,
        head: Head,
        client: &mut Client,
        backend: &mut dyn Backend,
    ) -> Result<Step, Closed> {
        let space = &mut client.session.space()[..head.size];
        let received = match calls::receive(client.socket.as_fd(), space, &client.closing) {
            Err(Errno::INTR) => return Ok(Step::Done),
            received => received.map_err(Closed::Io)?,
        };
        if received.length != head.size {
            return Err(Closed::Torn);
        }
        self.phase = Phase::Ready;
        if !self.saw_fds && (received.lost || !received.fds.is_empty()) {
            client.session.hold(received.fds, received.lost);
            return Ok(self.begin_pieces(client, backend));
        }
        Ok(Step::Done)
    }
}

fn carried(message: Option<Head>) -> Phase {
    Phase::Carried {
        message,
        is_direct: false,
    }
}

fn went(sent: Result<(), Errno>) -> Result<Step, Closed> {
    match sent {
        Ok(()) | Err(Errno::INTR) => Ok(Step::Done),
        Err(Errno::AGAIN) => Ok(Step::Full),
        Err(Errno::PIPE | Errno::CONNRESET) => Err(Closed::HungUp),
        Err(errno) => Err(Closed::Io(errno)),
    }
}

/// Makes the socket non-blocking, as splice(2) has no flag for the socket. The client's end has its own flag.
fn nonblocking(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    fcntl_setfl(socket, fcntl_getfl(socket)? | OFlags::NONBLOCK)
}
