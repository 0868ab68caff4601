//! Incoming units of several packets: many packets of one message take one look at the queue pair and one at memory.
//!
//! ```text
//!   n packets in order ─► payload gathered ─► unit of n packets ─► written at once
//! ```
//! On the wire nothing tells such units from single packets.

use alloc::vec::Vec;

use vrdma_wire::{Mtu, Psn, Qpn};

use crate::hca::Hca;
use crate::object::QpType;
use crate::packet::{Arrival, Content};
use crate::unit::{Request, RequestOp, Response, ResponseBody, Route};

/// Most payload of such a unit: that of one message to or from the kernel.
const BYTES_MAX: usize = 64 << 10;

/// Successive packets of one message or of one answer.
#[derive(Debug)]
pub struct Train<R> {
    unit: Option<Content<R>>,
    packets: u32,
    /// Most packets that it may have: for READ data, the number that is missing there.
    most: u32,
    mtu: usize,
    /// Fields of the last packet.
    last: Last,
    payload: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Last {
    credits: Option<vrdma_wire::Credits>,
    ends: bool,
}

impl<R> Default for Train<R> {
    fn default() -> Self {
        Self {
            unit: None,
            packets: 0,
            most: 0,
            mtu: 0,
            last: Last::default(),
            payload: Vec::new(),
        }
    }
}

impl<R: Clone> Train<R> {
    /// Whether the packet is the next one of the unit. It then becomes part of the unit, and [`Train::is_complete`] may
    /// have become true.
    pub fn joins(&mut self, arrival: &Arrival<'_, R>) -> bool {
        let bytes = arrival.payload.len();
        let fills = bytes == self.mtu || arrival.ends && (1..self.mtu).contains(&bytes);
        let follows = fills && !arrival.marked && self.follows(&arrival.content);
        if follows {
            self.packets += 1;
            self.last = Last {
                credits: arrival.credits,
                ends: arrival.ends,
            };
            self.payload.extend_from_slice(arrival.payload);
        }
        follows
    }

    fn follows(&mut self, next: &Content<R>) -> bool {
        let packets = self.packets;
        match (&mut self.unit, next) {
            (Some(Content::Request(unit)), Content::Request(next)) => {
                let follows = unit.precedes(next, packets);
                if follows {
                    unit.packets += 1;
                    unit.last = next.last;
                    unit.tail = next.tail;
                    unit.solicited = next.solicited;
                    unit.ack_request = next.ack_request;
                }
                follows
            }
            (Some(Content::Response(unit)), Content::Response(next)) => {
                let data = matches!(next.body, ResponseBody::Read(_));
                data && are_neighbours(&unit.place(), &next.place(), packets)
            }
            _ => false,
        }
    }

    /// Whether the unit is to be taken in now: its message is over, its sender waits for an answer, or
    /// there is no room.
    pub fn is_complete(&self) -> bool {
        let asks = matches!(&self.unit, Some(Content::Request(unit)) if unit.ack_request);
        let full = self.payload.len() + self.mtu > BYTES_MAX || self.packets == self.most;
        self.unit.is_some() && (self.last.ends || asks || full)
    }

    /// Whether packets have been gathered.
    pub fn is_empty(&self) -> bool {
        self.unit.is_none()
    }

    /// Returns the number of packets.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Takes the packets as one arrival, if there are any.
    pub fn take(&mut self) -> Option<Arrival<'_, R>> {
        self.packets = 0;
        Some(Arrival {
            content: self.unit.take()?,
            payload: &self.payload,
            marked: false,
            credits: self.last.credits,
            ends: self.last.ends,
        })
    }

    fn begin(&mut self, arrival: &Arrival<'_, R>, most: u32, mtu: usize) {
        (self.packets, self.most, self.mtu) = (1, most, mtu);
        self.last = Last {
            credits: arrival.credits,
            ends: arrival.ends,
        };
        self.payload.clear();
        self.payload.extend_from_slice(arrival.payload);
        self.unit = Some(arrival.content.clone());
    }
}

/// Position of a packet: its PSN, its receiver and its route.
type Position<'a> = (Psn, Qpn, &'a Route);

/// Whether a packet is `packets` behind the first one of a unit.
fn are_neighbours(unit: &Position<'_>, next: &Position<'_>, packets: u32) -> bool {
    next.0 == unit.0.plus(packets) && (unit.1, unit.2) == (next.1, next.2)
}

impl<R> Request<R> {
    fn precedes(&self, next: &Self, packets: u32) -> bool {
        let (ours, theirs) = (
            (self.psn, self.destination, &self.route),
            (next.psn, next.destination, &next.route),
        );
        are_neighbours(&ours, &theirs, packets)
            && self.service == next.service
            && continues(&self.op, &next.op)
            && !next.first
    }
}

impl<R> Response<R> {
    fn place(&self) -> Position<'_> {
        (self.psn, self.destination, &self.route)
    }
}

/// Whether a request may continue another one: only SENDs and WRITEs have several packets.
fn continues(op: &RequestOp, next: &RequestOp) -> bool {
    matches!(
        (op, next),
        (RequestOp::Send, RequestOp::Send)
            | (RequestOp::Write { .. }, RequestOp::Write { target: None })
    )
}

impl<R: Clone> Hca<R> {
    /// Whether a packet begins a unit of several packets: it is the one that a reliable connection waits for, and not
    /// the last of its message. All checks of a packet are made for the whole unit when it is taken in.
    pub fn begins_train(&self, arrival: &Arrival<'_, R>, train: &mut Train<R>) -> bool {
        if arrival.ends || arrival.marked {
            return false;
        }
        let room = match &arrival.content {
            Content::Request(request) => self.awaits_request(request),
            Content::Response(response) => self.awaits_data(response),
            Content::Congestion(_) => None,
        };
        let room = room.filter(|(_, mtu)| arrival.payload.len() == mtu.bytes() as usize);
        if let Some((most, mtu)) = room {
            train.begin(arrival, most, mtu.bytes() as usize);
        }
        room.is_some()
    }

    /// Returns how many packets may follow from a request on, if it is the next one of a reliable connection.
    fn awaits_request(&self, request: &Request<R>) -> Option<(u32, Mtu)> {
        let plain = matches!(request.op, RequestOp::Send | RequestOp::Write { .. });
        let qp = self.qps.named(request.destination)?;
        let next = qp.spec.qp_type == QpType::Rc && qp.responder.expected == request.psn;
        (plain && next && !request.ack_request).then_some((u32::MAX, qp.attr.path_mtu))
    }

    /// Returns how many packets are missing from a response on, if it is the first missing one of READ data.
    fn awaits_data(&self, response: &Response<R>) -> Option<(u32, Mtu)> {
        if !matches!(response.body, ResponseBody::Read(_)) {
            return None;
        }
        let qp = self.qps.named(response.destination)?;
        let hole = qp.requester.awaiting.first_hole()?;
        let missing = hole.1.since(hole.0);
        // If only one packet is missing there, nothing can follow it.
        (hole.0 == response.psn && missing > 1).then_some((missing, qp.attr.path_mtu))
    }
}
