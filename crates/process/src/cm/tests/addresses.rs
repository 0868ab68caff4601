//! Addresses and ports: binding, resolving, listening.

use super::*;

#[test]
pub(super) fn ports_belong_to_one() {
    let mut world = World::new();
    let (a, b) = (world.process(""), world.process(""));
    world.listen(&a, at(Ipv4Addr::UNSPECIFIED, 7), TCP.0, TCP.1);
    let id = world.id(&b, TCP.0, TCP.1);
    let bind = |local| Bind { id, local };
    let refused = Err(Errno::ADDRNOTAVAIL);
    assert_eq!(world.ask(&b, &bind(at(ip(2), 7))), refused, "taken at all");
    assert_eq!(world.ask(&b, &bind(at(ip(9), 8))), refused, "nobody's");
    let bound = world.ask(&b, &bind(at(ip(2), 0))).unwrap();
    assert_eq!(bound.route.adapter.as_str(), "b");
    assert!(bound.route.local.port > 1024);
    assert_eq!(
        world.ask(&b, &bind(at(ip(2), 0))),
        Err(Errno::INVAL),
        "bound already"
    );
    world.hang_up(a.id, a.socket);
    world.listen(&b, at(ip(2), 7), TCP.0, TCP.1);
}

#[test]
pub(super) fn the_loopback_address_is_bound_to_no_adapter_and_heard_at_all() {
    let mut world = World::new();
    let (a, all) = (world.process("a"), world.process(""));
    let (listener, port) = world.listen(&all, at(Ipv4Addr::LOCALHOST, 0), TCP.0, TCP.1);
    for last in [1, 2] {
        let caller = world.resolved(&a, at(ip(last), port), TCP.0, TCP.1);
        world.connect(&a, caller);
        let called = world.event(&all);
        assert_eq!(called.listener, listener);
        assert_eq!(called.route.local.address[..4], ip(last).octets());
    }
    let id = world.id(&all, TCP.0, TCP.1);
    let local = at(Ipv4Addr::LOCALHOST, 0);
    let bound = world.ask(&all, &Bind { id, local }).unwrap();
    assert_eq!(bound.route.adapter.as_str(), "");
}

#[test]
pub(super) fn an_address_that_nobody_has_is_given_up_in_time() {
    let mut world = World::new();
    let a = world.process("a");
    let id = world.id(&a, TCP.0, TCP.1);
    let resolve = ResolveAddress {
        id,
        remote: at(ip(9), 1),
        timeout: 250,
        ..ResolveAddress::default()
    };
    world.ask(&a, &resolve).unwrap();
    assert_eq!(world.ask(&a, &resolve), Err(Errno::INVAL), "is looked for");
    while let Some(due) = world.service.deadline() {
        assert_eq!(ioctl_fionread(&a.pipe), Ok(0), "too early");
        world.now = due;
        world.carry();
    }
    assert_eq!(world.now, Duration::from_millis(250));
    let error = world.expect(&a, id, EventKind::AddressError);
    assert_eq!(error.status, -Errno::TIMEDOUT.raw_os_error());
    let remote = at(ip(2), 1);
    world
        .ask(&a, &ResolveAddress { remote, ..resolve })
        .unwrap();
    world.expect(&a, id, EventKind::AddressResolved);
}

#[test]
pub(super) fn an_address_is_looked_for_until_somebody_has_it() {
    let mut world = World::new();
    let a = world.process("a");
    let id = world.id(&a, TCP.0, TCP.1);
    let resolve = ResolveAddress {
        id,
        remote: at(ip(3), 1),
        timeout: 2000,
        ..ResolveAddress::default()
    };
    world.ask(&a, &resolve).unwrap();
    world.now = world.service.deadline().unwrap();
    assert_eq!(
        world.now,
        Duration::from_millis(1),
        "soon for the first time"
    );
    world.carry();
    world.silent(&a);
    world.known = 3;
    world.now = world.service.deadline().unwrap();
    world.carry();
    let found = world.expect(&a, id, EventKind::AddressResolved);
    assert_eq!(found.route.dgid, Gid::from_ipv4(ip(3)).0);
    assert_eq!(world.service.deadline(), None);
}

#[test]
pub(super) fn searches_are_counted_and_end_with_their_identifier() {
    let mut world = World::new();
    let a = world.process("a");
    let search = |id| ResolveAddress {
        id,
        remote: at(ip(9), 1),
        timeout: u32::MAX,
        ..ResolveAddress::default()
    };
    let ids: Vec<u64> = (0..256).map(|_| world.id(&a, TCP.0, TCP.1)).collect();
    for id in &ids {
        world.ask(&a, &search(*id)).unwrap();
    }
    let one_more = world.id(&a, TCP.0, TCP.1);
    assert_eq!(world.ask(&a, &search(one_more)), Err(Errno::NOMEM));
    world.ask(&a, &DestroyId { id: ids[0] }).unwrap();
    world.ask(&a, &search(one_more)).unwrap();
    world.service.detach(PortId(0));
    world.expect(&a, ids[1], EventKind::AddressError);
    assert_eq!(world.service.deadline(), None);
}

#[test]
pub(super) fn who_listens_everywhere_listens_at_adapters_that_come() {
    let mut world = World::new();
    let (a, all, own) = (world.process("a"), world.process(""), world.process("b"));
    let (listener, port) = world.listen(&all, at(Ipv4Addr::UNSPECIFIED, 0), TCP.0, TCP.1);
    let (_, elsewhere) = world.listen(&own, at(Ipv4Addr::UNSPECIFIED, 0), TCP.0, TCP.1);
    world.service.attach(spec(3, "c"));
    world.known = 3;
    let caller = world.resolved(&a, at(ip(3), port), TCP.0, TCP.1);
    world.connect(&a, caller);
    assert_eq!(world.event(&all).listener, listener);
    let caller = world.resolved(&a, at(ip(3), elsewhere), TCP.0, TCP.1);
    world.connect(&a, caller);
    let status = world.expect(&a, caller, EventKind::Rejected).status;
    assert_eq!(status, 8, "an adapter that is not its own");
    world.ask(&all, &DestroyId { id: listener }).unwrap();
    let caller = world.resolved(&a, at(ip(3), port), TCP.0, TCP.1);
    world.connect(&a, caller);
    assert_eq!(world.expect(&a, caller, EventKind::Rejected).status, 8);
}

/// iSCSI's target does this: IPv4 first, then IPv6, each for its own family.
#[test]
pub(super) fn listeners_of_both_families_share_a_port() {
    let mut world = World::new();
    let (a, all) = (world.process("a"), world.process(""));
    let listen = |world: &mut World, family| {
        let id = world.id(&all, TCP.0, TCP.1);
        let only = SetOption {
            id,
            option: option::FAMILY_ONLY,
            value: 1,
        };
        world.ask(&all, &only).unwrap();
        let local = Endpoint {
            family,
            port: 3260,
            ..Endpoint::default()
        };
        world.ask(&all, &Bind { id, local }).unwrap();
        let listen = Listen {
            id,
            backlog: 2,
            reserved: 0,
        };
        world.ask(&all, &listen).unwrap();
        id
    };
    let v4 = listen(&mut world, family::INET);
    let v6 = listen(&mut world, family::INET6);
    assert_ne!(v4, v6);
    let caller = world.resolved(&a, at(ip(2), 3260), TCP.0, TCP.1);
    world.connect(&a, caller);
    assert_eq!(world.event(&all).listener, v4);
}

#[test]
pub(super) fn two_addresses_of_an_adapter_have_ports_of_their_own() {
    let mut world = World::new();
    let b = world.process("b");
    world.listen(&b, at(ip(2), 7), TCP.0, TCP.1);
    let id = world.id(&b, TCP.0, TCP.1);
    let link_local = Gid::link_local(Mac([2, 0, 0, 0, 0, 2]));
    let local = super::super::address::endpoint(link_local, 7);
    world.ask(&b, &Bind { id, local }).unwrap();
    let id = world.id(&b, TCP.0, TCP.1);
    assert_eq!(world.ask(&b, &Bind { id, local }), Err(Errno::ADDRINUSE));
}

/// Binding all addresses and binding one adapter's address: the second of the two is refused.
#[test]
pub(super) fn a_port_of_all_adapters_is_one_of_each() {
    let mut world = World::new();
    let (a, b) = (world.process("a"), world.process(""));
    let any = at(Ipv4Addr::UNSPECIFIED, 7);
    let refused = |world: &mut World, process: &Process, local| {
        let id = world.id(process, TCP.0, TCP.1);
        world.ask(process, &Bind { id, local }).err()
    };
    let (of_a, _) = world.listen(&a, any, TCP.0, TCP.1);
    assert_eq!(refused(&mut world, &b, any), Some(Errno::ADDRNOTAVAIL));
    assert_eq!(refused(&mut world, &b, at(ip(2), 7)), None);
    world.ask(&a, &DestroyId { id: of_a }).unwrap();
    assert_eq!(refused(&mut world, &b, any), Some(Errno::ADDRNOTAVAIL));
    world.service.detach(PortId(1));
    let all = world.id(&b, TCP.0, TCP.1);
    let bind = Bind {
        id: all,
        local: any,
    };
    world.ask(&b, &bind).unwrap();
    assert_eq!(refused(&mut world, &a, any), Some(Errno::ADDRNOTAVAIL));
    world.service.attach(spec(2, "b"));
    let later = refused(&mut world, &b, at(ip(2), 7));
    assert_eq!(later, Some(Errno::ADDRNOTAVAIL), "of those that come, too");
    world.ask(&b, &DestroyId { id: all }).unwrap();
    assert_eq!(refused(&mut world, &b, at(ip(2), 7)), None);
}

/// As in Linux: one of several that share a port may listen, the others may not.
#[test]
pub(super) fn of_those_that_share_a_port_one_listens() {
    let mut world = World::new();
    let (a, all) = (world.process("a"), world.process(""));
    let share = |world: &mut World, process: &Process| {
        let id = world.id(process, TCP.0, TCP.1);
        let shared = SetOption {
            id,
            option: option::REUSE_ADDRESS,
            value: 1,
        };
        world.ask(process, &shared).unwrap();
        let local = at(Ipv4Addr::UNSPECIFIED, 7);
        world.ask(process, &Bind { id, local }).unwrap();
        id
    };
    let ids = [
        share(&mut world, &a),
        share(&mut world, &all),
        share(&mut world, &all),
    ];
    let listen = |world: &mut World, process: &Process, id| {
        let listen = Listen {
            id,
            backlog: 2,
            reserved: 0,
        };
        world.ask(process, &listen).err()
    };
    assert_eq!(listen(&mut world, &a, ids[0]), None);
    let in_use = Some(Errno::ADDRINUSE);
    assert_eq!(listen(&mut world, &all, ids[1]), in_use);
    world.ask(&a, &DestroyId { id: ids[0] }).unwrap();
    assert_eq!(listen(&mut world, &all, ids[1]), None);
    assert_eq!(listen(&mut world, &all, ids[2]), in_use);
    let again = share(&mut world, &a);
    assert_eq!(listen(&mut world, &a, again), in_use);
    assert_eq!(world.service.offered(PortId(0)).listeners, 1);
}

/// A request to a listener at all adapters waits at one adapter, and keeps its place among those that wait.
#[test]
pub(super) fn a_call_that_waits_finds_its_listener_again() {
    let mut world = World::new();
    let (a, all) = (world.process("a"), world.process(""));
    let (listener, port) = world.listen(&all, at(Ipv4Addr::UNSPECIFIED, 0), TCP.0, TCP.1);
    for _ in 0..3 {
        let caller = world.resolved(&a, at(ip(2), port), TCP.0, TCP.1);
        world.connect(&a, caller);
    }
    for _ in 0..2 {
        assert_eq!(world.event(&all).listener, listener);
    }
    world.silent(&all);
}
