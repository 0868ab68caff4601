//! Notices as packets: they leave and arrive as RoCEv2 packets do, and pass the same checks.

use vrdma_switch::{GroupId, Neighbour, NoRoute, PortId, UplinkId};
use vrdma_verbs::Time;
use vrdma_verbs::unit::Route;
use vrdma_wire::{Addresses, Gid, Mac, NOTICE_PORT, Notice, NoticeKind, NoticePacket, Path};

use super::Uplinks;
use super::ingress::{Arrived, Drop};
use crate::host::Host;
use crate::location::{Farewell, NOBODY, Told};
use crate::member::Member;
use crate::port::Port;
use crate::transfer::FromUplink;

/// The stations between which a notice goes.
#[derive(Clone, Copy)]
struct Stations {
    from: Mac,
    to: Mac,
}

impl<M: Member, P: Port> Host<M, P> {
    /// Sends a notice of a member to another host.
    pub(crate) fn transmit_notice(
        &mut self,
        port: PortId,
        route: &Route,
        notice: &Notice,
        now: Time,
    ) {
        let Some(hop) = self.hop(port, route, now) else {
            return;
        };
        let stations = Stations {
            from: hop.source,
            to: hop.station.unwrap_or_default(),
        };
        let Some(packet) = packet(route, stations, notice) else {
            return;
        };
        let length = packet.emit(&mut self.uplinks.buffer[..]);
        self.send(hop, length);
    }

    /// Takes a frame that is no RoCEv2 packet.
    pub(super) fn take_notice(
        &mut self,
        arrived: Arrived,
        group: GroupId,
        frame: &[u8],
    ) -> Result<(), Drop> {
        let packet = NoticePacket::parse(frame).map_err(Drop::Refused)?;
        let Arrived { uplink, now } = arrived;
        let fabric = self.shared.read();
        let port = match fabric.arrive(group, packet.sgid(), packet.dgid()) {
            Ok(port) => port,
            Err(reason) => {
                drop(fabric);
                let was_here =
                    reason == NoRoute::Unknown && self.say_farewell(uplink, group, &packet, now);
                return was_here.then_some(()).ok_or(Drop::NoRoute(reason));
            }
        };
        let Path {
            source,
            destination,
            ..
        } = packet.path;
        if fabric.mac(port) != Some(destination) {
            return Err(Drop::OtherStation);
        }
        if fabric.has_station(group, source) {
            return Err(Drop::OwnStation);
        }
        let neighbours = &self.uplinks.neighbours;
        if !is_from_nobody(&packet) && neighbours.contradicts(group, packet.sgid(), source, now.0) {
            return Err(Drop::OtherSender);
        }
        let home = self.shared.home(port);
        drop(fabric);
        if let Some(home) = home.filter(|home| home.shard != self.id) {
            let sent = self.transfer_packet(home.shard, port, FromUplink { uplink, frame });
            return sent.then_some(()).ok_or(Drop::ShardFull);
        }
        self.uplinks.traces.add(port, frame, now);
        self.hand_over_notice(port, uplink, &packet, now);
        Ok(())
    }

    /// Hands over a notice for a member of this shard, which was checked.
    pub(super) fn hand_over_notice(
        &mut self,
        port: PortId,
        uplink: UplinkId,
        packet: &NoticePacket,
        now: Time,
    ) {
        let mac = packet.path.source;
        let from = Neighbour { mac, uplink };
        if !is_from_nobody(packet) {
            self.hear_sender(port, packet.sgid(), from, now);
        }
        let heard = Told {
            port,
            local: packet.dgid(),
            remote: packet.sgid(),
            notice: packet.notice,
            from: Some(from),
        };
        self.hear_notice(&heard, now);
    }
}

impl<P: Port> Uplinks<P> {
    /// Sends an answer in the name of an adapter that is gone, from `NOBODY`.
    pub(crate) fn send_farewell(&mut self, farewell: &Farewell) {
        let stations = Stations {
            from: NOBODY,
            to: farewell.to,
        };
        let Some(packet) = packet(&farewell.route, stations, &farewell.notice) else {
            return;
        };
        let mut frame = [0; NoticePacket::FRAME_MAX];
        let length = packet.emit(&mut frame);
        let Some(Some(uplink)) = self.all.get_mut(farewell.uplink.0 as usize) else {
            return;
        };
        if let Some(segment) = self.segments.of(farewell.group, uplink.is_tunnel) {
            uplink.send(segment, &frame[..length]);
        }
    }

    /// Notes that an address is not where it was heard.
    pub(crate) fn lose(&mut self, group: GroupId, gid: Gid) {
        if self.neighbours.lose(group, gid) {
            self.changes += 1;
        }
    }
}

/// Makes a packet of a notice; `None` between two IP versions.
fn packet(route: &Route, stations: Stations, notice: &Notice) -> Option<NoticePacket> {
    let addresses = Addresses::between(route.sgid, route.dgid, Default::default())?;
    let path = Path {
        destination: stations.to,
        source: stations.from,
        vlan: None,
        addresses,
        traffic_class: Default::default(),
        hop_limit: route.hop_limit,
        source_port: NOTICE_PORT,
    };
    Some(NoticePacket {
        path,
        notice: *notice,
    })
}

/// Whether it comes from the former host of the adapter in whose name it speaks.
fn is_from_nobody(packet: &NoticePacket) -> bool {
    packet.notice.kind == NoticeKind::Moved && packet.path.source == NOBODY
}
