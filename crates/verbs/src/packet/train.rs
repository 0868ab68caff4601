//! Units of several packets, at both ends of a wire: one look at memory and one at the queue pair for
//! many packets of one message.
//!
//! ```text
//!   out   unit of n packets ─► payload fetched at once ─► n frames
//!   in    n packets in order ─► payload gathered ─► unit of n packets ─► written at once
//! ```
//! On the wire nothing tells such units from single packets.

use alloc::vec::Vec;

use vrdma_wire::{Mtu, Psn};

use crate::hca::Hca;
use crate::memory::Memory;
use crate::object::QpType;
use crate::packet::encode::packet_frame;
use crate::packet::{Arrival, Content, FrameError, Link};
use crate::unit::{Payload, Request, RequestOp};

/// Payload that a unit takes in. What one message to or from the kernel carries.
const BYTES_MAX: usize = 64 << 10;

/// The frames of a request.
#[derive(Debug)]
pub struct Frames<'a, R> {
    request: &'a Request<R>,
    link: Link,
    payload: &'a [u8],
    mtu: usize,
    made: u32,
}

impl<'a, R> Frames<'a, R> {
    /// Fetches the payload of a SEND or WRITE into `room`, whose contents are lost.
    ///
    /// # Errors
    /// See [`FrameError`]; with `Payload` tell the requester by [`Request::payload_lost`].
    pub fn new<M: Memory<Region = R>>(
        request: &'a Request<R>,
        memory: &M,
        link: &Link,
        room: &'a mut Vec<u8>,
    ) -> Result<Self, FrameError> {
        let payload = match &request.payload {
            Payload::Inline(inline) => inline.bytes(),
            Payload::Memory(stretches) => {
                let length = request.payload.length() as usize;
                room.resize(length.max(room.len()), 0);
                let mut at = 0;
                for part in stretches {
                    let to = &mut room[at..at + part.length as usize];
                    let read = memory.read(&part.region, part.offset, to);
                    read.map_err(|_| FrameError::Payload)?;
                    at += to.len();
                }
                &room[..length]
            }
        };
        Ok(Self {
            request,
            link: *link,
            payload,
            mtu: packet_bytes(payload.len() as u32, request.packets)?,
            made: 0,
        })
    }

    /// Writes the next frame to the front of `buffer`; its length, or `None` after the last.
    ///
    /// # Errors
    /// See [`FrameError`]; there is no sense in going on.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, FrameError> {
        let Request {
            packets,
            first,
            last,
            psn,
            ..
        } = *self.request;
        if self.made == packets {
            return Ok(None);
        }
        let (begins, ends) = (self.made == 0, self.made + 1 == packets);
        let start = self.made as usize * self.mtu;
        let end = self.payload.len().min(start + self.mtu);
        let payload = &self.payload[start..end];
        let place = (psn.plus(self.made), first && begins, last && ends, ends);
        self.made += 1;
        packet_frame(self.request, place, payload, &self.link, buffer).map(Some)
    }
}

/// The path MTU of a unit: the only one by which so many bytes are so many packets, for each is half
/// of the next.
fn packet_bytes(length: u32, packets: u32) -> Result<usize, FrameError> {
    let mut sizes = (1..=5).rev().filter_map(Mtu::from_code);
    let found = sizes.find(|mtu| mtu.packets(length) == packets);
    found
        .map(|mtu| mtu.bytes() as usize)
        .ok_or(FrameError::NotAPacket)
}

/// Packets of one message that have come one behind the other.
#[derive(Debug)]
pub struct Train<R> {
    unit: Option<Request<R>>,
    mtu: usize,
    payload: Vec<u8>,
}

impl<R> Default for Train<R> {
    fn default() -> Self {
        Self {
            unit: None,
            mtu: 0,
            payload: Vec::new(),
        }
    }
}

impl<R: Clone> Train<R> {
    /// Whether the packet is the next one of the unit. It is part of it then, and
    /// [`Train::is_complete`] may have become true.
    pub fn joins(&mut self, arrival: &Arrival<'_, R>) -> bool {
        let Some(unit) = &mut self.unit else {
            return false;
        };
        let Content::Request(next) = &arrival.content else {
            return false;
        };
        let whole = arrival.payload.len() == self.mtu;
        let follows = next.psn == unit.psn.plus(unit.packets)
            && (unit.destination, unit.route) == (next.destination, next.route)
            && unit.service == next.service
            && continues(&unit.op, &next.op)
            && !next.first
            && !arrival.marked
            && (whole
                || next.last && !arrival.payload.is_empty() && arrival.payload.len() < self.mtu);
        if follows {
            unit.packets += 1;
            unit.last = next.last;
            unit.tail = next.tail;
            unit.solicited = next.solicited;
            unit.ack_request = next.ack_request;
            self.payload.extend_from_slice(arrival.payload);
        }
        follows
    }

    /// Whether the unit is to be taken in now: its message is over, its sender waits for an answer, or
    /// there is no room.
    pub fn is_complete(&self) -> bool {
        let full = self.payload.len() + self.mtu > BYTES_MAX;
        let unit = self.unit.as_ref();
        unit.is_some_and(|unit| unit.last || unit.ack_request || full)
    }

    /// The unit, if there is one; its payload is [`Train::payload`] until the next one begins.
    pub fn take(&mut self) -> Option<Request<R>> {
        self.unit.take()
    }

    /// Bytes of the unit that was taken.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// The only requests that go on.
fn continues(op: &RequestOp, next: &RequestOp) -> bool {
    matches!(
        (op, next),
        (RequestOp::Send, RequestOp::Send)
            | (RequestOp::Write { .. }, RequestOp::Write { target: None })
    )
}

impl<R: Clone> Hca<R> {
    /// Whether a packet begins a unit of several, being the one that a reliable connection waits for,
    /// and not the last of its message. Everything that decides about a packet decides about the unit
    /// when it is taken in.
    pub fn begins_train(&self, arrival: &Arrival<'_, R>, train: &mut Train<R>) -> bool {
        let Content::Request(request) = &arrival.content else {
            return false;
        };
        let plain = matches!(request.op, RequestOp::Send | RequestOp::Write { .. })
            && !(request.last || request.ack_request || arrival.marked);
        let Some((expected, mtu)) = self.awaits(request).filter(|_| plain) else {
            return false;
        };
        if request.psn != expected || arrival.payload.len() != mtu.bytes() as usize {
            return false;
        }
        train.mtu = mtu.bytes() as usize;
        train.payload.clear();
        train.payload.extend_from_slice(arrival.payload);
        train.unit = Some(request.clone());
        true
    }

    /// The next packet of a reliable connection.
    fn awaits(&self, request: &Request<R>) -> Option<(Psn, Mtu)> {
        let qp = self.qps.get(self.slot_of(request.destination)?.0)?;
        let connected = qp.qpn == request.destination && qp.spec.qp_type == QpType::Rc;
        connected.then_some((qp.responder.expected, qp.attr.path_mtu))
    }
}
