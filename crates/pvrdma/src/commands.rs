//! The command channel: one request slot, one response slot, executed before the register write that asks for it
//! returns; a long command, before the next access to a register.
//!
//! ```text
//!   execute ──► Answered, Done, Refused
//!      └──────► UnderWay ──go_on, between other work──► Answered, Refused
//! ```
//!
//! The request is copied once. Each command is one function behind a table entry. Its answer, header and body, is
//! written whole, and not a byte more. A refused command answers with a header whose `ack` fits no command, so that a
//! driver that looks anyway cannot take an older answer for this one.

mod bind;
mod context;
pub(crate) mod cq;
pub(crate) mod destroy;
mod errno;
mod mr;
mod pd;
mod port;
pub(crate) mod qp;
mod qp_attributes;
mod qp_geometry;
pub(crate) mod srq;
mod table;

use vrdma_adapter::Publishing;
use vrdma_memory::{Fault, PageList, Right, View};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::abi::command::{ACK, HEADER_BYTES, REQUEST_BYTES, RESPONSE_BYTES};
use crate::abi::command::{RequestHeader, ResponseHeader};
use crate::adapter::{Adapter, Turn};
use crate::handshake::Slots;

pub(crate) use errno::Errno;

const BODY_BYTES: usize = REQUEST_BYTES - HEADER_BYTES;

/// The device's copy of a request's body; beyond the command's structure, it holds bytes of the driver's stack.
pub(crate) struct Body([u8; BODY_BYTES]);

impl Body {
    fn parse<T: FromBytes + KnownLayout + Immutable>(&self) -> T {
        let (parsed, _) =
            T::read_from_prefix(&self.0).expect("the slot is as long as the longest request");
        parsed
    }
}

/// The pages that a request names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    /// Bus address of their page directory.
    pub(crate) directory: u64,
    /// Number of pages.
    pub(crate) pages: u32,
}

impl Listed {
    /// Resolves the pages of a queue, which the device writes.
    pub(crate) fn resolve(self, memory: &View<'_>) -> Result<PageList, Errno> {
        let list = PageList::resolve(memory, self.directory, self.pages, Right::Write);
        list.map_err(|_| Errno::Fault)
    }
}

/// The response to a command.
pub(crate) struct Reply {
    bytes: [u8; RESPONSE_BYTES],
    length: usize,
}

impl Reply {
    /// An empty response: the driver looks only at the error register.
    fn none() -> Self {
        Self {
            bytes: [0; RESPONSE_BYTES],
            length: 0,
        }
    }

    /// A response of a header and `body`.
    fn with<T: IntoBytes + Immutable>(body: &T) -> Self {
        let mut reply = Self::none();
        let body = body.as_bytes();
        reply.length = HEADER_BYTES + body.len();
        reply.bytes[HEADER_BYTES..reply.length].copy_from_slice(body);
        reply
    }

    /// A response of a header alone.
    fn header() -> Self {
        Self::with(&())
    }

    fn seal(mut self, header: &ResponseHeader) -> Self {
        if self.length > 0 {
            self.bytes[..HEADER_BYTES].copy_from_slice(header.as_bytes());
        }
        self
    }
}

/// The state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Done, and the driver sleeps until the response interrupt.
    Answered,
    /// Done, and the driver does not wait.
    Done,
    /// Refused, with this value for the error register.
    Refused(Errno),
    /// A slot is not mapped any more.
    SlotLost,
    /// A long command: call [`go_on`] until it has another outcome.
    UnderWay,
}

/// A command under way.
pub(crate) struct Long {
    head: RequestHeader,
    registration: mr::Registration,
}

/// The result of a command's function.
enum Answer {
    /// The command is done.
    Now(Reply),
    /// The command goes on.
    Later(Box<mr::Registration>),
}

/// Executes the request in the slot.
pub(crate) fn execute(adapter: &mut Adapter, turn: Turn<'_, '_>, slots: &Slots) -> Outcome {
    adapter.publish(turn);
    let mut bytes = [0; REQUEST_BYTES];
    if turn.memory.read(slots.request, &mut bytes).is_err() {
        return Outcome::SlotLost;
    }
    let (head, body) = bytes.split_at(HEADER_BYTES);
    let head = RequestHeader::read_from_bytes(head).expect("split at the header's length");
    let body = Body(body.try_into().expect("split at the header's length"));
    let entry = table::entry(head.command.get()).ok_or(Errno::NotSupported);
    let answer = entry.and_then(|entry| entry.run(adapter, turn, &body));
    adapter.publish(turn);
    let result = match answer {
        Ok(Answer::Now(reply)) => Ok(reply),
        Ok(Answer::Later(registration)) => {
            let registration = *registration;
            adapter.long = Some(Box::new(Long { head, registration }));
            return Outcome::UnderWay;
        }
        Err(errno) => Err(errno),
    };
    let outcome = answer_with(adapter, turn, slots, &head, result);
    outcome.unwrap_or(Outcome::SlotLost)
}

/// Continues a long command by one piece, which takes about ten microseconds.
pub(crate) fn go_on(adapter: &mut Adapter, turn: Turn<'_, '_>, slots: &Slots) -> Outcome {
    let Some(mut long) = adapter.long.take() else {
        return Outcome::Done;
    };
    let result = match long.registration.go_on(turn) {
        Ok(false) => {
            adapter.long = Some(long);
            return Outcome::UnderWay;
        }
        Ok(true) => long.registration.finish(adapter),
        Err(errno) => Err(errno),
    };
    let outcome = answer_with(adapter, turn, slots, &long.head, result);
    outcome.unwrap_or(Outcome::SlotLost)
}

fn answer_with(
    adapter: &mut Adapter,
    turn: Turn<'_, '_>,
    slots: &Slots,
    head: &RequestHeader,
    result: Result<Reply, Errno>,
) -> Result<Outcome, Fault> {
    let code = head.command.get();
    let (reply, error, outcome) = match result {
        Ok(reply) => (
            reply,
            0,
            table::entry(code).map_or(Outcome::Done, table::Entry::outcome),
        ),
        Err(errno) => (Reply::header(), errno as u8, Outcome::Refused(errno)),
    };
    let header = ResponseHeader {
        response: head.response,
        ack: if error == 0 { ACK + code } else { 0 }.into(),
        error,
        reserved: [0; 3],
    };
    let reply = reply.seal(&header);
    turn.memory
        .write(slots.response, &reply.bytes[..reply.length])?;
    if let Outcome::Refused(errno) = outcome {
        adapter.refused(turn, code, errno);
    }
    Ok(outcome)
}

impl Adapter {
    fn refused(&mut self, turn: Turn<'_, '_>, code: u32, errno: Errno) {
        self.violations.commands += 1;
        if self.log_limit.allows(turn.now) {
            let name = table::entry(code).map_or("unknown", |entry| entry.name);
            tracing::debug!(code, name, ?errno, "refused a guest's command");
        }
    }
}

#[cfg(test)]
mod tests;
