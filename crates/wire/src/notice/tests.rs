use core::net::{Ipv4Addr, Ipv6Addr};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::ethernet::Vlan;
use crate::{Addresses, FlowLabel, Mac, TrafficClass};

fn packet(addresses: Addresses, vlan: Option<Vlan>) -> NoticePacket {
    NoticePacket {
        path: Path {
            destination: Mac([2, 0, 0, 0, 0, 1]),
            source: Mac([2, 0, 0, 0, 0, 2]),
            vlan,
            addresses,
            traffic_class: TrafficClass(0),
            hop_limit: 64,
            source_port: NOTICE_PORT,
        },
        notice: Notice {
            kind: NoticeKind::Pause,
            gid: addresses.source(),
            epoch: 7,
            nonce: 0x0123_4567_89ab_cdef,
        },
    }
}

fn v4() -> Addresses {
    Addresses::V4 {
        source: Ipv4Addr::new(10, 0, 0, 2),
        destination: Ipv4Addr::new(10, 0, 0, 1),
        identification: 0,
    }
}

fn v6() -> Addresses {
    Addresses::V6 {
        source: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
        destination: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        flow_label: FlowLabel::default(),
    }
}

fn frame(packet: &NoticePacket) -> Vec<u8> {
    let mut buffer = [0xa5; NoticePacket::FRAME_MAX];
    let length = packet.emit(&mut buffer);
    buffer[..length].to_vec()
}

#[test]
fn a_notice_survives_its_way() {
    for addresses in [v4(), v6()] {
        for vlan in [None, Vlan::new(7)] {
            let sent = packet(addresses, vlan);
            let bytes = frame(&sent);
            assert_eq!(NoticePacket::parse(&bytes), Ok(sent));
            assert!(crate::is_for_adapters(&bytes) && !crate::is_roce(&bytes));
        }
    }
}

/// The bytes on the wire, which other versions of the daemon have to read.
#[test]
fn the_bytes_are_these() {
    let bytes = frame(&packet(v4(), None));
    assert_eq!(bytes.len(), 14 + 20 + 8 + 40);
    assert_eq!(bytes[34..40], [0x12, 0xbd, 0x12, 0xbd, 0, 48]);
    assert_eq!(bytes[42..50], *b"vRDN\x01\x01\0\0");
    assert_eq!(bytes[50..66], v4().source().0);
    assert_eq!(bytes[66..74], 7u64.to_be_bytes());
    assert_eq!(bytes[74..], 0x0123_4567_89ab_cdefu64.to_be_bytes());
}

/// Every changed bit is noticed, except in Ethernet, and in the part of IPv6 that routers change: no checksum covers
/// these.
#[test]
fn a_changed_bit_is_noticed() {
    for (addresses, from) in [(v4(), 14), (v6(), 22)] {
        let bytes = frame(&packet(addresses, None));
        for at in from..bytes.len() {
            for bit in 0..8 {
                let mut bent = bytes.clone();
                bent[at] ^= 1 << bit;
                assert!(
                    NoticePacket::parse(&bent).is_err(),
                    "bit {bit} of byte {at}"
                );
            }
        }
    }
}

#[test]
fn what_is_none_is_refused() {
    let bytes = frame(&packet(v4(), None));
    let refusal = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bent = bytes.clone();
        change(&mut bent);
        NoticePacket::parse(&bent).unwrap_err()
    };
    assert_eq!(refusal(&|it| it[37] = 0xbc), Refusal::OtherTraffic);
    assert_eq!(refusal(&|it| it.truncate(80)), Refusal::Truncated);
    assert_eq!(refusal(&|it| it[39] = 47), Refusal::UdpLength);
    assert_eq!(refusal(&|it| it[40..42].fill(0)), Refusal::UdpChecksum);
    assert_eq!(refusal(&|it| it[70] ^= 1), Refusal::UdpChecksum);
    for (at, other) in [(0, b'x'), (4, 2), (5, 0), (5, 8)] {
        let mut notice = [0; NoticeView::LEN];
        packet(v4(), None).notice.emit(&mut notice);
        notice[at] = other;
        assert!(Notice::parse(&notice).is_err());
    }
    assert_eq!(NoticeView::new(&[0; 39]), Err(Malformed::Short));
}

proptest! {
    #[test]
    fn every_notice_survives(gid: [u8; 16], epoch: u64, nonce: u64, kind in 0usize..7) {
        let mut sent = packet(v6(), None);
        sent.notice = Notice { kind: NoticeKind::ALL[kind], gid: Gid(gid), epoch, nonce };
        prop_assert_eq!(NoticePacket::parse(&frame(&sent)), Ok(sent));
    }

    #[test]
    fn any_bytes_are_a_notice_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = NoticePacket::parse(&bytes);
        if bytes.len() > 38 {
            bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
            bytes[23] = 17;
            bytes[36..38].copy_from_slice(&NOTICE_PORT.to_be_bytes());
            let _ = NoticePacket::parse(&bytes);
        }
    }
}
