use core::net::Ipv6Addr;

use vrdma_wire::Mac;

use super::*;
use crate::fabric::Kept;
use crate::{BindError, GroupId, NoRoute};

const BLUE: GroupId = GroupId(1);
const GREEN: GroupId = GroupId(2);
const ANN: PortId = PortId(1);
const BOB: PortId = PortId(2);
const EVE: PortId = PortId(3);
const PINNED: Result<(), BindError> = Err(BindError::Pinned);

fn mac(port: PortId) -> Mac {
    Mac([0x52, 0x54, 0, 0, 0, port.0 as u8])
}

fn v4(last: u8) -> Gid {
    Gid::from_ipv4([10, 0, 0, last].into())
}

fn v6(text: &str) -> Gid {
    Gid(text.parse::<Ipv6Addr>().unwrap().octets())
}

/// Ann and Bob in one group, Eve in another; Ann and Eve learn.
fn fabric() -> Fabric {
    let mut fabric = Fabric::new();
    for (port, group) in [(ANN, BLUE), (BOB, BLUE), (EVE, GREEN)] {
        fabric.attach(port, group, mac(port)).unwrap();
    }
    fabric.keep(ANN, &Kept::Learned);
    fabric.keep(EVE, &Kept::Learned);
    fabric
}

#[test]
fn the_first_address_of_each_family_is_the_only_one() {
    let mut fabric = fabric();
    let (five, six) = (v6("fd00::5"), v6("fd00::6"));
    let own = Gid::link_local(mac(ANN));
    for gid in [own, v4(5), five, v4(5)] {
        assert_eq!(fabric.bind_gid(ANN, gid), Ok(()));
    }
    for gid in [v4(6), six] {
        assert_eq!(fabric.bind_gid(ANN, gid), PINNED);
        assert!(!fabric.may_learn(ANN, gid));
    }
    fabric.clear_gids(ANN);
    assert_eq!(
        fabric.bind_gid(ANN, v4(6)),
        PINNED,
        "a reset forgets nothing"
    );
    assert_eq!(fabric.learn(ANN, v4(6)), Some(v4(5)));
    assert_eq!(fabric.learn(ANN, v4(5)), Some(v4(5)));
    let learned: alloc::vec::Vec<_> = fabric.learned(ANN).collect();
    assert_eq!(learned, [v4(5), five]);
}

#[test]
fn what_ethernet_has_learned_counts_for_gids() {
    let mut fabric = fabric();
    let epoch = fabric.epoch();
    assert_eq!(fabric.learned_beside(ANN, v4(5)), None);
    assert!(fabric.may_learn(ANN, v4(5)));
    assert_eq!(fabric.learn(ANN, v4(5)), Some(v4(5)));
    assert_ne!(fabric.epoch(), epoch, "nobody outside may send from it now");
    assert_eq!(fabric.bind_gid(ANN, v4(6)), PINNED);
    assert_eq!(fabric.bind_gid(ANN, v4(5)), Ok(()));
    assert_eq!(fabric.learn(ANN, v6("fd00::5")), Some(v6("fd00::5")));
}

#[test]
fn nobody_learns_what_another_has() {
    let mut fabric = fabric();
    fabric.bind_gid(BOB, v4(1)).unwrap();
    let taken = Err(BindError::Taken { by: BOB });
    assert_eq!(fabric.bind_gid(ANN, v4(1)), taken);
    assert_eq!(fabric.learn(ANN, v4(1)), None);
    fabric.keep(BOB, &Kept::Learned);
    assert_eq!(fabric.learn(ANN, v4(1)), None, "what was bound is learned");
    assert_eq!(fabric.learn(ANN, v4(2)), Some(v4(2)));
    let taken = Err(BindError::Taken { by: ANN });
    fabric.keep(BOB, &Kept::Learned);
    fabric.clear_gids(BOB);
    fabric.keep(BOB, &Kept::Learned);
    assert_eq!(fabric.bind_gid(BOB, v4(2)), taken);
    assert_eq!(fabric.learn(BOB, v4(2)), None);
    assert_eq!(fabric.learn(BOB, v4(3)), Some(v4(3)));
    assert_eq!(fabric.learn(EVE, v4(2)), Some(v4(2)), "of another group");
    fabric.detach(ANN);
    fabric.keep(BOB, &Kept::Learned);
    assert_eq!(fabric.learn(BOB, v4(2)), Some(v4(2)));
}

#[test]
fn nobody_outside_sends_from_what_was_learned() {
    let mut fabric = fabric();
    fabric.bind_gid(BOB, v4(2)).unwrap();
    assert_eq!(fabric.arrive(BLUE, v4(5), v4(2)), Ok(BOB));
    fabric.learn(ANN, v4(5));
    assert_eq!(fabric.arrive(BLUE, v4(5), v4(2)), Err(NoRoute::Spoofed));
}

#[test]
fn addresses_that_are_no_host_s_are_not_learned() {
    let mut fabric = fabric();
    let none = [
        "::1",
        "fe80::7",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:224.0.0.1",
        "::ffff:0.0.0.0",
        "::ffff:255.255.255.255",
    ];
    for text in none {
        assert_eq!(fabric.learn(ANN, v6(text)), None, "{text}");
        assert!(fabric.bind_gid(ANN, v6(text)).is_err(), "{text}");
    }
    assert_eq!(fabric.learned(ANN).count(), 0);
    assert_eq!(fabric.learn(BOB, v4(5)), None, "Bob learns nothing");
}

#[test]
fn a_new_guest_learns_anew() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, v4(5)).unwrap();
    let epoch = fabric.epoch();
    fabric.forget_learned(ANN);
    assert_ne!(fabric.epoch(), epoch, "who kept it looks again");
    assert_eq!(fabric.gids(ANN).count(), 0);
    assert_eq!(fabric.learn(BOB, v4(5)), None);
    assert_eq!(fabric.bind_gid(BOB, v4(5)), Ok(()), "it is free");
    assert_eq!(fabric.learn(ANN, v4(6)), Some(v4(6)));
    fabric.forget_learned(BOB);
    assert_eq!(fabric.gids(BOB).count(), 1, "Bob does not learn");
}

#[test]
fn one_that_is_told_to_learn_has_what_it_uses() {
    let mut fabric = fabric();
    let own = Gid::link_local(mac(BOB));
    for gid in [own, v4(3), v4(2), v6("fd00::2")] {
        fabric.bind_gid(BOB, gid).unwrap();
    }
    fabric.keep(BOB, &Kept::Learned);
    let bound: alloc::vec::Vec<_> = fabric.gids(BOB).collect();
    assert_eq!(bound, [v4(2), v6("fd00::2"), own]);
    fabric.keep(BOB, &Kept::Any);
    assert_eq!(fabric.bind_gid(BOB, v4(3)), Ok(()));
    assert_eq!(fabric.learned(BOB).count(), 0);
}

#[test]
fn what_is_stated_for_another_is_not_the_learner_s_any_more() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, v4(5)).unwrap();
    fabric.keep(BOB, &Kept::Stated([v4(5)].into()));
    assert_eq!(fabric.gids(ANN).count(), 0);
    assert_eq!(fabric.learn(ANN, v4(5)), None);
    assert_eq!(fabric.learn(ANN, v4(6)), Some(v4(6)));
    fabric.keep(ANN, &Kept::Any);
    let taken = Err(BindError::Taken { by: BOB });
    assert_eq!(fabric.bind_gid(ANN, v4(5)), taken, "it stays Bob's");
}

#[test]
fn one_that_is_away_learns_nothing_until_it_comes_back() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, v4(5)).unwrap();
    fabric.set_away(ANN, true);
    assert_eq!(fabric.learn(ANN, v4(5)), None);
    fabric.bind_gid(BOB, v4(2)).unwrap();
    assert_eq!(
        fabric.arrive(BLUE, v4(5), v4(2)),
        Ok(BOB),
        "from its new place"
    );
    fabric.set_away(ANN, false);
    assert_eq!(fabric.bind_gid(ANN, v4(6)), Ok(()));
    assert_eq!(fabric.learn(ANN, v4(5)), Some(v4(6)));
}
