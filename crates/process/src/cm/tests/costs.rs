//! The cost of requests, and of adapters that come and go, in look-ups: it may not depend on what others have.

use super::*;

/// An adapter that comes and goes.
fn third() -> AdapterSpec {
    spec(3, "c")
}

/// Makes clients with two identifiers each that are bound to another adapter.
fn crowd(world: &mut World, others: u32) -> Vec<Process> {
    let joined = (0..others).map(|_| {
        let other = world.process("b");
        for _ in 0..2 {
            let id = world.id(&other, TCP.0, TCP.1);
            let local = at(ip(2), 0);
            world.ask(&other, &Bind { id, local }).unwrap();
        }
        other
    });
    joined.collect()
}

/// Returns how often `work` looks up identifiers.
fn looks(world: &mut World, work: impl FnOnce(&mut World)) -> u64 {
    let all = |world: &World| {
        let clients = world.service.clients.values();
        clients.map(|client| client.looks).sum::<u64>()
    };
    let before = all(world);
    work(world);
    all(world) - before
}

/// With so many clients of another adapter: the look-ups when an adapter comes, and when it goes, for one client that
/// is bound to all adapters and one that is bound to this adapter.
fn coming_and_going(others: u32) -> [u64; 2] {
    let mut world = World::new();
    let _others = crowd(&mut world, others);
    let (wide, own) = (world.process(""), world.process(""));
    world.listen(&wide, at(Ipv4Addr::UNSPECIFIED, 0), TCP.0, TCP.1);
    let coming = looks(&mut world, |world| world.service.attach(third()));
    let id = world.id(&own, TCP.0, TCP.1);
    let local = at(ip(3), 0);
    world.ask(&own, &Bind { id, local }).unwrap();
    let going = looks(&mut world, |world| world.service.detach(third().port));
    world.expect(&own, id, EventKind::DeviceRemoval);
    [coming, going]
}

#[test]
fn an_adapter_that_comes_or_goes_concerns_only_those_that_have_something_of_it() {
    assert_eq!(coming_and_going(1), coming_and_going(40));
}

/// With so many adapters: how often an adapter is looked up by its port when a client binds a port of all of them,
/// listens, gets a request at one, and goes; and when another client resolves a peer without a port of its own.
fn being_everywhere(adapters: u8) -> [u64; 5] {
    let mut world = World::new();
    (3..=adapters).for_each(|last| world.service.attach(spec(last, &format!("a{last}"))));
    let (own, a) = (world.process(""), world.process(""));
    let mut before = 0;
    let mut cost = |world: &World| {
        let now = world.service.adapters.looks.get();
        now - std::mem::replace(&mut before, now)
    };
    let id = world.id(&own, TCP.0, TCP.1);
    cost(&world);
    let local = at(Ipv4Addr::UNSPECIFIED, 0);
    let bound = world.ask(&own, &Bind { id, local }).unwrap();
    let bind = cost(&world);
    let (backlog, reserved) = (2, 0);
    let listen = Listen {
        id,
        backlog,
        reserved,
    };
    world.ask(&own, &listen).unwrap();
    let listen = cost(&world);
    let caller = world.resolved(&a, at(ip(2), bound.route.local.port), TCP.0, TCP.1);
    let look = cost(&world);
    world.connect(&a, caller);
    assert_eq!(world.event(&own).listener, id);
    let call = cost(&world);
    world.ask(&own, &DestroyId { id }).unwrap();
    let expected = u32::from(adapters).min(2);
    let listeners = (0..expected).map(|port| world.service.offered(PortId(port)).listeners);
    assert_eq!(listeners.sum::<u32>(), 0);
    [bind, listen, look, call, cost(&world)]
}

#[test]
fn all_adapters_are_bound_and_listened_at_for_the_price_of_a_few() {
    let few = being_everywhere(2);
    assert_eq!(being_everywhere(200), few);
    assert_eq!(
        few[..2],
        [0, 0],
        "no adapter is looked at to be bound to all"
    );
}

#[test]
pub(super) fn nothing_is_left_of_clients_that_are_gone() {
    let mut world = World::new();
    let (a, _, b, _) = connected(&mut world);
    let wide = world.process("");
    world.listen(&wide, at(Ipv4Addr::UNSPECIFIED, 0), TCP.0, TCP.1);
    world.resolved(&wide, at(ip(2), 1), TCP.0, TCP.1);
    assert!(!world.service.owners.is_empty());
    for Process { id, socket, .. } in [a, b, wide] {
        world.hang_up(id, socket);
    }
    assert!(world.service.owners.is_empty());
}
