//! A client finds the adapters that its user may use, and no others.

use std::collections::BTreeSet;

use super::*;
use crate::admission::Admitted;

const STRANGER: u32 = 4242;

fn stranger() -> Caller {
    Caller::of(STRANGER, 5, &[])
}

/// Makes a world in which the stranger may use `ports`.
fn world(ports: &[u32]) -> World {
    let world = World::new();
    for port in ports {
        let users = BTreeSet::from([STRANGER]);
        let admitted = Admitted {
            users,
            ..Admitted::default()
        };
        world.registry.admission.set(PortId(*port), admitted);
    }
    world
}

#[test]
fn who_may_use_no_adapter_is_not_greeted() {
    let mut world = world(&[]);
    let refused = |world: &mut World, adapter| world.greet_as(stranger(), adapter).err();
    assert_eq!(refused(&mut world, ""), Some(Errno::NODEV));
    assert_eq!(refused(&mut world, "a"), Some(Errno::ACCESS));
    assert_eq!(refused(&mut world, "none"), Some(Errno::NODEV));
}

#[test]
fn rule_p47_an_adapter_of_others_is_not_called_from_or_bound() {
    let mut world = world(&[0]);
    assert_eq!(world.greet_as(stranger(), "b").err(), Some(Errno::ACCESS));
    let own = world.process_as(stranger(), "");
    let id = world.id(&own, TCP.0, TCP.1);
    let local = at(ip(2), 0);
    assert_eq!(
        world.ask(&own, &Bind { id, local }).err(),
        Some(Errno::ADDRNOTAVAIL)
    );
    // b is reached, but from a.
    let caller = world.resolved(&own, at(ip(2), 1), TCP.0, TCP.1);
    let init = InitQp {
        id: caller,
        state: 1,
        reserved: 0,
    };
    world.ask(&own, &init).unwrap();
    let bound = world
        .ask(
            &own,
            &Bind {
                id,
                local: at(ip(1), 0),
            },
        )
        .unwrap();
    assert_eq!(bound.route.adapter.as_str(), "a");
}

#[test]
fn who_listens_everywhere_listens_at_own_adapters() {
    let mut world = world(&[0, 3]);
    let own = world.process_as(stranger(), "");
    let (_, port) = world.listen(&own, at(Ipv4Addr::UNSPECIFIED, 0), TCP.0, TCP.1);
    world.service.attach(spec(3, "c"));
    world.service.attach(spec(4, "d"));
    let listeners =
        |world: &World| [0, 1, 2, 3].map(|at| world.service.offered(PortId(at)).listeners);
    assert_eq!(listeners(&world), [1, 0, 0, 1]);
    let other = world.process("b");
    let (_, same) = world.listen(&other, at(ip(2), port), TCP.0, TCP.1);
    assert_eq!(same, port, "the port of another adapter is free");
}

#[test]
fn a_right_that_is_taken_away_counts_from_then_on() {
    let mut world = world(&[0]);
    let own = world.process_as(stranger(), "");
    let (_, _) = world.listen(&own, at(ip(1), 0), TCP.0, TCP.1);
    world.registry.admission.set(PortId(0), Admitted::default());
    assert_eq!(
        world.service.offered(PortId(0)).listeners,
        1,
        "what was begun goes on"
    );
    let id = world.id(&own, TCP.0, TCP.1);
    let local = at(ip(1), 0);
    let refused = world.ask(&own, &Bind { id, local }).err();
    assert_eq!(refused, Some(Errno::ADDRNOTAVAIL));
}
