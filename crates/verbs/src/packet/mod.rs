//! RoCEv2 packets: how units become frames, and frames units.
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
//! * A caller that says so ([`Paths::train_bytes`](crate::Paths)) gets several packets of a message as
//!   one unit; one that gathers what arrives in a [`Train`] hands in several packets as one unit.
//! * [`Frames`] gather the payload from memory straight into the packets, be it one or several. When
//!   that memory is gone, [`Request::payload_lost`] makes the answer that tells the requester.
//! * [`Hca::receive`] answers nothing itself: it queues what is owed inside the queue pair, and
//!   [`Hca::poll_reply`] hands it out packet by packet, the queue pairs in turn. READ data is fetched
//!   when its packet is made, so an answer of 1 GiB takes no memory and holds up nobody. Poll after
//!   every batch of packets received and after [`Hca::handle_timeout`]; stop whenever the wire is
//!   full.
//! * A [`Link`] is what the caller knows and the engine does not: Ethernet addresses and the tag.
//!
//! What a packet is to this adapter is decided here and in the responder; whether its addresses
//! belong together (spoofing, tenants) was decided before, by whoever owns the wire.

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

/// Why a unit is not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The payload could not be read.
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
    /// The packets of this queue pair of ours meet congestion (annex A17.9).
    Congestion(Qpn),
}

/// A packet that has arrived.
#[derive(Clone, Debug)]
pub struct Arrival<'p, R> {
    /// What it says.
    pub content: Content<R>,
    /// The payload of `content`, which itself names none.
    pub payload: &'p [u8],
    /// It met congestion on its way.
    pub marked: bool,
    /// How many messages the peer has room for, from an answer that says so.
    pub credits: Option<Credits>,
    /// It is the last packet of its message or answer.
    pub ends: bool,
}

/// One packet of an answer, or several of READ data.
#[derive(Clone, Debug)]
pub enum Reply<R> {
    /// An acknowledgement, a refusal, or READ data that fits one packet.
    Response {
        /// The answer; READ data is that of these packets alone.
        response: Response<R>,
        /// Packets: several of READ data alone.
        packets: u32,
        /// First packet of READ data.
        first: bool,
        /// Last packet of READ data.
        last: bool,
    },
    /// A congestion notification.
    Congestion {
        /// The way.
        route: Route,
        /// Our queue pair, by which the UDP port is chosen.
        source: Qpn,
        /// The peer's queue pair that is to slow down.
        destination: Qpn,
    },
}

impl<R> Reply<R> {
    /// The way.
    pub fn route(&self) -> &Route {
        match self {
            Self::Response { response, .. } => &response.route,
            Self::Congestion { route, .. } => route,
        }
    }
}

impl<R> Request<R> {
    /// For [`Hca::respond`], when the payload could not be fetched: the requester completes the work
    /// request as if its own adapter had noticed, or sends it later.
    pub fn payload_lost(&self, fault: Fault) -> Response<R> {
        let body = match fault {
            Fault::Gone => ResponseBody::SourceFault,
            Fault::Late => ResponseBody::Nak(Nak::LATE),
        };
        self.answered(self.psn, 0, body)
    }

    /// An answer whose way is that of the request, turned round.
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

    /// What comes next of the answers owed to peers behind wires: one packet, or READ data of which the
    /// caller makes [`Frames`], as long as [`Paths::train_bytes`] says. What is for a wire that is full
    /// waits as requests do.
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
