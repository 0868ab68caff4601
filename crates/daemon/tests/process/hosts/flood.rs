//! A stranger on the wire that sends as fast as it can.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use vrdma_api::MacAddress;
use vrdma_uplink::{Hop, Ports, Segment};
use vrdma_wire::{
    Addresses, Bth, Extension, MAX_FRAME, Mac, Opcode, PacketBuilder, Path, Pkey, Psn, Qpn, Reth,
    Rkey, TrafficClass, Transport,
};

use super::transfer::{Target, Transfer};
use super::{INTERFACE, Medium, World};
use crate::client::LONG;
use vrdma_lab::namespace::enter;

const STRANGER: Mac = Mac([0x52, 0x54, 0, 0, 0, 0x66]);
const STRANGERS_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 66);
const OUR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIR_IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Frames sent before the test ends, while a connection goes on.
const FLOOD: u64 = 100_000;
const WRITES: usize = 40;

/// Offset of the BTH, behind Ethernet, IPv4 and UDP headers.
const BTH_AT: usize = 42;

/// Fields that the stranger sets in its packets; the rest is valid.
#[derive(Clone, Copy)]
struct Forged {
    station: Mac,
    from: (Mac, Ipv4Addr),
    to: Ipv4Addr,
    pkey: Pkey,
    qpn: u32,
    /// Address and key: the packet is a WRITE instead of a SEND.
    write: Option<(u64, u32)>,
}

impl Forged {
    fn frame(self) -> Vec<u8> {
        let path = Path {
            destination: self.station,
            source: self.from.0,
            vlan: None,
            addresses: Addresses::V4 {
                source: self.from.1,
                destination: self.to,
                identification: 0,
            },
            traffic_class: TrafficClass(0),
            hop_limit: 64,
            source_port: 49152,
        };
        let (opcode, extension) = match self.write {
            None => (Opcode::RC_SEND_ONLY, Extension::Nothing),
            Some((address, key)) => {
                let rkey = Rkey(key);
                let length = 64;
                let reth = Reth {
                    address,
                    rkey,
                    length,
                };
                (Opcode::RC_WRITE_ONLY, Extension::Remote(reth))
            }
        };
        let mut bth = Bth::new(opcode, Qpn::new(self.qpn).unwrap(), Psn::new(0));
        bth.pkey = self.pkey;
        bth.ack_request = true;
        let transport = Transport::new(bth, extension).unwrap();
        let mut buffer = [0; MAX_FRAME];
        let mut builder = PacketBuilder::new(&path, &transport, 64, &mut buffer).unwrap();
        builder.push(&[0xee; 64]);
        builder.finish().to_vec()
    }
}

fn station(adapter: &str) -> Mac {
    let derived = MacAddress::derived_from(&adapter.parse().unwrap());
    Mac(derived.octets())
}

/// Makes one frame of each kind, and some with random bytes where the packet should begin.
fn garbage(target: Target) -> Vec<Vec<u8>> {
    let plain = Forged {
        station: station("c1"),
        from: (STRANGER, STRANGERS_IP),
        to: THEIR_IP,
        pkey: Pkey::DEFAULT,
        qpn: 0x12_3456,
        write: None,
    };
    let real = Forged {
        qpn: target.qpn,
        ..plain
    };
    let mut cut = plain.frame();
    cut.truncate(60);
    let mut flipped = real.frame();
    *flipped.last_mut().unwrap() ^= 1;
    let mut frames = vec![cut, flipped];
    let replayed = Forged {
        from: (station("c0"), OUR_IP),
        write: Some((target.address, target.rkey)),
        ..real
    };
    let forged = [
        Forged {
            station: STRANGER,
            ..real
        },
        Forged {
            from: (STRANGER, THEIR_IP),
            ..real
        },
        Forged {
            from: (STRANGER, Ipv4Addr::BROADCAST),
            ..real
        },
        Forged {
            to: Ipv4Addr::new(10, 0, 0, 9),
            ..real
        },
        Forged {
            pkey: Pkey(0x8001),
            ..real
        },
        plain,
        real,
        replayed,
    ];
    frames.extend(forged.map(Forged::frame));
    frames.extend(random(&real.frame()));
    frames
}

/// Makes frames with random bytes where the packet of a good one begins.
fn random(good: &[u8]) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut frame = || {
        let mut frame = good.to_vec();
        for byte in &mut frame[BTH_AT..] {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = (state >> 33) as u8;
        }
        frame
    };
    (0..64).map(|_| frame()).collect()
}

/// Sends until told to stop. Returns how many of the frames that came back were for the stranger.
fn flood(frames: &[Vec<u8>], sent: &AtomicU64, stop: &AtomicBool) -> usize {
    let mut ports = Ports::raw(INTERFACE).unwrap();
    let mut answers = 0;
    while !stop.load(Relaxed) {
        for frame in frames {
            ports.roce.send(Hop::to(Segment::Untagged), frame);
        }
        ports.roce.flush();
        sent.store(ports.roce.counters().sent_frames, Relaxed);
        for port in [&mut ports.roce, &mut ports.rest] {
            let counted = port.receive(&mut |came| {
                answers += usize::from(came.frame.starts_with(&STRANGER.0));
                true
            });
            counted.unwrap();
        }
    }
    answers
}

#[test]
fn a_flood_is_counted_not_answered_and_survived() {
    if !enter("hosts::flood::a_flood_is_counted_not_answered_and_survived") {
        return;
    }
    let world = World::new(Medium::Raw);
    let clients = world.clients();
    let mut transfer = Transfer::begin(&clients, LONG);
    transfer.go_on(20);
    let frames = garbage(transfer.target());
    let (sent, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let enough = transfer.done() + WRITES;
    let answers = thread::scope(|scope| {
        let flooder = scope.spawn(|| flood(&frames, &sent, &stop));
        transfer.until(|transfer| sent.load(Relaxed) > FLOOD && transfer.done() > enough);
        stop.store(true, Relaxed);
        flooder.join().unwrap()
    });
    transfer.go_on(20);
    transfer.end();
    assert_eq!(answers, 0);
    let drops = world.daemons[1].roce().drops;
    for reason in [
        "truncated",
        "icrc",
        "other-station",
        "spoofed-gid",
        "spoofed-source",
        "unknown-adapter",
    ] {
        assert!(drops.contains_key(reason), "{reason}: {drops:?}");
    }
    let of_group = world.daemons[1].group_drops("blue").rdma;
    for reason in ["icrc", "unknown-adapter", "spoofed-gid", "unknown-qp"] {
        assert!(of_group.contains_key(reason), "{reason}: {of_group:?}");
    }
    let drops = world.daemons[1].adapter_drops("c1");
    for reason in ["unknown-qp", "wrong-pkey"] {
        assert!(drops.contains_key(reason), "{reason}: {drops:?}");
    }
}
