//! A hostile host at the other end of a tunnel: what it sends is dropped, counted, and not answered.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use vrdma_host::{Counts, Segment};
use vrdma_switch::{GroupId, PortId, Untaken, UplinkId};
use vrdma_verbs::Time;
use vrdma_wire::{
    Addresses, Bth, Deth, Extension, MAD_LEN, MAX_FRAME, Mac, Opcode, PacketBuilder, Path, Pkey,
    Psn, Qkey, Qpn, TrafficClass, Transport,
};

use crate::world::*;

const OURS: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([0x52, 0x54, 0, 0, 0, 2]);
const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const VNI: u32 = 10;
const NOW: Time = Time(0);

/// A host with one station and one tunnel.
struct World {
    host: Carrier,
    port: PortId,
    wire: Wire,
}

impl World {
    fn new() -> Self {
        let mut host = Carrier::new(1);
        let port = add(&mut host, 1, 0);
        let wire = Wire::new(1450);
        host.add_uplink(UplinkId(0), true, wire.clone(), NOW);
        Self { host, port, wire }
    }

    /// Sends a frame in a VXLAN network and lets the host take it.
    fn send(&mut self, vni: u32, frame: &[u8]) {
        self.wire.arrive((Segment::Vni(vni), frame.to_vec()));
        run(&mut self.host, NOW);
    }

    fn drops(&self) -> BTreeMap<String, u64> {
        self.host.uplinks().next().unwrap().counts().by_reason()
    }

    /// Returns what was dropped for the station's port group.
    fn group_drops(&self) -> BTreeMap<String, u64> {
        let counts = self.host.group_counts(GroupId(0));
        counts.map(Counts::by_reason).unwrap_or_default()
    }

    fn has_answered(&self) -> bool {
        !self.wire.take_sent().is_empty()
    }
}

/// The fields that a stranger can choose in its packet.
struct Forged {
    to: Mac,
    from: Mac,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    pkey: Pkey,
}

const PLAIN: Forged = Forged {
    to: OURS,
    from: THEIRS,
    source: THEIR_IP,
    destination: OUR_IP,
    pkey: Pkey::DEFAULT,
};

/// Makes a SEND to a queue pair that does not exist.
fn packet(forged: &Forged) -> Vec<u8> {
    let number = Qpn::new(0x12_3456).unwrap();
    let mut bth = Bth::new(Opcode::RC_SEND_ONLY, number, Psn::new(7));
    bth.ack_request = true;
    packet_of(forged, bth, Extension::Nothing, 64)
}

/// Makes a management datagram, or one that is nearly valid.
fn datagram(forged: &Forged, qkey: Qkey, length: usize) -> Vec<u8> {
    let bth = Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(7));
    let source = Qpn::GSI;
    packet_of(
        forged,
        bth,
        Extension::Datagram(Deth { qkey, source }),
        length,
    )
}

fn packet_of(forged: &Forged, mut bth: Bth, extension: Extension, length: usize) -> Vec<u8> {
    let path = Path {
        destination: forged.to,
        source: forged.from,
        vlan: None,
        addresses: Addresses::V4 {
            source: forged.source,
            destination: forged.destination,
            identification: 0,
        },
        traffic_class: TrafficClass(0),
        hop_limit: 64,
        source_port: 49152,
    };
    bth.pkey = forged.pkey;
    let transport = Transport::new(bth, extension).unwrap();
    let mut buffer = [0; MAX_FRAME];
    let mut builder = PacketBuilder::new(&path, &transport, length, &mut buffer).unwrap();
    builder.push(&vec![0x5a; length]);
    builder.finish().to_vec()
}

fn drops(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let drops = expected.iter();
    drops
        .map(|(word, count)| ((*word).to_owned(), *count))
        .collect()
}

#[test]
fn garbage_is_counted_by_reason_and_never_answered() {
    let mut world = World::new();
    let good = packet(&PLAIN);
    let mut cut = good.clone();
    cut.truncate(60);
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let forgeries = [
        Forged {
            source: OUR_IP,
            ..PLAIN
        },
        Forged {
            source: Ipv4Addr::BROADCAST,
            ..PLAIN
        },
        Forged {
            destination: Ipv4Addr::new(10, 0, 0, 9),
            ..PLAIN
        },
        Forged {
            to: THEIRS,
            ..PLAIN
        },
        Forged {
            from: OURS,
            ..PLAIN
        },
    ];
    for frame in [&cut, &flipped, &flipped] {
        world.send(VNI, frame);
    }
    world.send(VNI + 1, &good);
    for forged in &forgeries {
        world.send(VNI, &packet(forged));
    }
    let mut expected = drops(&[
        ("truncated", 1),
        ("icrc", 2),
        ("unknown-segment", 1),
        ("spoofed-gid", 1),
        ("spoofed-source", 1),
        ("unknown-adapter", 1),
        ("other-station", 1),
        ("spoofed-station", 1),
    ]);
    assert_eq!(world.drops(), expected);
    expected.remove("unknown-segment");
    assert_eq!(world.group_drops(), expected);
    assert!(!world.has_answered());
}

#[test]
fn what_nobody_of_a_group_got_is_counted_until_the_group_is_gone() {
    let mut world = World::new();
    let mut group = Forged {
        destination: Ipv4Addr::new(239, 1, 2, 3),
        ..PLAIN
    };
    group.to = Mac([0x01, 0x00, 0x5e, 1, 2, 3]);
    world.send(VNI, &datagram(&group, Qkey::GSI, MAD_LEN));
    world.send(VNI + 1, &datagram(&group, Qkey::GSI, MAD_LEN));
    assert_eq!(world.group_drops(), drops(&[("nobody-listens", 1)]));
    let port = world.port;
    let station = world.host.remove(port).unwrap();
    assert_eq!(world.group_drops(), drops(&[]));
    world.send(VNI, &packet(&PLAIN));
    assert_eq!(world.group_drops(), drops(&[]), "it has no members");
    let again = attachment(&station, 1, 0);
    world.host.add(again, station).unwrap();
    assert_eq!(world.group_drops(), drops(&[]), "another group");
}

#[test]
fn what_no_queue_pair_takes_is_the_adapters_drop() {
    let mut world = World::new();
    world.send(VNI, &packet(&PLAIN));
    for _ in 0..2 {
        let pkey = Pkey(0x8001);
        world.send(VNI, &packet(&Forged { pkey, ..PLAIN }));
    }
    assert_eq!(world.drops(), drops(&[]));
    let hca = &station(&mut world.host, world.port).hca;
    let counted = &hca.counters().drops;
    assert_eq!((counted.unknown_qp, counted.wrong_pkey), (1, 2));
    assert!(!world.has_answered());
}

#[test]
fn what_management_does_not_take_is_the_adapters_drop_too() {
    let mut world = World::new();
    let forged = Forged {
        pkey: Pkey(0x8001),
        ..PLAIN
    };
    let frames = [
        datagram(&forged, Qkey::GSI, MAD_LEN),
        datagram(&PLAIN, Qkey(7), MAD_LEN),
        datagram(&PLAIN, Qkey(8), MAD_LEN),
        datagram(&PLAIN, Qkey::GSI, MAD_LEN - 4),
    ];
    for frame in &frames {
        world.send(VNI, frame);
    }
    assert_eq!(world.host.next_datagram(), None);
    world.send(VNI, &datagram(&PLAIN, Qkey::GSI, MAD_LEN));
    assert!(world.host.next_datagram().is_some());
    let untaken: Vec<_> = world.host.untaken(world.port).collect();
    let expected = [
        (Untaken::WrongQkey, 2),
        (Untaken::WrongPkey, 1),
        (Untaken::Malformed, 1),
    ];
    assert_eq!(untaken, expected);
    assert_eq!(world.drops(), drops(&[]));
    assert!(!world.has_answered());
}

#[test]
fn a_flood_of_anything_leaves_the_host_as_it_was() {
    let mut world = World::new();
    let good = packet(&PLAIN);
    let mut random = fastrand::Rng::with_seed(0x9e37_79b9);
    for _ in 0..2000 {
        // Random bytes after the UDP port, by which the kernel recognizes RoCEv2.
        let mut frame = good.clone();
        frame[42..].fill_with(|| random.u8(..));
        world.send(VNI, &frame);
    }
    let counted: u64 = world.drops().values().sum();
    assert_eq!(counted, 2000);
    assert!(!world.has_answered());
}
