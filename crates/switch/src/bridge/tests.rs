use alloc::vec;
use alloc::vec::Vec;

use vrdma_wire::Gid;

use super::*;
use crate::{MAX_MACS_PER_PORT, STATION_AGE_NS};

const BLUE: GroupId = GroupId(1);
const GREEN: GroupId = GroupId(2);
const ANN: PortId = PortId(1);
const BOB: PortId = PortId(2);
const CAT: PortId = PortId(3);
const EVE: PortId = PortId(4);
/// A station that was not configured.
const NESTED: Mac = Mac([2, 0, 0, 0, 0, 9]);

fn mac(port: PortId) -> Mac {
    Mac([0x52, 0x54, 0, 0, 0, port.0 as u8])
}

/// Three ports in one group and Eve in another.
fn bridge() -> Bridge {
    let mut bridge = Bridge::new();
    for (port, group) in [(ANN, BLUE), (BOB, BLUE), (CAT, BLUE), (EVE, GREEN)] {
        bridge.attach(port, group, mac(port)).unwrap();
    }
    bridge
}

fn frame(to: Mac, from: Mac) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&from.0);
    frame
}

/// Sends a frame; returns the ports that get it.
fn send(
    bridge: &mut Bridge,
    port: PortId,
    frame: &[u8],
    now: u64,
) -> Result<Vec<PortId>, DropReason> {
    match bridge.forward(port, frame, now) {
        Verdict::Deliver(recipients) => Ok(recipients.collect()),
        Verdict::Dropped(reason) => Err(reason),
    }
}

#[test]
fn configured_macs_are_known_without_learning() {
    let mut bridge = bridge();
    let sent = send(&mut bridge, ANN, &frame(mac(BOB), mac(ANN)), 0);
    assert_eq!(sent, Ok(vec![BOB]));
}

#[test]
fn a_pinned_port_speaks_for_nobody_else() {
    let mut bridge = bridge();
    let [five, seven] = [5, 7].map(|last| Gid::from_ipv4([10, 0, 0, last].into()));
    bridge.pin(ANN, Sources::Stated([five, seven].into()));
    let mut packet = frame(mac(BOB), mac(ANN));
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[26..30].copy_from_slice(&[10, 0, 0, 6]);
    let other = send(&mut bridge, ANN, &packet, 0);
    assert_eq!(other, Err(DropReason::OtherAddress));
    let nested = send(&mut bridge, ANN, &frame(mac(BOB), NESTED), 0);
    assert_eq!(nested, Err(DropReason::OtherAddress));
    for own in [5, 7] {
        packet[29] = own;
        assert_eq!(send(&mut bridge, ANN, &packet, 0), Ok(vec![BOB]));
    }
    bridge.pin(ANN, Sources::Stated([five].into()));
    let former = send(&mut bridge, ANN, &packet, 0);
    assert_eq!(former, Err(DropReason::OtherAddress));
    bridge.pin(ANN, Sources::Any);
    assert_eq!(send(&mut bridge, ANN, &packet, 0), Ok(vec![BOB]));
    packet[6..12].copy_from_slice(&mac(CAT).0);
    assert_eq!(send(&mut bridge, ANN, &packet, 0), Err(DropReason::Spoofed));
}

/// F12: a guest could forge packets of any adapter.
#[test]
fn roce_is_for_adapters_unless_it_is_allowed() {
    let mut bridge = bridge();
    let mut packet = frame(mac(BOB), mac(ANN));
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[23] = 17;
    packet[36..38].copy_from_slice(&4791u16.to_be_bytes());
    assert_eq!(send(&mut bridge, ANN, &packet, 0), Err(DropReason::Roce));
    assert_eq!(bridge.counts(ANN).unwrap().dropped(DropReason::Roce), 1);
    bridge.allow_roce(ANN);
    assert_eq!(send(&mut bridge, ANN, &packet, 0), Ok(vec![BOB]));
    bridge.detach(ANN);
    bridge.attach(ANN, BLUE, mac(ANN)).unwrap();
    let again = send(&mut bridge, ANN, &packet, 0);
    assert_eq!(again, Err(DropReason::Roce), "another adapter");
}

/// A guest could tell peers of others that they stand still, or are elsewhere.
#[test]
fn notices_are_for_daemons_whatever_is_allowed() {
    let mut bridge = bridge();
    let mut packet = frame(mac(BOB), mac(ANN));
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[23] = 17;
    packet[36..38].copy_from_slice(&vrdma_wire::NOTICE_PORT.to_be_bytes());
    let mut tagged = packet.clone();
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    for allowed in [false, true] {
        if allowed {
            bridge.allow_roce(ANN);
        }
        for frame in [&packet, &tagged] {
            assert_eq!(send(&mut bridge, ANN, frame, 0), Err(DropReason::Notice));
        }
    }
    assert_eq!(bridge.counts(ANN).unwrap().dropped(DropReason::Notice), 4);
    packet[37] ^= 1;
    assert_eq!(send(&mut bridge, ANN, &packet, 0), Ok(vec![BOB]));
}

/// A switch on the way may take tags off: behind any number of tags RoCEv2 could appear.
#[test]
fn roce_behind_tags_is_roce() {
    const TAGS: [[u8; 4]; 3] = [[0x81, 0, 0, 7], [0x88, 0xa8, 0, 7], [0x91, 0, 0, 7]];
    let mut bridge = bridge();
    let mut packet = frame(mac(BOB), mac(ANN));
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[23] = 17;
    packet[36..38].copy_from_slice(&4791u16.to_be_bytes());
    let mut plain = packet.clone();
    plain[37] ^= 1;
    for outer in TAGS {
        for tags in 1..=9 {
            let [mut roce, mut other] = [packet.clone(), plain.clone()];
            for _ in 1..tags {
                roce.splice(12..12, TAGS[0]);
                other.splice(12..12, TAGS[0]);
            }
            roce.splice(12..12, outer);
            other.splice(12..12, outer);
            let sent = send(&mut bridge, ANN, &roce, 0);
            assert_eq!(sent, Err(DropReason::Roce), "{tags}");
            let sent = send(&mut bridge, ANN, &other, 0);
            assert_eq!(sent.is_ok(), tags < 9, "{tags}");
        }
    }
}

#[test]
fn group_and_unknown_addresses_flood_the_group() {
    let mut bridge = bridge();
    let multicast = Mac([0x33, 0x33, 0, 0, 0, 1]);
    for to in [Mac::BROADCAST, multicast, NESTED, mac(EVE)] {
        let sent = send(&mut bridge, BOB, &frame(to, mac(BOB)), 0);
        assert_eq!(sent, Ok(vec![ANN, CAT]));
    }
    let alone = send(&mut bridge, EVE, &frame(Mac::BROADCAST, mac(EVE)), 0);
    assert_eq!(alone, Ok(vec![]));
}

#[test]
fn stations_are_learned_move_and_age() {
    let mut bridge = bridge();
    let hello = frame(Mac::BROADCAST, NESTED);
    let reply = frame(NESTED, mac(ANN));
    send(&mut bridge, BOB, &hello, 0).unwrap();
    assert_eq!(send(&mut bridge, ANN, &reply, 1), Ok(vec![BOB]));
    send(&mut bridge, CAT, &hello, 2).unwrap();
    assert_eq!(send(&mut bridge, ANN, &reply, 3), Ok(vec![CAT]));
    let old = 2 + STATION_AGE_NS;
    assert_eq!(send(&mut bridge, ANN, &reply, old - 1), Ok(vec![CAT]));
    assert_eq!(send(&mut bridge, ANN, &reply, old), Ok(vec![BOB, CAT]));
}

#[test]
fn what_was_behind_a_port_goes_with_it() {
    let mut bridge = bridge();
    send(&mut bridge, BOB, &frame(Mac::BROADCAST, NESTED), 0).unwrap();
    bridge.detach(BOB);
    let reply = frame(NESTED, mac(ANN));
    assert_eq!(send(&mut bridge, ANN, &reply, 1), Ok(vec![CAT]), "flooded");
    let gone = send(&mut bridge, BOB, &reply, 1);
    assert_eq!(gone, Err(DropReason::Detached));
    assert_eq!(bridge.counts(BOB), None);
    assert_eq!(bridge.stations.learned(), 0);
}

#[test]
fn nobody_sends_from_anothers_configured_mac() {
    let mut bridge = bridge();
    let spoofed = frame(Mac::BROADCAST, mac(ANN));
    assert_eq!(
        send(&mut bridge, BOB, &spoofed, 0),
        Err(DropReason::Spoofed)
    );
    let sent = send(&mut bridge, CAT, &frame(mac(ANN), mac(CAT)), 1);
    assert_eq!(sent, Ok(vec![ANN]));
    let elsewhere = send(&mut bridge, EVE, &spoofed, 2);
    assert_eq!(elsewhere, Ok(vec![]), "another group may use it");
}

#[test]
fn configuring_a_mac_overrides_what_was_learned() {
    let mut bridge = bridge();
    let newcomer = PortId(9);
    send(&mut bridge, BOB, &frame(Mac::BROADCAST, NESTED), 0).unwrap();
    bridge.attach(newcomer, BLUE, NESTED).unwrap();
    let sent = send(&mut bridge, ANN, &frame(NESTED, mac(ANN)), 1);
    assert_eq!(sent, Ok(vec![newcomer]));
    bridge.detach(newcomer);
    let sent = send(&mut bridge, ANN, &frame(NESTED, mac(ANN)), 2);
    assert_eq!(sent, Ok(vec![BOB, CAT]), "what was learned stays forgotten");
}

#[test]
fn malformed_frames_are_dropped_and_counted() {
    let mut bridge = bridge();
    let huge = vec![0; MAX_FRAME + 1];
    let good = frame(mac(BOB), mac(ANN));
    let lldp = Mac([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    let cases: [(&[u8], DropReason); 7] = [
        (&[], DropReason::Runt),
        (&good[..13], DropReason::Runt),
        (&huge, DropReason::Oversize),
        (&frame(mac(BOB), Mac::BROADCAST), DropReason::BadSource),
        (&frame(mac(BOB), Mac::default()), DropReason::BadSource),
        (&frame(lldp, mac(ANN)), DropReason::Reserved),
        (&frame(mac(ANN), mac(ANN)), DropReason::Returning),
    ];
    for (frame, reason) in cases {
        let before = bridge.counts(ANN).unwrap().dropped(reason);
        assert_eq!(send(&mut bridge, ANN, frame, 0), Err(reason));
        assert_eq!(bridge.counts(ANN).unwrap().dropped(reason), before + 1);
    }
    assert_eq!(send(&mut bridge, ANN, &good[..14], 0), Ok(vec![BOB]));
    assert_eq!(bridge.counts(ANN).unwrap().received.frames, 8);
}

#[test]
fn a_frame_between_two_stations_behind_one_port_does_not_return() {
    let mut bridge = bridge();
    send(&mut bridge, BOB, &frame(Mac::BROADCAST, NESTED), 0).unwrap();
    let sent = send(&mut bridge, BOB, &frame(NESTED, mac(BOB)), 1);
    assert_eq!(sent, Err(DropReason::Returning));
}

#[test]
fn invented_addresses_fill_only_their_own_share() {
    let mut bridge = bridge();
    let invented = |number: u32| {
        let [a, b, c, d] = number.to_be_bytes();
        frame(Mac::BROADCAST, Mac([2, 1, a, b, c, d]))
    };
    for number in 0..2000 {
        send(&mut bridge, BOB, &invented(number), 0).unwrap();
    }
    assert_eq!(bridge.stations.learned(), MAX_MACS_PER_PORT);
    send(&mut bridge, CAT, &frame(Mac::BROADCAST, NESTED), 1).unwrap();
    let sent = send(&mut bridge, ANN, &frame(NESTED, mac(ANN)), 2);
    assert_eq!(sent, Ok(vec![CAT]), "Cat's share has room");

    send(&mut bridge, BOB, &frame(Mac::BROADCAST, NESTED), 3).unwrap();
    let sent = send(&mut bridge, ANN, &frame(NESTED, mac(ANN)), 4);
    assert_eq!(sent, Ok(vec![CAT]), "a full share takes nothing over");

    let later = 10 + STATION_AGE_NS;
    send(&mut bridge, BOB, &invented(5000), later).unwrap();
    assert_eq!(bridge.stations.learned(), 2, "aged ones made room");
}

#[test]
fn frames_and_bytes_are_counted_both_ways() {
    let mut bridge = bridge();
    send(&mut bridge, ANN, &frame(Mac::BROADCAST, mac(ANN)), 0).unwrap();
    send(&mut bridge, ANN, &frame(mac(BOB), mac(ANN)), 0).unwrap();
    bridge.not_taken(BOB, 60);
    bridge.not_taken(PortId(99), 60);
    let counts = |port| bridge.counts(port).unwrap();
    let frames = |frames, bytes| FrameCounts { frames, bytes };
    assert_eq!(counts(ANN).received, frames(2, 120));
    assert_eq!(counts(ANN).sent, frames(0, 0));
    assert_eq!(counts(BOB).sent, frames(1, 60));
    assert_eq!(counts(BOB).dropped(DropReason::Congested), 1);
    assert_eq!(counts(CAT).sent, frames(1, 60));
    assert_eq!(counts(EVE), PortCounts::default());
    for (place, reason) in DropReason::ALL.into_iter().enumerate() {
        assert_eq!(place, reason as usize);
    }
}
