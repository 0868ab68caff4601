//! Packets that leave.

use vrdma_memory::{Region, View};
use vrdma_switch::{GroupId, PortId, UplinkId};
use vrdma_uplink::Hop;
use vrdma_verbs::packet::{FrameError, Frames, Link, Reply, reply_frame, request_frame};
use vrdma_verbs::unit::{Request, RequestOp, Route};
use vrdma_verbs::{Source, Time};

use super::misfit::Misfit;
use super::{Shard, Wires};

/// Packets of answers that one adapter may send in a turn before the next one has its turn.
const REPLIES_A_TURN: u32 = 64;

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
    /// Whether an adapter's next request may have to wait for a wire. Its messages inside the host
    /// wait with it: the kernel has room again in no time, or they do not wait for it any longer.
    pub(in crate::shard) fn must_wait(&self, port: PortId, now: Time) -> bool {
        self.wires.is_full(now)
            && self
                .fabric
                .group(port)
                .is_some_and(|group| self.wires.carries(group))
    }

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
        let mut payload = std::mem::take(&mut self.wires.payload);
        let frames = Frames::new(request, memory, &link, &mut payload);
        let sent = frames.and_then(|mut frames| {
            while let Some(length) = frames.next(&mut self.wires.buffer[..])? {
                self.send(from, &request.route, &way, length, now);
            }
            Ok(())
        });
        self.wires.payload = payload;
        if let Err(error) = sent {
            self.fail_request(from, memory, request, (error, now));
        }
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
        for sent in 0..REPLIES_A_TURN {
            if self.wires.is_full(now) {
                return sent > 0;
            }
            let adapter = self.adapters.get_mut(from.0 as usize);
            let reply = adapter
                .and_then(Option::as_mut)
                .and_then(|adapter| adapter.next_reply(now));
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
        match reply_frame(reply, memory, &link, &mut self.wires.buffer[..]) {
            Ok(frame) => {
                let length = frame.len();
                self.send(from, reply.route(), &way, length, now);
            }
            // The peer asks again and is told then that the memory is gone.
            Err(error) => tracing::debug!("an answer is no packet: {error}"),
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
