//! Packets that come.

use vrdma_switch::{GroupId, Neighbour, NoRoute, PortId, UplinkId};
use vrdma_uplink::Received;
use vrdma_verbs::Time;
use vrdma_wire::{Gid, Packet, Refusal};

use super::{Shard, Wire};

/// Batches taken from one uplink before the adapters have their turn.
const BATCHES: usize = 4;

/// Why a packet from a wire is dropped before an adapter sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Drop {
    /// Of a segment that no port group has.
    Segment,
    /// Not a packet.
    Refused(Refusal),
    /// From an adapter of this host, or to none.
    NoRoute(NoRoute),
    /// The GID is an adapter's, the Ethernet address another one's.
    OtherStation,
    /// From the Ethernet address of an adapter of this host.
    OwnStation,
    /// To a multicast GID that no adapter of the group listens to.
    NobodyListens,
}

impl Shard {
    /// Takes what came over all uplinks; `true` if anything did.
    pub(in crate::shard) fn receive_wires(&mut self, now: Time) -> bool {
        let mut worked = false;
        for slot in 0..self.wires.wires.len() {
            // Out of its place, so that the shard can take what it gives.
            let Some(mut wire) = self.wires.wires[slot].take() else {
                continue;
            };
            worked |= self.receive(&mut wire, now);
            self.wires.wires[slot] = Some(wire);
        }
        if worked {
            let adapters = self.adapters.iter_mut().flatten();
            adapters.for_each(|adapter| adapter.end_train(now));
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
        if packet.dgid().is_multicast() {
            return self.take_of_many(group, received.frame, &packet, now);
        }
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
            if self.fabric.has_station(group, mac) {
                return Err(Drop::OwnStation);
            }
            *last = Some(sender);
            let (group, gid, neighbour) = sender;
            self.wires.neighbours.guess(group, gid, neighbour, now.0);
        }
        self.wires.traces.add(port, received.frame, now);
        self.hand_over(port, &packet, now);
        Ok(())
    }

    /// A datagram to a multicast GID: for every adapter of the group that listens to it.
    fn take_of_many(
        &mut self,
        group: GroupId,
        frame: &[u8],
        packet: &Packet<'_>,
        now: Time,
    ) -> Result<(), Drop> {
        if packet.dgid().group_mac() != Some(packet.ethernet().destination()) {
            return Err(Drop::OtherStation);
        }
        if self.fabric.has_station(group, packet.ethernet().source()) {
            return Err(Drop::OwnStation);
        }
        let heard = self
            .fabric
            .hear_from_wire(group, packet.sgid(), packet.dgid())
            .map_err(Drop::NoRoute)?;
        let ports: Vec<_> = heard.collect();
        for port in &ports {
            self.wires.traces.add(*port, frame, now);
            self.hand_over(*port, packet, now);
        }
        let heard = !ports.is_empty();
        heard.then_some(()).ok_or(Drop::NobodyListens)
    }

    fn hand_over(&mut self, port: PortId, packet: &Packet<'_>, now: Time) {
        if self.take_mad_packet(port, packet, now) {
            return;
        }
        let adapter = self.adapters.get_mut(port.0 as usize);
        if let Some(adapter) = adapter.and_then(Option::as_mut) {
            let memory = adapter.memory();
            adapter.receive(&memory.view(), packet, now);
        }
    }
}
