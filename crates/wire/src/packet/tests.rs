use super::*;
use crate::address::Mac;
use crate::aeth::{Aeth, Credits, Msn, Syndrome};
use crate::builder::{MAX_FRAME, PacketBuilder};
use crate::ethernet::Vlan;
use crate::field::put;
use crate::ip::{TrafficClass, internet_checksum};
use crate::ipv6::FlowLabel;
use crate::number::{Psn, Qpn};
use crate::opcode::Opcode;
use crate::path::Addresses;

const PATH: Path = Path {
    destination: Mac([2, 0, 0, 0, 0, 1]),
    source: Mac([2, 0, 0, 0, 0, 2]),
    vlan: None,
    addresses: Addresses::V4 {
        source: core::net::Ipv4Addr::new(10, 0, 0, 2),
        destination: core::net::Ipv4Addr::new(10, 0, 0, 1),
        identification: 7,
    },
    traffic_class: TrafficClass(2),
    hop_limit: 64,
    source_port: 0xc001,
};

const IP: usize = 14;
const UDP: usize = IP + 20;
const BTH: usize = UDP + 8;

struct Frame {
    bytes: [u8; MAX_FRAME],
    len: usize,
}

impl Frame {
    fn new(path: &Path, opcode: Opcode, extension: Extension, payload: &[u8]) -> Self {
        let bth = Bth::new(opcode, Qpn::from_low_bits(0x11), Psn::new(5));
        let transport = Transport::new(bth, extension).unwrap();
        let mut bytes = [0; MAX_FRAME];
        let mut builder = PacketBuilder::new(path, &transport, payload.len(), &mut bytes).unwrap();
        builder.push(payload);
        let len = builder.finish().len();
        Self { bytes, len }
    }

    fn send(payload: &[u8]) -> Self {
        Self::new(&PATH, Opcode::RC_SEND_ONLY, Extension::Nothing, payload)
    }

    fn ack() -> Self {
        let aeth = Aeth {
            syndrome: Syndrome::Ack(Credits::UNLIMITED),
            msn: Msn::new(1),
        };
        Self::new(&PATH, Opcode::RC_ACKNOWLEDGE, Extension::Ack(aeth), &[])
    }

    /// Changes one byte and corrects the IPv4 checksum, but not the ICRC.
    fn with(mut self, at: usize, byte: u8) -> Self {
        self.bytes[at] = byte;
        put(&mut self.bytes, IP + 10, [0, 0]);
        let checksum = internet_checksum(&self.bytes[IP..UDP]);
        put(&mut self.bytes, IP + 10, checksum.to_be_bytes());
        self
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn refusal(&self) -> Option<Refusal> {
        Packet::parse(self.as_bytes()).err()
    }
}

#[test]
fn a_packet_shows_its_parts() {
    let frame = Frame::send(b"hello");
    let packet = Packet::parse(frame.as_bytes()).unwrap();
    assert_eq!(packet.path(), PATH);
    assert_eq!(packet.bth().opcode, Opcode::RC_SEND_ONLY);
    assert_eq!(packet.payload(), b"hello");
    assert_eq!(packet.padding(), [0; 3]);
    assert_eq!(packet.bth().pad.get(), 3);
    assert_eq!(packet.sgid(), Gid::from_ipv4([10, 0, 0, 2].into()));
    assert!(!packet.met_congestion());
}

#[test]
fn the_icrc_can_follow_the_payload() {
    let frame = Frame::send(b"hello");
    let packet = Packet::dissect(frame.as_bytes()).unwrap();
    let (mut icrc, mut copy) = (packet.begin_icrc(), [0; 5]);
    icrc.update_copy(packet.payload(), &mut copy);
    icrc.update(packet.padding());
    assert_eq!((&copy, icrc.finish()), (b"hello", packet.icrc()));
}

/// Routers may change these fields without breaking the ICRC (annex A17.3).
#[test]
fn marks_and_hops_do_not_spoil_the_icrc() {
    let frame = Frame::send(b"hello").with(IP + 1, 3).with(IP + 8, 1);
    let packet = Packet::parse(frame.as_bytes()).unwrap();
    assert!(packet.met_congestion());
    let marked = Frame::send(b"hello").with(BTH + 4, 0x40);
    assert!(Packet::parse(marked.as_bytes()).unwrap().bth().becn);
}

#[test]
fn ethernet_padding_is_not_payload() {
    let mut frame = Frame::send(&[]);
    frame.len += 2;
    let packet = Packet::parse(frame.as_bytes()).unwrap();
    assert_eq!(packet.payload(), []);
}

#[test]
fn vlan_and_ipv6_are_taken_apart() {
    let path = Path {
        vlan: Vlan::new(5),
        addresses: Addresses::between(
            Gid::link_local(PATH.source),
            Gid::link_local(PATH.destination),
            FlowLabel::new(0x12345),
        )
        .unwrap(),
        ..PATH
    };
    let frame = Frame::new(&path, Opcode::RC_SEND_ONLY, Extension::Nothing, b"six");
    assert_eq!(Packet::parse(frame.as_bytes()).unwrap().path(), path);
}

#[test]
fn addresses_of_two_versions_do_not_meet() {
    let (v4, v6) = (
        Gid::from_ipv4([10, 0, 0, 1].into()),
        Gid::link_local(PATH.source),
    );
    assert_eq!(Addresses::between(v4, v6, FlowLabel::default()), None);
    assert_eq!(Addresses::between(v6, v4, FlowLabel::default()), None);
}

/// Frames of other traffic are not counted as broken, however odd they are.
#[test]
fn other_traffic_is_let_through() {
    let send = || Frame::send(b"hello");
    for (at, byte) in [(12, 9), (IP + 9, 6), (UDP + 3, 0xb8), (IP + 7, 1)] {
        assert_eq!(
            send().with(at, byte).refusal(),
            Some(Refusal::OtherTraffic),
            "byte {at}"
        );
    }
    let strange_length = send().with(UDP + 3, 0xb8).with(UDP + 5, 3);
    assert_eq!(strange_length.refusal(), Some(Refusal::OtherTraffic));
}

#[test]
fn each_fault_has_its_reason() {
    for (at, byte, reason) in [
        (IP, 0x55, Refusal::IpHeader),
        (IP, 0x44, Refusal::IpHeader),
        (IP + 3, 10, Refusal::IpHeader),
        (IP + 2, 9, Refusal::Truncated),
        (IP + 6, 0x20, Refusal::IpFeature),
        (IP + 12, 0xe0, Refusal::SpoofedSource),
        (UDP + 5, 12, Refusal::UdpLength),
        (UDP + 4, 1, Refusal::UdpLength),
        (UDP + 5, 3, Refusal::UdpLength),
        (BTH + 1, 0x31, Refusal::BthVersion),
        (BTH, 0x1f, Refusal::Opcode),
        (BTH, 0xc0, Refusal::Opcode),
        (BTH, 0x14, Refusal::Truncated),
        (BTH, 0x11, Refusal::UnexpectedPayload),
        (BTH + 1, 0x20, Refusal::Icrc),
        (BTH + 12, b'j', Refusal::Icrc),
        (BTH + 24 - 1, 0, Refusal::Icrc),
    ] {
        let frame = Frame::send(b"hello").with(at, byte);
        assert_eq!(frame.refusal(), Some(reason), "byte {at} is {byte:#x}");
    }
}

#[test]
fn a_wrong_ip_checksum_is_seen() {
    let mut frame = Frame::send(b"hello");
    frame.bytes[IP + 8] -= 1;
    assert_eq!(frame.refusal(), Some(Refusal::IpChecksum));
}

/// IBTA 9.2: padding makes the payload a multiple of four bytes and is shorter than the payload.
#[test]
fn padding_must_fit() {
    let more_than_payload = Frame::send(&[]).with(BTH + 1, 0x10);
    assert_eq!(more_than_payload.refusal(), Some(Refusal::Padding));
    let pad_in_ack = Frame::ack().with(BTH + 1, 0x10);
    assert_eq!(pad_in_ack.refusal(), Some(Refusal::Padding));
    let mut odd = Frame::send(b"four").with(IP + 3, 47).with(UDP + 5, 27);
    odd.len -= 1;
    assert_eq!(odd.refusal(), Some(Refusal::Padding));
}

#[test]
fn no_packet_is_larger_than_the_largest_mtu() {
    let payload = [0x5a; MAX_PAYLOAD];
    assert_eq!(Frame::send(&payload).refusal(), None);
    let mut frame = Frame::send(&payload);
    let lengths = [(IP + 2, 20 + 8), (UDP + 4, 8)];
    for (at, headers) in lengths {
        let len = (headers + 12 + MAX_PAYLOAD + 4 + 4) as u16;
        put(&mut frame.bytes, at, len.to_be_bytes());
    }
    frame.len += 4;
    assert_eq!(frame.with(0, 2).refusal(), Some(Refusal::Oversized));
}

#[test]
fn a_frame_cut_anywhere_is_refused() {
    let frame = Frame::ack();
    for len in 0..frame.len {
        let refusal = Packet::parse(&frame.as_bytes()[..len]).unwrap_err();
        assert_eq!(refusal, Refusal::Truncated, "{len} bytes");
    }
}
