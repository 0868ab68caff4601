//! RoCEv2 packets: from units to frames, and from frames to units.
//!
//! ```text
//!   out   poll_transmit ─► Request ─┐
//!         poll_reply    ─► Reply   ─┴─► Frames ─► Ethernet frames, ICRC included
//!
//!   in    frame ─► wire::Packet::parse ─► Hca::decode ─► Arrival ─► (stage a receive if
//!                                                     wants_receive) ─► Hca::receive
//! ```
//!
//! * [`Hca::poll_transmit`] is told by its `paths` which peers are behind a wire: a request to one of
//!   those is exactly one packet ([`Pace::Wire`](crate::Pace)). Datagrams are always one packet.
//! * A caller that asks for it ([`Paths::train_bytes`](crate::Paths)) gets several packets of a message as one unit. A
//!   caller that gathers arriving packets in a [`Train`] hands in several packets as one unit.
//! * [`Frames`] gather the payload from memory straight into the packets of a unit. When that memory is gone,
//!   [`Request::payload_lost`] makes the answer that tells the requester.
//! * [`Hca::receive`] returns no answer: it queues answers in the queue pair, and [`Hca::poll_reply`] hands them out
//!   packet by packet, the queue pairs in turn. READ data is fetched when its packet is made, so an answer of 1 GiB
//!   takes no memory and holds up nobody. Poll after every batch of packets received and after [`Hca::handle_timeout`];
//!   stop whenever the wire is full.
//! * A [`Link`] holds what the caller knows and the engine does not: Ethernet addresses and the tag.
//!
//! The effect of a packet on this adapter is decided here and in the responder. The owner of the wire has decided
//! before whether the packet's addresses belong together (spoofing, tenants).

mod congestion;
mod decode;
mod encode;
mod frames;
mod train;

use vrdma_wire::{BuildError, Credits, Mac, Psn, Qpn, Vlan};

pub use frames::Frames;
pub use train::Train;

use crate::hca::Hca;
use crate::memory::{Fault, Memory, Source};
use crate::path::Paths;
use crate::time::Time;
use crate::unit::{Nak, Request, Response, ResponseBody, Route};

/// Ethernet addresses and tag of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Our adapter.
    pub source: Mac,
    /// Next hop.
    pub destination: Mac,
    /// 802.1Q tag, if the frame has one.
    pub vlan: Option<Vlan>,
}

/// Reason why a unit cannot be made a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The payload cannot be read.
    #[error("the payload is not in memory: {0}")]
    Payload(Fault),
    /// One address is IPv4 and the other is not.
    #[error("the two GIDs are of different IP versions")]
    Addresses,
    /// More than one packet, or an operation that no packet of its service carries.
    #[error("the unit is not one packet")]
    NotAPacket,
    /// The buffer is too small.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// A packet's content for one adapter.
#[derive(Clone, Debug)]
pub enum Content<R> {
    /// For the responder.
    Request(Request<R>),
    /// For the requester.
    Response(Response<R>),
    /// The packets of this local queue pair meet congestion (annex A17.9).
    Congestion(Qpn),
}

/// A packet that has arrived.
#[derive(Clone, Debug)]
pub struct Arrival<'p, R> {
    /// Content.
    pub content: Content<R>,
    /// The payload of `content`, which itself has no reference to it.
    pub payload: &'p [u8],
    /// Whether it met congestion on its way.
    pub marked: bool,
    /// Number of messages that the peer has room for, if an answer reports it.
    pub credits: Option<Credits>,
    /// Whether it is the last packet of its message or answer.
    pub ends: bool,
}

/// One packet of an answer, or several of READ data.
#[derive(Clone, Debug)]
pub enum Reply<R> {
    /// An acknowledgement, a refusal, or READ data that fits one packet.
    Response {
        /// The answer; its READ data is only that of these packets.
        response: Response<R>,
        /// Number of packets; more than one only for READ data.
        packets: u32,
        /// Whether the first packet of READ data is among them.
        first: bool,
        /// Whether the last packet of READ data is among them.
        last: bool,
    },
    /// A congestion notification.
    Congestion {
        /// Addresses.
        route: Route,
        /// Our queue pair, by which the UDP port is chosen.
        source: Qpn,
        /// The peer's queue pair that is to slow down.
        destination: Qpn,
    },
}

impl<R> Reply<R> {
    /// Returns its addresses.
    pub fn route(&self) -> &Route {
        match self {
            Self::Response { response, .. } => &response.route,
            Self::Congestion { route, .. } => route,
        }
    }
}

impl<R> Request<R> {
    /// Makes the response for [`Hca::respond`] when the payload could not be fetched: the requester completes the work
    /// request as if its own adapter had noticed, or sends it later.
    pub fn payload_lost(&self, fault: Fault) -> Response<R> {
        let body = match fault {
            Fault::Gone => ResponseBody::SourceFault,
            Fault::Late => ResponseBody::Nak(Nak::LATE),
        };
        self.answered(self.psn, 0, body)
    }

    /// Makes an answer on the reversed route of the request.
    pub fn answered(&self, psn: Psn, msn: u32, body: ResponseBody<R>) -> Response<R> {
        Response {
            route: Route {
                sgid: self.route.dgid,
                dgid: self.route.sgid,
                ..self.route
            },
            source: self.destination,
            destination: self.source,
            psn,
            msn,
            body,
        }
    }
}

impl<R: Clone> Hca<R> {
    /// Takes in a packet. Answers are queued for [`Hca::poll_reply`].
    pub fn receive<M: Memory<Region = R>>(
        &mut self,
        arrival: &Arrival<'_, R>,
        memory: &M,
        now: Time,
    ) {
        let source = Source::Bytes(arrival.payload);
        match &arrival.content {
            Content::Request(request) => {
                let response = self.deliver(request, source, memory);
                if let Some(response) = response {
                    self.owe(request, &response, now);
                }
                if arrival.marked {
                    self.owe_mark(request.destination, now);
                }
            }
            Content::Response(response) => {
                self.respond(response, source, memory, now);
                if let Some(credits) = arrival.credits {
                    self.take_credits(response, credits);
                }
                if arrival.marked {
                    self.owe_mark(response.destination, now);
                }
            }
            Content::Congestion(qpn) => self.take_notification(*qpn, now),
        }
    }

    fn owe(&mut self, request: &Request<R>, response: &Response<R>, now: Time) {
        if let Some(qp) = self.qps.named_mut(request.destination) {
            qp.owe(request, response, now);
            self.schedule.make_answering(qp.id, &mut qp.scheduled);
        }
    }

    /// Returns the next answer owed to peers behind wires: one packet, or READ data of which the caller makes
    /// [`Frames`], as long as [`Paths::train_bytes`] allows. Answers for a full wire wait, as requests do.
    pub fn poll_reply(&mut self, now: Time, paths: &mut impl Paths) -> Option<Reply<R>> {
        while let Some(id) = self.schedule.pop_answering() {
            let Some(qp) = self.qps.table.get_mut(id.0) else {
                continue;
            };
            qp.scheduled.answering = false;
            if self.qps.leaving.has(qp.owner) {
                continue;
            }
            if paths.is_any_full() && qp.answers_wait(&self.shared, paths) {
                self.schedule.hold_up(id, &mut qp.scheduled);
                continue;
            }
            if qp.answer_waits(now) {
                qp.reschedule_timer(&mut self.schedule);
                continue;
            }
            let reply = qp.next_reply(&mut self.shared, paths.train_bytes(), now);
            if reply.is_none() {
                qp.reschedule_timer(&mut self.schedule);
                continue;
            }
            if !qp.responder.replies.is_empty() {
                self.schedule.make_answering(id, &mut qp.scheduled);
            }
            return reply;
        }
        None
    }
}
