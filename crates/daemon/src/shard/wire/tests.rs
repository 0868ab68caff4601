//! A hostile host at the other end of a tunnel: what it sends is dropped, counted, and not answered.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Instant;

use vrdma_api::{AdapterKind, DoorbellMode, PollMode};
use vrdma_wire::{
    Addresses, Bth, Extension, Mac, Opcode, PacketBuilder, Path, Pkey, Psn, Qpn, TrafficClass,
    Transport,
};

use super::*;
use crate::plane::{AdapterSpec, Medium, Outbox, Segment, UplinkSpec, mailbox};
use crate::polling::Polling;
use crate::process_socket::ProcessSocket;
use crate::shard::poller::Poller;
use crate::uplink::{UplinkEnds, open};
use vrdma_process::{Registry, Sessions, ShardId};

const PORT: PortId = PortId(0);
const OURS: Mac = Mac([0x52, 0x54, 0, 0, 0, 1]);
const THEIRS: Mac = Mac([0x52, 0x54, 0, 0, 0, 2]);
const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const VNI: u8 = 10;

/// How long the kernel and a busy machine may take for everything.
const PATIENCE: Duration = Duration::from_secs(30);

/// A shard with one adapter and one tunnel, and a socket that is the tunnel's peer.
struct World {
    shard: Shard,
    peer: UdpSocket,
    sent: u64,
    /// What the shard holds on to, or would be told by.
    _rest: (UplinkEnd, Outbox<Heard>, ProcessSocket, tempfile::TempDir),
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let processes = ProcessSocket::bind(folder.path()).unwrap();
        let registry = Registry::default();
        let listener = Some(processes.listener().unwrap());
        let sessions = Sessions::new(ShardId(0), listener, registry.clone());
        let (_, inbox) = mailbox().unwrap();
        let (says, heard) = mailbox().unwrap();
        let poller = Poller::new(Poller::open().unwrap());
        let mut shard = Shard::new(
            inbox,
            Wires::new(heard),
            poller,
            sessions,
            registry,
            Polling::new(PollMode::Adaptive),
        );
        shard.add(adapter()).unwrap();
        let UplinkEnds { mut roce, rest } = open(&tunnel()).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_nonblocking(true).unwrap();
        peer.connect(roce.port.local().unwrap()).unwrap();
        roce.port.add_peer(peer.local_addr().unwrap()).unwrap();
        let added = UplinkChange::Add(Box::new(roce));
        shard.change_uplink(added).unwrap();
        Self {
            shard,
            peer,
            sent: 0,
            _rest: (rest, says, processes, folder),
        }
    }

    /// Sends frames in a network and lets the shard take them. Few at a time, so that the kernel
    /// loses none.
    fn send(&mut self, vni: u8, frame: &[u8]) {
        let datagram = [&[8, 0, 0, 0, 0, 0, vni, 0], frame].concat();
        self.peer.send(&datagram).unwrap();
        self.sent += 1;
        let deadline = Instant::now() + PATIENCE;
        while self.received() < self.sent {
            self.shard.turn();
            assert!(Instant::now() < deadline, "a frame did not arrive");
        }
    }

    fn received(&self) -> u64 {
        self.snapshot().rx_frames
    }

    fn snapshot(&self) -> vrdma_api::FrameStats {
        let wire = self.shard.wires.wires[0].as_deref().unwrap();
        snapshot(wire).frames
    }

    fn heard_back(&self) -> bool {
        match self.peer.recv(&mut [0; 2048]) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }
}

fn adapter() -> AdapterSpec {
    AdapterSpec {
        name: "p1".parse().unwrap(),
        port: PORT,
        group: GroupId(0),
        segment: Segment {
            vlan: None,
            vni: Some(i64::from(VNI).try_into().unwrap()),
        },
        mac: OURS,
        kind: AdapterKind::Process,
        portgroup: "blue".parse().unwrap(),
        ip: Some(OUR_IP.into()),
        doorbells: DoorbellMode::Mapped,
        vfio_user_socket: "/nowhere".into(),
        ethernet_socket: "/nowhere".into(),
    }
}

fn tunnel() -> UplinkSpec {
    UplinkSpec {
        id: UplinkId(0),
        name: "up0".parse().unwrap(),
        medium: Medium::Tunnel {
            listen: "127.0.0.1:0".parse().unwrap(),
        },
        faults: None,
    }
}

/// What a stranger can say about himself and his packet.
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

/// A SEND to a queue pair that nobody has.
fn packet(forged: &Forged) -> Vec<u8> {
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
    let number = Qpn::new(0x12_3456).unwrap();
    let mut bth = Bth::new(Opcode::RC_SEND_ONLY, number, Psn::new(7));
    bth.pkey = forged.pkey;
    bth.ack_request = true;
    let transport = Transport::new(bth, Extension::Nothing).unwrap();
    let mut buffer = [0; MAX_FRAME];
    let mut builder = PacketBuilder::new(&path, &transport, 64, &mut buffer).unwrap();
    builder.push(&[0x5a; 64]);
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
    let other_ip = Ipv4Addr::new(10, 0, 0, 9);
    let cases = [
        (VNI, cut),
        (VNI, flipped.clone()),
        (VNI, flipped),
        (VNI + 1, good.clone()),
        (
            VNI,
            packet(&Forged {
                source: OUR_IP,
                ..PLAIN
            }),
        ),
        (
            VNI,
            packet(&Forged {
                source: Ipv4Addr::BROADCAST,
                ..PLAIN
            }),
        ),
        (
            VNI,
            packet(&Forged {
                destination: other_ip,
                ..PLAIN
            }),
        ),
        (
            VNI,
            packet(&Forged {
                to: THEIRS,
                ..PLAIN
            }),
        ),
        (
            VNI,
            packet(&Forged {
                from: OURS,
                ..PLAIN
            }),
        ),
    ];
    for (vni, frame) in &cases {
        world.send(*vni, frame);
    }
    let expected = drops(&[
        ("truncated", 1),
        ("icrc", 2),
        ("unknown-segment", 1),
        ("spoofed-gid", 1),
        ("spoofed-source", 1),
        ("unknown-adapter", 1),
        ("other-station", 1),
        ("spoofed-station", 1),
    ]);
    assert_eq!(world.snapshot().drops, expected);
    assert!(!world.heard_back());
}

#[test]
fn what_no_queue_pair_takes_is_the_adapters_drop() {
    let mut world = World::new();
    world.send(VNI, &packet(&PLAIN));
    for _ in 0..2 {
        let pkey = Pkey(0x8001);
        world.send(VNI, &packet(&Forged { pkey, ..PLAIN }));
    }
    assert_eq!(world.snapshot().drops, drops(&[]));
    let adapter = world.shard.adapters[0].as_ref().unwrap();
    let counted = crate::shard::stats::stats(adapter).counters.drops;
    assert_eq!(counted, drops(&[("unknown-qp", 1), ("wrong-pkey", 2)]));
    assert!(!world.heard_back());
}

#[test]
fn a_flood_of_anything_leaves_the_shard_as_it_was() {
    let mut world = World::new();
    let good = packet(&PLAIN);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..2000 {
        // Behind the port, by which the kernel knows it for RoCEv2.
        let mut frame = good.clone();
        for byte in &mut frame[42..] {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = (state >> 33) as u8;
        }
        world.send(VNI, &frame);
    }
    let counted: u64 = world.snapshot().drops.values().sum();
    assert_eq!(counted, 2000);
    assert_eq!(world.snapshot().tx_frames, 0);
    assert!(!world.heard_back());
}

#[test]
fn nobody_waits_long_for_a_full_uplink() {
    let mut world = World::new();
    let now = world.shard.clock.now();
    let wires = &mut world.shard.wires;
    assert!(!wires.holds_up(now) && !wires.awaited);
    wires.wires[0].as_mut().unwrap().full_since = Some((now, 0));
    assert!(wires.holds_up(now) && wires.awaited);
    assert!(!wires.holds_up(now + FULL_PATIENCE));
    assert!(world.shard.tend_wires(now + FULL_PATIENCE), "they go on");
    assert!(!world.shard.wires.awaited);
}
