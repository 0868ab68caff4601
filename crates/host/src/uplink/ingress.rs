//! Packets that come.

use vrdma_switch::{GroupId, Neighbour, NoRoute, PortId, UplinkId};
use vrdma_verbs::Time;
use vrdma_wire::{Gid, NoticePacket, Operation, Packet, Refusal};

use super::Uplink;
use crate::host::Host;
use crate::limits::Sent;
use crate::member::Member;
use crate::port::{Batch, Port};
use crate::transfer::FromUplink;

/// Most batches taken from one uplink before the members have their turn.
const BATCHES: usize = 4;

/// Why a packet from an uplink is dropped before a member sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Drop {
    /// The segment belongs to no port group.
    Segment,
    /// It is no valid packet.
    Refused(Refusal),
    /// It comes from an adapter of this host, or goes to none.
    NoRoute(NoRoute),
    /// The GID is that of one adapter, the Ethernet address that of another.
    OtherStation,
    /// It comes from the Ethernet address of an adapter of this host.
    OwnStation,
    /// It comes in the name of an address that another station has said to have.
    OtherSender,
    /// It goes to a multicast GID that no adapter of the group listens to.
    NobodyListens,
    /// It exceeds a limit of the adapter for arrivals.
    OverLimit,
    /// It is for an adapter of a shard that takes no more for now.
    ShardFull,
}

/// Where and when a packet arrived.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub(super) uplink: UplinkId,
    pub(super) now: Time,
}

/// The sender that a packet names.
type Sender = (GroupId, Gid, Neighbour);

impl<M: Member, P: Port> Host<M, P> {
    /// Takes what came over all uplinks; `true` if anything did.
    pub(crate) fn receive(&mut self, now: Time) -> bool {
        let mut worked = false;
        for slot in 0..self.uplinks.all.len() {
            // Taken out of its slot, so that the host can take what it gives.
            let Some(mut uplink) = self.uplinks.all[slot].take() else {
                continue;
            };
            worked |= self.receive_from(&mut uplink, now);
            self.uplinks.all[slot] = Some(uplink);
        }
        self.members.end_trains(now);
        worked
    }

    fn receive_from(&mut self, uplink: &mut Uplink<P>, now: Time) -> bool {
        let (counts, last) = (&mut uplink.counts, &mut uplink.last);
        let arrived = Arrived {
            uplink: uplink.id,
            now,
        };
        let mut worked = false;
        for _ in 0..BATCHES {
            let batch = uplink.port.receive(&mut |received| {
                let group = self.uplinks.segments.group(received.segment);
                let Some(group) = group else {
                    counts.drop(Drop::Segment);
                    return false;
                };
                if let Err(reason) = self.take(arrived, group, received.frame, last) {
                    counts.drop(reason);
                    self.uplinks.group_counts.drop(group, reason);
                }
                true
            });
            worked |= batch != Batch::Empty;
            if batch != Batch::Full {
                break;
            }
        }
        worked
    }

    fn take(
        &mut self,
        arrived: Arrived,
        group: GroupId,
        frame: &[u8],
        last: &mut Option<Sender>,
    ) -> Result<(), Drop> {
        let Arrived { uplink, now } = arrived;
        let packet = match Packet::parse(frame) {
            Err(Refusal::OtherTraffic) => return self.take_notice(arrived, group, frame),
            parsed => parsed.map_err(Drop::Refused)?,
        };
        if packet.dgid().is_multicast() {
            return self.take_of_many(arrived, group, frame, &packet);
        }
        let ethernet = packet.ethernet();
        let fabric = self.shared.read();
        let port = fabric
            .arrive(group, packet.sgid(), packet.dgid())
            .map_err(Drop::NoRoute)?;
        if fabric.mac(port) != Some(ethernet.destination()) {
            return Err(Drop::OtherStation);
        }
        let mac = ethernet.source();
        let sender = (group, packet.sgid(), Neighbour { mac, uplink });
        let is_new = *last != Some(sender);
        if is_new && fabric.has_station(group, mac) {
            return Err(Drop::OwnStation);
        }
        let neighbours = &self.uplinks.neighbours;
        if neighbours.contradicts(group, packet.sgid(), mac, now.0) {
            return Err(Drop::OtherSender);
        }
        let home = self.shared.home(port);
        drop(fabric);
        if is_new {
            *last = Some(sender);
            self.hear_sender(port, packet.sgid(), Neighbour { mac, uplink }, now);
        }
        if !self.admits_packet(port, frame, &packet, now) {
            return Err(Drop::OverLimit);
        }
        if let Some(home) = home.filter(|home| home.shard != self.id) {
            let sent = self.transfer_packet(home.shard, port, FromUplink { uplink, frame });
            return sent.then_some(()).ok_or(Drop::ShardFull);
        }
        self.uplinks.traces.add(port, frame, now);
        self.hand_over(port, &packet, now);
        Ok(())
    }

    /// Notes where the sender of a packet is.
    pub(super) fn hear_sender(&mut self, port: PortId, gid: Gid, from: Neighbour, now: Time) {
        let Some(group) = self.shared.read().group(port) else {
            return;
        };
        let neighbours = &mut self.uplinks.neighbours;
        if neighbours.guess(group, gid, from, now.0) {
            self.uplinks.changes += 1;
        }
    }

    /// Takes a datagram to a multicast GID, for every member of the group that listens to it.
    fn take_of_many(
        &mut self,
        arrived: Arrived,
        group: GroupId,
        frame: &[u8],
        packet: &Packet<'_>,
    ) -> Result<(), Drop> {
        if packet.dgid().group_mac() != Some(packet.ethernet().destination()) {
            return Err(Drop::OtherStation);
        }
        let fabric = self.shared.read();
        if fabric.has_station(group, packet.ethernet().source()) {
            return Err(Drop::OwnStation);
        }
        let heard = fabric
            .hear_from_wire(group, packet.sgid(), packet.dgid())
            .map_err(Drop::NoRoute)?;
        let ports: Vec<_> = heard.map(|port| (port, self.shared.home(port))).collect();
        drop(fabric);
        for (port, home) in &ports {
            if !self.admits_packet(*port, frame, packet, arrived.now) {
                continue;
            }
            if let Some(home) = home.filter(|home| home.shard != self.id) {
                let uplink = arrived.uplink;
                self.transfer_packet(home.shard, *port, FromUplink { uplink, frame });
                continue;
            }
            self.uplinks.traces.add(*port, frame, arrived.now);
            self.hand_over(*port, packet, arrived.now);
        }
        let heard = !ports.is_empty();
        heard.then_some(()).ok_or(Drop::NobodyListens)
    }

    /// Whether the limits of a member let a packet arrive. If so, it is charged.
    fn admits_packet(
        &mut self,
        port: PortId,
        frame: &[u8],
        packet: &Packet<'_>,
        now: Time,
    ) -> bool {
        let info = packet.bth().opcode.info();
        let arrives = Sent {
            bytes: frame.len() as u64,
            ops: u64::from(
                info.is_some_and(|it| it.operation.is_request() && it.position.starts()),
            ),
        };
        // As many acknowledgements arrive as the member sends messages, and losing one would make the member send them
        // again.
        let is_ack = info.is_some_and(|it| it.operation == Operation::Acknowledge);
        if is_ack {
            self.charge_arrival(port, &arrives, None, now);
        }
        let is_admitted = is_ack || self.admits(port, &arrives, now);
        if is_admitted {
            self.note_packet(port, &arrives, now);
        }
        is_admitted
    }

    /// Takes a packet for a member of this shard, which the first shard has taken from an uplink and checked.
    pub(crate) fn take_packet(&mut self, port: PortId, uplink: UplinkId, frame: &[u8], now: Time) {
        if let Ok(packet) = Packet::parse(frame) {
            let mac = packet.ethernet().source();
            self.hear_sender(port, packet.sgid(), Neighbour { mac, uplink }, now);
            self.uplinks.traces.add(port, frame, now);
            self.hand_over(port, &packet, now);
        } else if let Ok(packet) = NoticePacket::parse(frame) {
            self.uplinks.traces.add(port, frame, now);
            self.hand_over_notice(port, uplink, &packet, now);
        }
    }

    fn hand_over(&mut self, port: PortId, packet: &Packet<'_>, now: Time) {
        if self.is_for_owner(port, packet.bth().destination) {
            return self.hand_out_packet(port, packet);
        }
        if self.reminds(port, packet, now) {
            return;
        }
        if let Some(member) = self.members.touch(port, now) {
            let memory = member.memory();
            member.receive(&M::view(&memory), packet, now);
        }
    }
}
