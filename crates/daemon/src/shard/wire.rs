//! The shard's ends of uplinks: RoCEv2 packets that leave the host and packets that come.
//!
//! ```text
//!   Request, Reply ──► frame in `buffer` ──► the uplink's batch ──► kernel, once a turn
//!                                                 └ full: adapters that reach wires rest meanwhile
//!
//!   frame ─► segment: whose group? ─► Packet::parse ─► Fabric::arrive: whose GID? ─► his MAC? ─► adapter
//!               └──────────────────────────┴─ dropped, counted by reason ──────────────┘
//! ```
//! Nothing is answered before the last check, and what is answered then is bounded by the adapter.

use std::time::Duration;

use vrdma_memory::{Region, View};
use vrdma_switch::{GroupId, Neighbour, Neighbours, NoRoute, PortId, UplinkId};
use vrdma_uplink::{Hop, Received};
use vrdma_verbs::packet::{FrameError, Link, Reply, reply_frame, request_frame};
use vrdma_verbs::unit::{Request, Route};
use vrdma_verbs::{Source, Time};
use vrdma_wire::{Gid, MAX_FRAME, Packet};

use super::Shard;
use super::poller::Key;
use super::wire_counts::Counts;
use crate::plane::UplinkChange;
use crate::uplink::{Segments, UplinkEnd};

/// How often interfaces are looked at: MTU, up or down.
const REFRESH: Duration = Duration::from_secs(1);

/// Batches taken from one uplink before the adapters have their turn.
const BATCHES: usize = 4;

/// Packets of answers that one adapter may send in a turn before the next one has its turn.
const REPLIES_A_TURN: u32 = 64;

/// How often one uplink's log says that packets do not fit.
const COMPLAINTS_APART: Duration = Duration::from_secs(60);

/// Bytes of the Ethernet header, which no MTU counts.
const ETHERNET_BYTES: usize = 14;

/// One uplink.
pub(super) struct Wire {
    pub(super) end: UplinkEnd,
    pub(super) counts: Counts,
    /// Frames were queued since the last flush.
    touched: bool,
    /// The kernel takes no more; the poller reports room.
    full: bool,
    refresh_at: Time,
    complain_at: Time,
    /// The sender of the last packet, which need not be noted again.
    last: Option<(GroupId, Gid, Neighbour)>,
}

/// All of them.
pub(super) struct Wires {
    /// By number; a removed uplink leaves a gap.
    pub(super) wires: Vec<Option<Box<Wire>>>,
    pub(super) segments: Segments,
    neighbours: Neighbours,
    buffer: Box<[u8; MAX_FRAME]>,
}

impl Wires {
    pub(super) fn new() -> Self {
        Self {
            wires: Vec::new(),
            segments: Segments::default(),
            neighbours: Neighbours::new(),
            buffer: Box::new([0; MAX_FRAME]),
        }
    }

    fn get(&mut self, id: UplinkId) -> Option<&mut Wire> {
        self.wires.get_mut(id.0 as usize)?.as_deref_mut()
    }

    /// Whether an uplink takes no more for now.
    fn is_full(&self) -> bool {
        self.wires.iter().flatten().any(|wire| wire.full)
    }

    /// Whether frames of a group can leave.
    fn carries(&self, group: GroupId) -> bool {
        let mut wires = self.wires.iter().flatten();
        wires.any(|wire| self.segments.of(group, wire.end.is_tunnel).is_some())
    }

    /// When an uplink wants a turn.
    pub(super) fn next_deadline(&self, clock: &super::Clock) -> Option<Time> {
        let wires = self.wires.iter().flatten();
        let deadlines = wires.map(|wire| {
            let delayed = wire.end.port.next_deadline();
            let delayed = delayed.map(|due| clock.at(due));
            delayed.map_or(wire.refresh_at, |due| due.min(wire.refresh_at))
        });
        deadlines.min()
    }
}

impl Shard {
    pub(super) fn change_uplink(&mut self, change: UplinkChange) -> Result<(), String> {
        match change {
            UplinkChange::Add(end) => self.add_wire(*end),
            UplinkChange::Remove(id) => {
                if let Some(slot) = self.wires.wires.get_mut(id.0 as usize) {
                    *slot = None;
                }
                self.rewire();
            }
            UplinkChange::AddPeer(id, peer) => {
                if let Some(wire) = self.wires.get(id) {
                    let added = wire.end.port.add_peer(peer);
                    added.map_err(|error| error.to_string())?;
                }
            }
            UplinkChange::RemovePeer(id, peer) => {
                if let Some(wire) = self.wires.get(id) {
                    wire.end.port.remove_peer(peer);
                }
            }
        }
        Ok(())
    }

    fn add_wire(&mut self, end: UplinkEnd) {
        let (id, now) = (end.id, self.clock.now());
        let slot = id.0 as usize;
        if self.wires.wires.len() <= slot {
            self.wires.wires.resize_with(slot + 1, || None);
        }
        self.poller.watch(&end.port, Key::Wire(id));
        self.wires.wires[slot] = Some(Box::new(Wire {
            end,
            counts: Counts::default(),
            touched: false,
            full: false,
            refresh_at: now + REFRESH,
            complain_at: now,
            last: None,
        }));
        self.rewire();
    }

    /// Tells the fabric which groups reach other hosts.
    pub(super) fn rewire(&mut self) {
        for group in self.wires.segments.groups() {
            let wired = self.wires.carries(group);
            self.fabric.set_wired(group, wired);
        }
    }

    /// Whether an adapter's next request may have to wait for a wire. Its messages inside the host
    /// wait with it: the kernel has room again in no time, or the interface is down.
    pub(super) fn must_wait(&self, port: PortId) -> bool {
        self.wires.is_full()
            && self
                .fabric
                .group(port)
                .is_some_and(|group| self.wires.carries(group))
    }

    /// Takes what came over all uplinks; `true` if anything did.
    pub(super) fn receive_wires(&mut self, now: Time) -> bool {
        let mut worked = false;
        for slot in 0..self.wires.wires.len() {
            // Out of its place, so that the shard can take what it gives.
            let Some(mut wire) = self.wires.wires[slot].take() else {
                continue;
            };
            worked |= self.receive(&mut wire, now);
            self.wires.wires[slot] = Some(wire);
        }
        worked
    }

    fn receive(&mut self, wire: &mut Wire, now: Time) -> bool {
        let (counts, last) = (&mut wire.counts, &mut wire.last);
        let id = wire.end.id;
        for batch in 0..BATCHES {
            let taken = wire.end.port.receive(&mut |received| {
                if let Err(reason) = self.take(id, received, last, now) {
                    counts.drop(reason);
                }
            });
            match taken {
                Ok(0) => return batch > 0,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("{}: cannot receive: {error}", wire.end.name);
                    return batch > 0;
                }
            }
        }
        true
    }

    fn take(
        &mut self,
        uplink: UplinkId,
        received: Received<'_>,
        last: &mut Option<(GroupId, Gid, Neighbour)>,
        now: Time,
    ) -> Result<(), Drop> {
        let group = self.wires.segments.group(received.segment);
        let group = group.ok_or(Drop::Segment)?;
        let packet = Packet::parse(received.frame).map_err(Drop::Refused)?;
        let port = self
            .fabric
            .arrive(group, packet.sgid(), packet.dgid())
            .map_err(Drop::NoRoute)?;
        let ethernet = packet.ethernet();
        if self.fabric.mac(port) != Some(ethernet.destination()) {
            return Err(Drop::OtherStation);
        }
        let mac = ethernet.source();
        let sender = (group, packet.sgid(), Neighbour { mac, uplink });
        if *last != Some(sender) {
            *last = Some(sender);
            let (group, gid, neighbour) = sender;
            self.wires.neighbours.guess(group, gid, neighbour, now.0);
        }
        self.hand_over(port, &packet, now);
        Ok(())
    }

    fn hand_over(&mut self, port: PortId, packet: &Packet<'_>, now: Time) {
        let adapter = self.adapters.get_mut(port.0 as usize);
        if let Some(adapter) = adapter.and_then(Option::as_mut) {
            let memory = adapter.memory();
            adapter.receive(&memory.view(), packet, now);
        }
    }

    /// Sends a request to an adapter of another host.
    pub(super) fn transmit(
        &mut self,
        from: PortId,
        memory: &View<'_>,
        request: &Request<Region>,
        now: Time,
    ) {
        let Some((link, way)) = self.way(from, &request.route, now) else {
            return;
        };
        match request_frame(request, memory, &link, &mut self.wires.buffer[..]) {
            Ok(frame) => {
                let length = frame.len();
                self.wires.send(&way, length, now);
            }
            Err(FrameError::Payload) => {
                if let Some(Some(adapter)) = self.adapters.get_mut(from.0 as usize) {
                    let lost = request.payload_lost();
                    adapter.respond(memory, &lost, Source::Memory(memory), now);
                }
            }
            Err(error) => tracing::debug!("a request is no packet: {error}"),
        }
    }

    /// Sends what an adapter owes peers behind wires; `true` if there was any.
    pub(super) fn reply(&mut self, from: PortId, memory: &View<'_>, now: Time) -> bool {
        for sent in 0..REPLIES_A_TURN {
            if self.wires.is_full() {
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
                self.wires.send(&way, length, now);
            }
            // The peer asks again and is told then that the memory is gone.
            Err(error) => tracing::debug!("an answer is no packet: {error}"),
        }
    }

    /// Addresses and uplink for a destination; `None`, and counted, when nobody knows its station.
    fn way(&mut self, from: PortId, route: &Route, now: Time) -> Option<(Link, Way)> {
        let (group, source) = (self.fabric.group(from)?, self.fabric.mac(from)?);
        let known = self.wires.neighbours.find(group, route.dgid, now.0);
        let destination = route.dmac.or(known.map(|neighbour| neighbour.mac));
        let Some(destination) = destination else {
            self.wires.unresolved(group);
            return None;
        };
        let link = Link {
            source,
            destination,
            vlan: None,
        };
        let uplink = known.map(|neighbour| neighbour.uplink);
        Some((link, Way { group, uplink }))
    }

    /// Hands queued frames to the kernel, lets go delayed ones, and looks at interfaces now and then.
    pub(super) fn tend_wires(&mut self, now: Time) {
        let wires = self.wires.wires.iter_mut().flatten();
        for wire in wires {
            let port = &mut wire.end.port;
            if port
                .next_deadline()
                .is_some_and(|due| self.clock.at(due) <= now)
            {
                port.release();
                wire.touched = true;
            }
            if wire.refresh_at <= now {
                port.refresh();
                wire.refresh_at = now + REFRESH;
            }
            if !std::mem::take(&mut wire.touched) {
                continue;
            }
            let full = !port.flush();
            if full != wire.full {
                self.poller.rewatch(&*port, Key::Wire(wire.end.id), full);
                wire.full = full;
            }
        }
    }

    /// An uplink has room again.
    pub(super) fn make_room(&mut self, id: UplinkId) {
        if let Some(wire) = self.wires.get(id) {
            wire.touched = true;
        }
    }
}

/// Why a packet from a wire is dropped before an adapter sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Drop {
    /// Of a segment that no port group has.
    Segment,
    /// Not a packet.
    Refused(vrdma_wire::Refusal),
    /// From an adapter of this host, or to none.
    NoRoute(NoRoute),
    /// The GID is an adapter's, the Ethernet address another one's.
    OtherStation,
}

/// Which way a frame goes.
struct Way {
    group: GroupId,
    /// Where the destination was heard; all that the group has otherwise.
    uplink: Option<UplinkId>,
}

impl Wires {
    /// Sends the front of the buffer.
    fn send(&mut self, way: &Way, length: usize, now: Time) {
        let frame = &self.buffer[..length];
        for wire in self.wires.iter_mut().flatten() {
            if way.uplink.is_some_and(|uplink| uplink != wire.end.id) {
                continue;
            }
            let Some(segment) = self.segments.of(way.group, wire.end.is_tunnel) else {
                continue;
            };
            wire.end.port.send(Hop::to(segment), frame);
            wire.touched = true;
            if length - ETHERNET_BYTES > wire.end.port.mtu() as usize {
                wire.complain(length, now);
            }
        }
    }

    /// A message whose destination has no known station.
    fn unresolved(&mut self, group: GroupId) {
        let mut wires = self.wires.iter_mut().flatten();
        let segments = &self.segments;
        if let Some(wire) = wires.find(|wire| segments.of(group, wire.end.is_tunnel).is_some()) {
            wire.counts.unresolved += 1;
        }
    }
}

impl Wire {
    /// The uplink counts the frame as too big; once in a while somebody should read it.
    fn complain(&mut self, length: usize, now: Time) {
        if now < self.complain_at {
            return;
        }
        self.complain_at = now + COMPLAINTS_APART;
        tracing::warn!(
            "{}: a packet of {} bytes does not fit its MTU of {}; raise the MTU, or connect with a smaller path MTU",
            self.end.name,
            length - ETHERNET_BYTES,
            self.end.port.mtu()
        );
    }
}
