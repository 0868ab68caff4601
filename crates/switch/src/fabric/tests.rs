use core::net::Ipv4Addr;

use super::*;
use crate::Untaken;

const BLUE: GroupId = GroupId(1);
const GREEN: GroupId = GroupId(2);
const ANN: PortId = PortId(1);
const BOB: PortId = PortId(2);
const EVE: PortId = PortId(3);

fn mac(port: PortId) -> Mac {
    Mac([0x52, 0x54, 0, 0, 0, port.0 as u8])
}

fn gid(last: u8) -> Gid {
    Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, last))
}

fn stated<const N: usize>(gids: [Gid; N]) -> Kept {
    Kept::Stated(gids.into())
}

/// Ann and Bob in one group, Eve in another.
fn fabric() -> Fabric {
    let mut fabric = Fabric::new();
    for (port, group) in [(ANN, BLUE), (BOB, BLUE), (EVE, GREEN)] {
        fabric.attach(port, group, mac(port)).unwrap();
    }
    fabric
}

#[test]
fn messages_go_where_the_gid_is_bound() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    fabric.bind_gid(BOB, gid(2)).unwrap();
    assert_eq!(fabric.route(ANN, gid(1), gid(2)), Ok(Way::Port(BOB)));
    assert_eq!(fabric.route(BOB, gid(2), gid(1)), Ok(Way::Port(ANN)));
    assert_eq!(
        fabric.route(ANN, gid(1), gid(1)),
        Ok(Way::Port(ANN)),
        "to itself"
    );
    fabric.unbind_gid(BOB, gid(2));
    assert_eq!(fabric.route(ANN, gid(1), gid(2)), Err(NoRoute::Unknown));
}

#[test]
fn nobody_sends_in_anothers_name() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    fabric.bind_gid(BOB, gid(2)).unwrap();
    let spoofed = fabric.route(ANN, gid(2), gid(1));
    assert_eq!(spoofed, Err(NoRoute::SourceNotBound));
    let detached = fabric.route(PortId(9), gid(1), gid(2));
    assert_eq!(detached, Err(NoRoute::Detached));
    assert_eq!(fabric.bind_gid(PortId(9), gid(9)), Err(BindError::Detached));
}

#[test]
fn tenants_may_use_the_same_gids_and_do_not_meet() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    fabric.bind_gid(BOB, gid(2)).unwrap();
    fabric.bind_gid(EVE, gid(1)).unwrap();
    assert_eq!(fabric.route(EVE, gid(1), gid(2)), Err(NoRoute::Isolated));
    assert_eq!(fabric.route(BOB, gid(2), gid(1)), Ok(Way::Port(ANN)));
    assert_eq!(fabric.route(EVE, gid(1), gid(1)), Ok(Way::Port(EVE)));
    fabric.detach(ANN);
    assert_eq!(fabric.route(BOB, gid(2), gid(1)), Err(NoRoute::Isolated));
}

#[test]
fn a_gid_has_one_owner_in_a_group() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    let taken = fabric.bind_gid(BOB, gid(1));
    assert_eq!(taken, Err(BindError::Taken { by: ANN }));
    fabric.unbind_gid(BOB, gid(1));
    assert_eq!(
        fabric.route(ANN, gid(1), gid(1)),
        Ok(Way::Port(ANN)),
        "still Ann's"
    );
    fabric.clear_gids(ANN);
    fabric.bind_gid(BOB, gid(1)).unwrap();
}

#[test]
fn a_gid_bound_twice_must_be_unbound_twice() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    fabric.unbind_gid(ANN, gid(1));
    assert_eq!(fabric.route(ANN, gid(1), gid(1)), Ok(Way::Port(ANN)));
    fabric.unbind_gid(ANN, gid(1));
    assert_eq!(fabric.gids(ANN).count(), 0);
}

#[test]
fn link_local_gids_follow_the_configured_mac() {
    let mut fabric = fabric();
    let (anns, late) = (Gid::link_local(mac(ANN)), Gid::link_local(mac(PortId(4))));
    assert_eq!(
        fabric.bind_gid(BOB, anns),
        Err(BindError::Taken { by: ANN })
    );
    fabric.bind_gid(ANN, anns).unwrap();
    fabric.bind_gid(EVE, anns).unwrap();

    fabric.bind_gid(BOB, late).unwrap();
    fabric.attach(PortId(4), BLUE, mac(PortId(4))).unwrap();
    assert_eq!(fabric.gids(BOB).count(), 0, "a squatter loses it");
    fabric.bind_gid(PortId(4), late).unwrap();
}

#[test]
fn only_so_many_unicast_gids_can_be_bound() {
    let mut fabric = fabric();
    let multicast = Gid::from_ipv4(Ipv4Addr::new(224, 0, 0, 1));
    for bad in [Gid::default(), multicast, Gid([0xff; 16])] {
        assert_eq!(fabric.bind_gid(ANN, bad), Err(BindError::NotUnicast));
    }
    for number in 0..MAX_GIDS_PER_PORT {
        let [a, b] = (number as u16).to_be_bytes();
        let gid = Gid::from_ipv4(Ipv4Addr::new(10, 1, a, b));
        fabric.bind_gid(ANN, gid).unwrap();
    }
    assert_eq!(fabric.bind_gid(ANN, gid(1)), Err(BindError::TooMany));
    fabric.clear_gids(ANN);
    fabric.bind_gid(ANN, gid(1)).unwrap();
}

#[test]
fn the_epoch_moves_with_every_change_and_only_then() {
    let mut fabric = fabric();
    let mut last = fabric.epoch();
    let mut moved =
        |fabric: &Fabric| core::mem::replace(&mut last, fabric.epoch()) != fabric.epoch();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    assert!(moved(&fabric));
    fabric.bind_gid(ANN, gid(1)).unwrap();
    let _ = fabric.bind_gid(BOB, gid(1));
    fabric.unbind_gid(ANN, gid(1));
    fabric.unbind_gid(ANN, gid(7));
    fabric.clear_gids(BOB);
    fabric.detach(PortId(9));
    assert!(!moved(&fabric));
    fabric.unbind_gid(ANN, gid(1));
    assert!(moved(&fabric));
    fabric.detach(ANN);
    assert!(moved(&fabric));
    fabric.attach(ANN, GREEN, mac(ANN)).unwrap();
    assert!(moved(&fabric));
}

#[test]
fn traffic_is_counted_by_port_and_reason() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    let traffic = fabric.traffic(ANN).unwrap();
    traffic.count_sent(100);
    traffic.count_sent(50);
    traffic.count_received(7);
    for (source, destination) in [(1, 9), (1, 9), (8, 1)] {
        fabric
            .route(ANN, gid(source), gid(destination))
            .unwrap_err();
    }
    let counts = fabric.traffic(ANN).unwrap().counts();
    assert_eq!((counts.sent.messages, counts.sent.bytes), (2, 150));
    assert_eq!((counts.received.messages, counts.received.bytes), (1, 7));
    let drops = NoRoute::ALL.map(|reason| counts.dropped(reason));
    assert_eq!(drops, [0, 1, 2, 0, 0]);
    for (place, reason) in NoRoute::ALL.into_iter().enumerate() {
        assert_eq!(place, reason as usize);
    }
    for (place, reason) in Untaken::ALL.into_iter().enumerate() {
        assert_eq!(place, reason as usize);
        (0..place).for_each(|_| traffic.count_untaken(reason));
    }
    let counts = traffic.counts();
    let untaken = Untaken::ALL.map(|reason| counts.untaken(reason));
    assert_eq!(untaken, [0, 1, 2, 3, 4]);
}

#[test]
fn a_gid_of_nobody_here_is_on_the_wire_if_the_group_has_one() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    fabric.bind_gid(EVE, gid(5)).unwrap();
    let epoch = fabric.epoch();
    fabric.set_wired(BLUE, true);
    assert_ne!(fabric.epoch(), epoch);
    assert_eq!(fabric.route(ANN, gid(1), gid(2)), Ok(Way::Wire));
    let theirs = fabric.route(ANN, gid(1), gid(5));
    assert_eq!(theirs, Ok(Way::Wire), "another group's GID is a stranger's");
    let spoofed = fabric.route(ANN, gid(9), gid(2));
    assert_eq!(spoofed, Err(NoRoute::SourceNotBound));
    assert_eq!(fabric.route(EVE, gid(5), gid(2)), Err(NoRoute::Unknown));
    fabric.bind_gid(BOB, gid(2)).unwrap();
    assert_eq!(fabric.route(ANN, gid(1), gid(2)), Ok(Way::Port(BOB)));
    fabric.set_wired(BLUE, false);
    fabric.unbind_gid(BOB, gid(2));
    assert_eq!(fabric.route(ANN, gid(1), gid(2)), Err(NoRoute::Unknown));
}

#[test]
fn other_hosts_reach_ports_and_speak_for_none() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    fabric.bind_gid(BOB, gid(2)).unwrap();
    assert_eq!(fabric.arrive(BLUE, gid(7), gid(1)), Ok(ANN));
    assert_eq!(fabric.arrive(BLUE, gid(7), gid(9)), Err(NoRoute::Unknown));
    assert_eq!(fabric.arrive(GREEN, gid(7), gid(1)), Err(NoRoute::Unknown));
    assert_eq!(fabric.arrive(BLUE, gid(2), gid(1)), Err(NoRoute::Spoofed));
    let of_mac = Gid::link_local(mac(BOB));
    assert_eq!(fabric.arrive(BLUE, of_mac, gid(1)), Err(NoRoute::Spoofed));
}

/// F12: a guest could take the address of a remote host, and what others sent there.
#[test]
fn a_pinned_port_binds_its_own_gid_and_nobody_else_does() {
    let mut fabric = fabric();
    let own = Gid::link_local(mac(ANN));
    fabric.bind_gid(BOB, gid(1)).unwrap();
    fabric.bind_gid(ANN, gid(2)).unwrap();
    fabric.keep(ANN, &stated([gid(1), gid(3)]));
    let pinned = Err(BindError::Pinned);
    assert_eq!(fabric.bind_gid(ANN, gid(2)), pinned);
    assert_eq!(fabric.bind_gid(BOB, gid(2)), Ok(()), "it was given back");
    assert_eq!(
        fabric.bind_gid(BOB, gid(1)),
        Err(BindError::Taken { by: ANN })
    );
    for gid in [gid(1), gid(3), own] {
        fabric.bind_gid(ANN, gid).unwrap();
    }
    fabric.clear_gids(ANN);
    assert_eq!(
        fabric.bind_gid(BOB, gid(1)),
        Err(BindError::Taken { by: ANN })
    );
    assert_eq!(fabric.bind_gid(EVE, gid(1)), Ok(()), "of another group");
    fabric.detach(ANN);
    assert_eq!(fabric.bind_gid(BOB, gid(1)), Ok(()));
}

#[test]
fn what_a_port_is_kept_to_changes_while_it_has_bound_gids() {
    let mut fabric = fabric();
    let own = Gid::link_local(mac(ANN));
    fabric.keep(ANN, &stated([gid(1), gid(2)]));
    for gid in [gid(1), gid(2), own] {
        fabric.bind_gid(ANN, gid).unwrap();
    }
    fabric.bind_gid(BOB, gid(4)).unwrap();
    let epoch = fabric.epoch();
    fabric.keep(ANN, &stated([gid(2), gid(3)]));
    assert_ne!(fabric.epoch(), epoch, "who found a route looks again");
    let kept: BTreeSet<_> = fabric.gids(ANN).collect();
    assert_eq!(kept, [gid(2), own].into(), "the others go on");
    let spoofed = Err(NoRoute::SourceNotBound);
    assert_eq!(fabric.route(ANN, gid(1), gid(4)), spoofed);
    assert_eq!(fabric.bind_gid(BOB, gid(1)), Ok(()), "it is free");
    let taken = Err(BindError::Taken { by: ANN });
    assert_eq!(fabric.bind_gid(BOB, gid(3)), taken);
    fabric.keep(ANN, &Kept::Any);
    assert_eq!(fabric.bind_gid(BOB, gid(3)), Ok(()));
    assert_eq!(fabric.bind_gid(ANN, gid(9)), Ok(()), "any that is free");
    assert_eq!(fabric.route(ANN, gid(2), gid(4)), Ok(Way::Port(BOB)));
}

#[test]
fn a_port_that_is_away_owns_nothing_until_it_comes_back() {
    let mut fabric = fabric();
    let link_local = Gid::link_local(mac(BOB));
    fabric.bind_gid(ANN, gid(1)).unwrap();
    fabric.bind_gid(BOB, gid(2)).unwrap();
    fabric.bind_gid(BOB, link_local).unwrap();
    let epoch = fabric.epoch();
    fabric.set_away(BOB, true);
    assert_ne!(fabric.epoch(), epoch, "who found it here looks again");
    assert_eq!(fabric.route(ANN, gid(1), gid(2)), Err(NoRoute::Unknown));
    assert!(
        !fabric.has_station(BLUE, mac(BOB)),
        "it may be heard outside"
    );
    assert_eq!(
        fabric.attach(PortId(7), BLUE, mac(BOB)),
        Err(AttachError::MacTaken { by: BOB }),
        "the MAC stays its own on this host"
    );
    fabric.bind_gid(ANN, link_local).unwrap();
    fabric.set_away(BOB, false);
    assert!(fabric.has_station(BLUE, mac(BOB)));
    fabric.bind_gid(BOB, link_local).unwrap();
    fabric.bind_gid(BOB, gid(2)).unwrap();
    assert_eq!(fabric.route(ANN, gid(1), gid(2)), Ok(Way::Port(BOB)));
}

/// Packets from the VM at its new place were dropped as spoofed, and a port that took its address meanwhile kept it.
#[test]
fn a_pinned_port_that_is_away_owns_nothing_either() {
    let mut fabric = fabric();
    fabric.bind_gid(ANN, gid(1)).unwrap();
    fabric.keep(BOB, &stated([gid(2)]));
    fabric.set_away(BOB, true);
    assert_eq!(
        fabric.arrive(BLUE, gid(2), gid(1)),
        Ok(ANN),
        "from its new place"
    );
    assert_eq!(
        fabric.bind_gid(ANN, gid(2)),
        Ok(()),
        "as that of any remote host"
    );
    fabric.keep(BOB, &stated([gid(2), gid(1)]));
    assert_eq!(fabric.gids(ANN).count(), 2, "nothing is taken meanwhile");
    fabric.keep(BOB, &stated([gid(2)]));
    fabric.set_away(BOB, false);
    assert_eq!(fabric.gids(ANN).collect::<Vec<_>>(), [gid(1)]);
    assert_eq!(fabric.bind_gid(BOB, gid(2)), Ok(()));
}
