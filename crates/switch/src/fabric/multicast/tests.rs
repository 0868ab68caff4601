use alloc::vec::Vec;
use core::net::Ipv4Addr;

use vrdma_wire::Mac;

use super::*;

const BLUE: GroupId = GroupId(1);
const GREEN: GroupId = GroupId(2);
const ANN: PortId = PortId(1);
const BOB: PortId = PortId(2);
const EVE: PortId = PortId(3);

fn gid(last: u8) -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, last))
}

fn song(last: u8) -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(239, 0, 0, last))
}

fn numbered(number: u16) -> Gid {
    let mut gid = Gid([0xff; 16]);
    gid.0[14..].copy_from_slice(&number.to_be_bytes());
    gid
}

/// Ann and Bob in one group, Eve in another; all listen to the first song.
fn fabric() -> Fabric {
    let mut fabric = Fabric::new();
    for (port, group) in [(ANN, BLUE), (BOB, BLUE), (EVE, GREEN)] {
        let mac = Mac([0x52, 0x54, 0, 0, 0, port.0 as u8]);
        fabric.attach(port, group, mac).unwrap();
        fabric.bind_gid(port, gid(port.0 as u8)).unwrap();
        fabric.listen(port, [song(1), song(1)]).unwrap();
    }
    fabric
}

fn heard(fabric: &Fabric, port: PortId, to: Gid) -> Vec<PortId> {
    let ports = fabric.hear(port, gid(port.0 as u8), to);
    ports.unwrap().collect()
}

#[test]
fn a_datagram_reaches_the_listeners_of_the_group() {
    let mut fabric = fabric();
    assert_eq!(heard(&fabric, ANN, song(1)), [ANN, BOB]);
    assert_eq!(heard(&fabric, EVE, song(1)), [EVE]);
    assert_eq!(heard(&fabric, ANN, song(2)), []);
    fabric.listen(BOB, [song(2), song(3)]).unwrap();
    assert_eq!(heard(&fabric, ANN, song(1)), [ANN]);
    assert_eq!(heard(&fabric, ANN, song(3)), [BOB]);
    fabric.listen(BOB, []).unwrap();
    assert_eq!(heard(&fabric, ANN, song(3)), []);
}

#[test]
fn a_port_that_goes_hears_nothing_any_more() {
    let mut fabric = fabric();
    fabric.detach(BOB);
    assert_eq!(heard(&fabric, ANN, song(1)), [ANN]);
    assert!(fabric.hear(BOB, gid(2), song(1)).is_err());
    let mac = Mac([0x52, 0x54, 0, 0, 0, 2]);
    fabric.attach(BOB, BLUE, mac).unwrap();
    assert_eq!(heard(&fabric, ANN, song(1)), [ANN]);
}

#[test]
fn nobody_speaks_in_anothers_name() {
    let fabric = fabric();
    let spoofed = fabric.hear(ANN, gid(2), song(1)).err();
    assert_eq!(spoofed, Some(NoRoute::SourceNotBound));
    let spoofed = fabric.hear_from_wire(BLUE, gid(1), song(1)).err();
    assert_eq!(spoofed, Some(NoRoute::Spoofed));
    let heard = fabric.hear_from_wire(BLUE, gid(3), song(1)).unwrap();
    assert_eq!(heard.collect::<Vec<_>>(), [ANN, BOB]);
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut fabric = fabric();
    let refused = fabric.listen(BOB, [song(2), gid(7)]);
    assert_eq!(refused, Err(JoinError::NotMulticast));
    let many = |count: usize| (0..count as u16).map(numbered);
    let refused = fabric.listen(BOB, many(MAX_MULTICAST_PER_PORT + 1));
    assert_eq!(refused, Err(JoinError::TooMany));
    assert_eq!(fabric.listen(PortId(9), []), Err(JoinError::Detached));
    assert_eq!(heard(&fabric, ANN, song(1)), [ANN, BOB]);
    assert_eq!(fabric.listen(BOB, many(MAX_MULTICAST_PER_PORT)), Ok(()));
}
