use alloc::vec::Vec;
use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const BLUE: GroupId = GroupId(1);
const GREEN: GroupId = GroupId(2);
const ANN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const BOB: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn at(mac: Mac) -> Neighbour {
    let uplink = UplinkId(0);
    Neighbour { mac, uplink }
}

fn gid(number: u32) -> Gid {
    let [_, a, b, c] = number.to_be_bytes();
    Gid::from_ipv4(Ipv4Addr::new(10, a, b, c))
}

fn arp(source: Mac, said: Mac, address: [u8; 4]) -> Vec<u8> {
    let mut frame = [Mac::BROADCAST.0, source.0].concat();
    frame.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(said.0);
    frame.extend(address);
    frame.extend([0; 28]);
    frame
}

fn advertisement(source: Mac, hop_limit: u8) -> Vec<u8> {
    let mut frame = [[0x33, 0x33, 0, 0, 0, 1], source.0].concat();
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 24, 58, hop_limit]);
    frame.extend(Gid::link_local(source).0);
    frame.extend(Gid::link_local(ANN).0);
    frame.extend([136; 24]);
    frame
}

#[test]
fn what_was_heard_is_known_until_it_ages() {
    let mut table = Neighbours::new();
    assert!(table.hear(BLUE, gid(1), at(ANN), 0));
    assert!(!table.hear(BLUE, gid(1), at(ANN), 5));
    assert_eq!(table.find(BLUE, gid(1), 6), Some(at(ANN)));
    assert_eq!(table.find(GREEN, gid(1), 6), None, "another tenant's");
    assert_eq!(table.find(BLUE, gid(1), 5 + NEIGHBOUR_AGE_NS), None);
    table.forget_behind(UplinkId(1));
    assert_eq!(table.find(BLUE, gid(1), 6), Some(at(ANN)));
    assert!(!table.lose(GREEN, gid(1)) && !table.lose(BLUE, gid(3)));
    assert!(table.lose(BLUE, gid(1)));
    assert_eq!(table.find(BLUE, gid(1), 6), None, "it is elsewhere");
    assert!(table.hear(BLUE, gid(1), at(ANN), 6));
    assert!(table.hear(BLUE, gid(1), at(BOB), 7), "it has moved");
    assert!(!table.guess(BLUE, gid(1), at(ANN), 8));
    assert_eq!(
        table.find(BLUE, gid(1), 8),
        Some(at(BOB)),
        "only said in a packet"
    );
    assert!(table.guess(BLUE, gid(2), at(ANN), 8));
    assert_eq!(
        table.find(BLUE, gid(2), 8),
        Some(at(ANN)),
        "better than nothing"
    );
    table.forget_behind(UplinkId(0));
    assert_eq!(table.find(BLUE, gid(1), 8), None);
    table.guess(BLUE, gid(1), at(ANN), 8 + NEIGHBOUR_AGE_NS);
    assert_eq!(
        table.find(BLUE, gid(1), 8 + NEIGHBOUR_AGE_NS),
        Some(at(ANN))
    );
    table.forget(BLUE);
    assert_eq!(table.find(BLUE, gid(1), 8), None);
}

#[test]
fn invented_addresses_fill_only_their_own_network() {
    let mut table = Neighbours::new();
    for number in 0..2 * NEIGHBOURS_MAX as u32 {
        table.hear(BLUE, gid(number), at(ANN), 0);
    }
    assert_eq!(table.networks[&BLUE].neighbours.len(), NEIGHBOURS_MAX);
    assert!(!table.hear(BLUE, gid(1 << 20), at(ANN), 1));
    assert!(table.hear(GREEN, gid(1 << 20), at(ANN), 1));
    let later = NEIGHBOUR_AGE_NS + SEARCH_INTERVAL_NS;
    assert!(table.hear(BLUE, gid(1 << 20), at(ANN), later));
    assert_eq!(table.networks[&BLUE].neighbours.len(), 1);
}

#[test]
fn senders_speak_for_themselves() {
    let ip = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 7));
    assert_eq!(sender(&arp(ANN, ANN, [10, 0, 0, 7])), Some((ip, ANN)));
    assert_eq!(sender(&arp(ANN, BOB, [10, 0, 0, 7])), None);
    for nobody in [[0; 4], [255; 4], [224, 0, 0, 1]] {
        assert_eq!(sender(&arp(ANN, ANN, nobody)), None);
    }
    let own = Gid::link_local(BOB);
    assert_eq!(sender(&advertisement(BOB, 255)), Some((own, BOB)));
    assert_eq!(
        sender(&advertisement(BOB, 64)),
        None,
        "from beyond a router"
    );
}

proptest! {
    #[test]
    fn any_frame_has_one_sender_or_none(bytes in prop::collection::vec(any::<u8>(), 0..90)) {
        if let Some((gid, mac)) = sender(&bytes) {
            prop_assert!(!gid.is_multicast() && !mac.is_group());
        }
    }
}

/// F12: once a neighbour has said where it is, nobody can speak for it from elsewhere.
#[test]
fn what_was_said_holds_and_what_was_guessed_does_not() {
    let mut table = Neighbours::new();
    let (group, gid) = (GroupId(1), Gid::from_ipv4([10, 0, 0, 1].into()));
    let [own, other] = [1, 2].map(|last| Mac([2, 0, 0, 0, 0, last]));
    let at = |mac| Neighbour {
        mac,
        uplink: UplinkId(0),
    };
    table.guess(group, gid, at(other), 0);
    assert!(!table.contradicts(group, gid, own, 0), "a guess");
    table.hear(group, gid, at(own), 1);
    table.guess(group, gid, at(other), 2);
    table.guess(group, gid, at(own), 2);
    assert!(table.contradicts(group, gid, other, 3));
    assert!(!table.contradicts(group, gid, own, 3));
    let aged = 2 + NEIGHBOUR_AGE_NS;
    assert!(!table.contradicts(group, gid, other, aged));
    table.hear(group, gid, at(other), aged);
    assert!(table.contradicts(group, gid, own, aged), "it has moved");
}
