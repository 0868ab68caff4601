//! The responder: request units become memory accesses, completions and responses.
//!
//! ```text
//!   admit ── place by PSN ─┬─ expected ── shape ── execute ─┬─ advance, answer
//!     │                    ├─ duplicate ── answer again     └─ refuse, mostly the end
//!    drop                  └─ gap ── say so once
//! ```
//!
//! Units of unreliable connections and datagrams have no answer: see `unreliable` and `datagram`.
//! A unit is executed whole or refused; what a message needs across its units is in [`Message`].

mod admit;
mod atomic;
mod datagram;
mod execute;
mod read;
mod receive;
mod refuse;
mod replies;
mod rhythm;
mod send;
mod unreliable;
mod write;

use alloc::collections::VecDeque;

use vrdma_wire::{Psn, Service};

pub use receive::ReceiveQueue;
pub(crate) use replies::Replies;

use crate::buffers::Carried;
use crate::hca::Hca;
use crate::memory::{Memory, Source};
use crate::qp::Qp;
use crate::shared::Shared;
use crate::unit::{Request, Response};
use crate::work::{RecvWr, Remote};

/// State of the message under way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Message {
    /// Between messages.
    #[default]
    None,
    /// A SEND into the receive that it took.
    Send {
        receive: RecvWr,
        /// Bytes stored.
        stored: u32,
    },
    /// A WRITE into the memory that its first unit named.
    Write {
        /// Place of the next byte.
        remote: Remote,
        /// Bytes to come.
        left: u32,
        /// Bytes of the whole message.
        length: u32,
    },
}

/// Fewest atomics whose answers are kept, however few were agreed: a peer that goes on after a crash may ask again for
/// those of its last turn.
pub const REPLAYS_MIN: usize = 16;

/// An atomic that was done, kept in case its response is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Replay {
    pub(crate) psn: Psn,
    /// The word before the atomic.
    pub(crate) old: u64,
}

#[derive(Default)]
pub(crate) struct Responder {
    /// Receives that the front end staged.
    pub(crate) queue: VecDeque<RecvWr>,
    pub(crate) expected: Psn,
    /// Messages completed.
    pub(crate) msn: u32,
    /// Whether the peer was told to go back: nothing more is reported until it does.
    pub(crate) told: bool,
    /// Whether anything has arrived since RTR.
    pub(crate) established: bool,
    /// On unreliable connections, the number of messages without a right to the memory that they named.
    pub(crate) rights_faults: u32,
    pub(crate) message: Message,
    /// PSN at which the newest READ or atomic began.
    pub(crate) newest_data: Option<Psn>,
    /// Newest last; bounded by `max_dest_rd_atomic`, or by `REPLAYS_MIN` if that is more.
    pub(crate) replays: VecDeque<Replay>,
    /// Answers that a peer behind a wire has not been sent yet.
    pub(crate) replies: Replies,
}

impl Responder {
    /// Starts in RTR: the peer's first PSN is known.
    pub(crate) fn start(&mut self, psn: Psn) {
        self.expected = psn;
    }

    pub(crate) fn expected(&self) -> Psn {
        self.expected
    }

    /// Takes the next receive to give back in ERR: the one in use comes first.
    pub(crate) fn take_oldest(&mut self) -> Option<RecvWr> {
        match core::mem::take(&mut self.message) {
            Message::Send { receive, .. } => Some(receive),
            Message::None | Message::Write { .. } => self.queue.pop_front(),
        }
    }

    /// Gives back memory that a burst left behind.
    pub(crate) fn trim(&mut self) {
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        self.replies.trim();
    }
}

/// One incoming unit; `memory` is this adapter's.
pub(crate) struct Delivery<'a, R, M> {
    qp: &'a mut Qp<R>,
    shared: &'a mut Shared<R>,
    request: &'a Request<R>,
    payload: Carried<'a, R, M>,
    /// Number of bytes of the payload.
    bytes: u64,
    memory: &'a M,
    unheard: &'a mut Option<Response<R>>,
}

impl<R: Clone> Hca<R> {
    /// Takes in a request unit. Its payload is in `source`: in the memory of the requester's side, or in the packet
    /// that brought it. `memory` is this adapter's. The response carries its own route back. There is no response to
    /// units that are dropped, to datagrams, and to gaps that were reported already.
    pub fn deliver<M: Memory<Region = R>>(
        &mut self,
        request: &Request<R>,
        source: Source<'_, M>,
        memory: &M,
    ) -> Option<Response<R>> {
        self.deliver_in_row(request, source, memory, &mut None)
    }

    /// Does the same for one request of several in a row. If `unheard` is an acknowledgement of the same connection
    /// that the peer has not heard of yet, it is extended to this request, and nothing is returned (IBTA 9.7.5).
    pub fn deliver_in_row<M: Memory<Region = R>>(
        &mut self,
        request: &Request<R>,
        source: Source<'_, M>,
        memory: &M,
        unheard: &mut Option<Response<R>>,
    ) -> Option<Response<R>> {
        let shared = &mut self.shared;
        let Some(qp) = self.qps.named_mut(request.destination) else {
            shared.counters.drops.unknown_qp += 1;
            return None;
        };
        if let Err(reason) = admit::admit(qp, shared, request) {
            *reason.counter(&mut shared.counters.drops) += 1;
            return None;
        }
        let payload = Carried::request(&request.payload, source);
        let mut delivery = Delivery {
            qp,
            shared,
            request,
            payload,
            bytes: payload.length(),
            memory,
            unheard,
        };
        match request.service {
            Service::Rc => return delivery.take_in(),
            Service::Uc => delivery.take_unanswered(),
            Service::Ud => delivery.take_datagram(),
            Service::Cnp => {}
        }
        None
    }
}
