//! Packets that leave.

use smallvec::SmallVec;
use vrdma_memory::{Region, View};
use vrdma_switch::{GroupId, PortId, UplinkId};
use vrdma_uplink::Hop;
use vrdma_verbs::packet::{FrameError, Frames, Link, Reply, reply_frame, request_frame};
use vrdma_verbs::unit::{Request, RequestOp, Route};
use vrdma_verbs::{Source, Time};

use vrdma_wire::Mac;

use super::misfit::Misfit;
use super::{Shard, TRAIN_BYTES, Wires};
use crate::shard::WIRE_BYTES_A_TURN;

/// Answers that one adapter may send in a turn before the next one has its turn.
const REPLIES_A_TURN: u32 = 64;

/// Packets of [`TRAIN_BYTES`] at the largest path MTU.
const TRAIN: usize = 16;

/// Bytes of the Ethernet header, which no MTU counts.
const ETHERNET_BYTES: usize = 14;

/// Which way a frame goes.
struct Way {
    /// The station that the frame is for is known.
    resolved: bool,
    group: GroupId,
    /// Where the destination was heard; all that the group has otherwise.
    uplink: Option<UplinkId>,
}

impl Shard {
    /// Sends a request to an adapter of another host.
    pub(in crate::shard) fn transmit(
        &mut self,
        from: PortId,
        memory: &View<'_>,
        request: &Request<Region>,
        now: Time,
    ) {
        let Some((link, way)) = self.way(from, &request.route, now) else {
            return;
        };
        if request.packets > 1 && matches!(request.op, RequestOp::Send | RequestOp::Write { .. }) {
            return self.transmit_train((from, way), memory, (request, link), now);
        }
        match request_frame(request, memory, &link, &mut self.wires.buffer[..]) {
            Ok(frame) => {
                let length = frame.len();
                self.send(from, &request.route, &way, length, now);
            }
            Err(error) => self.fail_request(from, memory, request, (error, now)),
        }
    }

    /// Sends the packets of a request that is several.
    fn transmit_train(
        &mut self,
        (from, way): (PortId, Way),
        memory: &View<'_>,
        (request, link): (&Request<Region>, Link),
        now: Time,
    ) {
        let sent = Frames::of_request(request, &link).and_then(|frames| {
            let to = (from, &request.route, way, link.destination);
            self.send_train(to, &frames, memory, now)
        });
        if let Err(error) = sent {
            self.fail_request(from, memory, request, (error, now));
        }
    }

    /// Sends frames of one message: written where the uplink sends them from, or one by one.
    fn send_train(
        &mut self,
        (from, route, way, to): (PortId, &Route, Way, Mac),
        frames: &Frames<'_, Region>,
        memory: &View<'_>,
        now: Time,
    ) -> Result<(), FrameError> {
        if way.resolved && !self.wires.traces.has(from) {
            let lengths: SmallVec<[usize; TRAIN]> = frames.lengths().collect();
            let mut written = Ok(());
            let sent = self
                .wires
                .send_in_place((&way, to), &lengths, &mut |rooms| {
                    written = frames.write(memory, rooms);
                    written.is_ok()
                });
            written?;
            if sent {
                return Ok(());
            }
        }
        for frame in frames.to_vecs(memory)? {
            self.wires.buffer[..frame.len()].copy_from_slice(&frame);
            self.send(from, route, &way, frame.len(), now);
        }
        Ok(())
    }

    /// The requester's memory is gone, which it hears as if its own adapter had noticed.
    fn fail_request(
        &mut self,
        from: PortId,
        memory: &View<'_>,
        request: &Request<Region>,
        (error, now): (FrameError, Time),
    ) {
        if error != FrameError::Payload {
            return tracing::debug!("a request is no packet: {error}");
        }
        if let Some(Some(adapter)) = self.adapters.get_mut(from.0 as usize) {
            let lost = request.payload_lost();
            adapter.respond(memory, &lost, Source::Memory(memory), now);
        }
    }

    /// Sends what an adapter owes peers behind wires; `true` if there was any.
    pub(in crate::shard) fn reply(&mut self, from: PortId, memory: &View<'_>, now: Time) -> bool {
        let most = self.wires.queued_bytes + WIRE_BYTES_A_TURN;
        for sent in 0..REPLIES_A_TURN {
            if self.wires.queued_bytes >= most || self.wires.holds_up(now) {
                return sent > 0;
            }
            let adapter = self.adapters.get_mut(from.0 as usize);
            let reply = adapter
                .and_then(Option::as_mut)
                .and_then(|adapter| adapter.next_reply(TRAIN_BYTES, now));
            let Some(reply) = reply else {
                return sent > 0;
            };
            self.send_reply(from, memory, &reply, now);
        }
        true
    }

    fn send_reply(&mut self, from: PortId, memory: &View<'_>, reply: &Reply<Region>, now: Time) {
        let Some((link, way)) = self.way(from, reply.route(), now) else {
            return;
        };
        let sent = match Frames::of_reply(reply, &link) {
            Ok(Some(frames)) => {
                let to = (from, reply.route(), way, link.destination);
                self.send_train(to, &frames, memory, now)
            }
            Ok(None) => match reply_frame(reply, memory, &link, &mut self.wires.buffer[..]) {
                Ok(frame) => {
                    let length = frame.len();
                    self.send(from, reply.route(), &way, length, now);
                    Ok(())
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        // The peer asks again and is told then that the memory is gone.
        if let Err(error) = sent {
            tracing::debug!("an answer is no packet: {error}");
        }
    }

    /// Addresses and uplink for a destination.
    fn way(&self, from: PortId, route: &Route, now: Time) -> Option<(Link, Way)> {
        let (group, source) = (self.fabric.group(from)?, self.fabric.mac(from)?);
        let known = self.wires.neighbours.find(group, route.dgid, now.0);
        let known = known.filter(|_| !route.dgid.is_multicast());
        let stated = route.dgid.group_mac().or(route.dmac);
        let destination = stated.or(known.map(|neighbour| neighbour.mac));
        let link = Link {
            source,
            destination: destination.unwrap_or_default(),
            vlan: None,
        };
        let way = Way {
            resolved: destination.is_some(),
            group,
            uplink: known.map(|neighbour| neighbour.uplink),
        };
        Some((link, way))
    }

    /// Sends the front of the buffer.
    fn send(&mut self, from: PortId, route: &Route, way: &Way, length: usize, now: Time) {
        if !way.resolved {
            return self.wait(from, route, length, now);
        }
        let wires = &mut self.wires;
        wires.traces.add(from, &wires.buffer[..length], now);
        let misfit = wires.send(way, length, now);
        self.note(from, misfit);
    }
}

impl Wires {
    /// Sends frames that `fill` writes; `false` if they have to go one by one, or it said so.
    fn send_in_place(
        &mut self,
        (way, to): (&Way, Mac),
        lengths: &[usize],
        fill: &mut dyn FnMut(&mut [&mut [u8]]) -> bool,
    ) -> bool {
        let segments = &self.segments;
        let mut wires = self.wires.iter_mut().flatten().filter_map(|wire| {
            let right = way.uplink.is_none_or(|uplink| uplink == wire.end.id);
            let segment = segments.of(way.group, wire.end.is_tunnel)?;
            right.then_some((wire, segment))
        });
        let (Some((wire, segment)), None) = (wires.next(), wires.next()) else {
            return false;
        };
        let mtu = wire.end.port.mtu() as usize;
        if lengths.iter().any(|length| length - ETHERNET_BYTES > mtu) {
            return false;
        }
        let hop = (Hop::to(segment), to);
        let sent = wire.end.port.send_in_place(hop, lengths, fill);
        if sent {
            self.queued_bytes += lengths.iter().sum::<usize>() as u64;
            wire.touched = true;
        }
        sent
    }

    /// Sends the front of the buffer.
    fn send(&mut self, way: &Way, length: usize, now: Time) -> Option<Misfit> {
        let mut misfit = None;
        let frame = &self.buffer[..length];
        self.queued_bytes += length as u64;
        for wire in self.wires.iter_mut().flatten() {
            if way.uplink.is_some_and(|uplink| uplink != wire.end.id) {
                continue;
            }
            let Some(segment) = self.segments.of(way.group, wire.end.is_tunnel) else {
                continue;
            };
            wire.end.port.send(Hop::to(segment), frame);
            wire.touched = true;
            let (bytes, mtu) = (length - ETHERNET_BYTES, wire.end.port.mtu());
            if bytes > mtu as usize {
                misfit = Some(Misfit {
                    bytes,
                    mtu,
                    at: now,
                });
            }
        }
        misfit
    }
}
