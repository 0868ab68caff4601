//! The state that another process needs to go on with a connection, in few bytes.
//!
//! ```text
//!    0  version (u8)       1  flags (u8)        2  requests (u8)      3  pipe (u8)
//!    4  most bytes of a transfer (u32)          8  header of the message handled last (16 bytes)
//!   24  next id (u16)     26  migration (u8)    27  zero (5 bytes)
//!   32  requests of the server: id (u16), command (u8), sent (u8), bytes (u32), address (u64), token (u64)
//! ```
//! All little-endian. `socket/kept.rs` tells what the fields mean for messages. Some bytes may have been lost: values
//! that cannot have been written here are refused.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::message::{BadHeader, Command, HEADER_SIZE, Header, MAX_DATA, MAX_MESSAGE};
use crate::migration::State;

/// Most DMA requests of the server on a kept connection. The device reads one page of its guest's memory at a time.
pub const MAX_KEPT_DMA: usize = 32;

/// Most bytes of a state.
pub const MAX_STATE: usize = size_of::<Fixed>() + MAX_KEPT_DMA * size_of::<RawRequest>();

pub(crate) const VERSION: u8 = 1;

mod flag {
    pub(super) const GREETED: u8 = 1;
    pub(super) const HANDLED: u8 = 1 << 1;
    pub(super) const HAS_ANSWER: u8 = 1 << 2;
    pub(super) const IN_PIECES: u8 = 1 << 3;
    pub(super) const ALL: u8 = (1 << 4) - 1;
}

/// A connection between two steps: what its client may do, and which part of the stream was handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionState {
    /// Most bytes of one DMA transfer; `None` until the client's version was accepted.
    pub(crate) max_transfer: Option<u32>,
    /// The last message that was handled, which may still be in the socket.
    pub(crate) handled: Option<Handled>,
    /// The pipe with the message to send: 0 or 1.
    pub(crate) pipe: usize,
    /// Whether a part of a message is in memory only.
    pub(crate) in_pieces: bool,
    pub(crate) next_id: u16,
    pub(crate) requests: Vec<Pending>,
    /// RUNNING, STOP or ERROR: in the other states the device's data is in memory only.
    pub(crate) migration: State,
}

/// A handled message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handled {
    pub(crate) head: Head,
    /// Whether the pipe had an answer to it.
    pub(crate) has_answer: bool,
}

/// The header of a message that fits, as it is in the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) bytes: [u8; HEADER_SIZE],
    /// Size of the whole message in bytes.
    pub(crate) size: usize,
}

/// A request of the server that waits for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) id: u16,
    pub(crate) command: Command,
    pub(crate) token: u64,
    pub(crate) iova: u64,
    pub(crate) count: u32,
    /// Whether it is in a pipe or was sent to the client, on a kept connection.
    pub(crate) is_sent: bool,
}

/// The error for bytes that are not the state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record of a connection to QEMU is damaged: {0}")]
pub struct BadState(&'static str);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    version: u8,
    flags: u8,
    requests: u8,
    pipe: u8,
    max_transfer: U32,
    handled: [u8; HEADER_SIZE],
    next_id: U16,
    migration: u8,
    zero: [u8; 5],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRequest {
    id: U16,
    command: u8,
    is_sent: u8,
    count: U32,
    iova: U64,
    token: U64,
}

impl SessionState {
    /// Encodes the state, in at most [`MAX_STATE`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(MAX_STATE);
        let fixed = Fixed {
            version: VERSION,
            flags: self.flags(),
            requests: self.requests.len() as u8,
            pipe: self.pipe as u8,
            max_transfer: self.max_transfer.unwrap_or(0).into(),
            handled: self
                .handled
                .map_or([0; HEADER_SIZE], |last| last.head.bytes),
            next_id: self.next_id.into(),
            migration: migration_code(self.migration),
            zero: [0; 5],
        };
        bytes.extend_from_slice(fixed.as_bytes());
        for request in &self.requests {
            bytes.extend_from_slice(request.raw().as_bytes());
        }
        bytes
    }

    /// Decodes what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// The bytes are not a state.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadState> {
        let (fixed, rest) =
            Fixed::ref_from_prefix(bytes).map_err(|_| BadState("it is too short"))?;
        if fixed.version != VERSION {
            return Err(BadState("its version is another one"));
        }
        if fixed.flags & !flag::ALL != 0 || fixed.pipe > 1 || fixed.zero != [0; 5] {
            return Err(BadState("it has values that nobody writes"));
        }
        let max_transfer = fixed.max_transfer()?;
        Ok(Self {
            max_transfer,
            handled: fixed.handled()?,
            pipe: usize::from(fixed.pipe),
            in_pieces: fixed.has(flag::IN_PIECES),
            next_id: fixed.next_id.get(),
            requests: requests(rest, fixed.requests, max_transfer)?,
            migration: fixed.migration()?,
        })
    }

    fn flags(&self) -> u8 {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let has_answer = self.handled.is_some_and(|last| last.has_answer);
        flag(self.max_transfer.is_some(), flag::GREETED)
            | flag(self.handled.is_some(), flag::HANDLED)
            | flag(has_answer, flag::HAS_ANSWER)
            | flag(self.in_pieces, flag::IN_PIECES)
    }
}

/// The code of a state that is kept. Connections saved before there were states have 0.
fn migration_code(state: State) -> u8 {
    match state {
        State::Running => 0,
        State::Stop => 1,
        State::StopCopy | State::Resuming | State::Error => 2,
    }
}

impl Fixed {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn max_transfer(&self) -> Result<Option<u32>, BadState> {
        let most = self.max_transfer.get();
        match self.has(flag::GREETED) {
            true if most <= MAX_DATA => Ok(Some(most)),
            false if most == 0 => Ok(None),
            _ => Err(BadState("its transfers are larger than any")),
        }
    }

    fn migration(&self) -> Result<State, BadState> {
        let kept = [State::Running, State::Stop, State::Error];
        let kept = kept.get(usize::from(self.migration)).copied();
        kept.ok_or(BadState("its migration is in no state"))
    }

    fn handled(&self) -> Result<Option<Handled>, BadState> {
        let has_answer = self.has(flag::HAS_ANSWER);
        if !self.has(flag::HANDLED) {
            let is_empty = self.handled == [0; HEADER_SIZE] && !has_answer;
            return is_empty
                .then_some(None)
                .ok_or(BadState("it has an answer to nothing"));
        }
        let head = Head::parse(self.handled).ok().filter(Head::fits);
        head.map(|head| Some(Handled { head, has_answer }))
            .ok_or(BadState("its header is none"))
    }
}

impl Head {
    pub(crate) fn parse(bytes: [u8; HEADER_SIZE]) -> Result<Self, BadHeader> {
        let header = Header::parse(&bytes)?;
        let size = HEADER_SIZE + header.payload as usize;
        Ok(Self { bytes, size })
    }

    pub(crate) fn fits(&self) -> bool {
        self.size <= MAX_MESSAGE
    }
}

impl Pending {
    fn raw(&self) -> RawRequest {
        RawRequest {
            id: self.id.into(),
            command: self.command as u8,
            is_sent: u8::from(self.is_sent),
            count: self.count.into(),
            iova: self.iova.into(),
            token: self.token.into(),
        }
    }
}

impl RawRequest {
    fn pending(&self) -> Option<Pending> {
        let command = Command::from_code(self.command.into())?;
        let is_dma = matches!(command, Command::DmaRead | Command::DmaWrite);
        (is_dma && self.is_sent <= 1).then_some(Pending {
            id: self.id.get(),
            command,
            token: self.token.get(),
            iova: self.iova.get(),
            count: self.count.get(),
            is_sent: self.is_sent == 1,
        })
    }
}

fn requests(bytes: &[u8], count: u8, most: Option<u32>) -> Result<Vec<Pending>, BadState> {
    let raw = <[RawRequest]>::ref_from_bytes(bytes).map_err(|_| BadState("it is torn"))?;
    if raw.len() != usize::from(count) || raw.len() > MAX_KEPT_DMA {
        return Err(BadState("it has more or fewer requests than it says"));
    }
    let requests: Option<Vec<_>> = raw.iter().map(RawRequest::pending).collect();
    let requests = requests.ok_or(BadState("a request in it is none"))?;
    let is_allowed = |(at, request): (usize, &Pending)| {
        let is_new = requests[..at].iter().all(|other| other.id != request.id);
        is_new && most.is_some_and(|most| request.count <= most)
    };
    match requests.iter().enumerate().all(is_allowed) {
        true => Ok(requests),
        false => Err(BadState("it has requests that were never made")),
    }
}
