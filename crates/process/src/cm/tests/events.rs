//! Events that no program reads.

use super::*;

#[test]
fn leaving_a_group_takes_its_event_along() {
    let mut world = World::new();
    let a = world.process("a");
    let join = world.joining(&a);
    world.expect(&a, join.id, EventKind::AddressResolved);
    let kept = world.ask(&a, &join).unwrap().group;
    for _ in 0..20_000 {
        let JoinReply { group } = world.ask(&a, &join).unwrap();
        world.leave(&a, group).unwrap();
    }
    let channel = a.channel;
    let event = world.ask(&a, &GetEvent { channel }).unwrap();
    assert_eq!(
        (event.kind, event.group),
        (EventKind::MulticastJoin as u32, kept)
    );
    let none = world.ask(&a, &GetEvent { channel });
    assert_eq!(none, Err(Errno::AGAIN));
}

#[test]
fn rule_p48_who_reads_no_events_causes_so_many_and_no_more() {
    let mut world = World::new();
    let a = world.process("a");
    let id = world.id(&a, TCP.0, TCP.1);
    let resolve = ResolveAddress {
        id,
        remote: at(ip(99), 1),
        ..ResolveAddress::default()
    };
    let refused = (0..100_000).find_map(|_| world.ask(&a, &resolve).err());
    assert_eq!(refused, Some(Errno::NOMEM));
    let channel = a.channel;
    let event = world.ask(&a, &GetEvent { channel }).unwrap();
    assert_eq!(event.kind, EventKind::AddressError as u32);
    world.ask(&a, &resolve).unwrap();
    assert_eq!(world.ask(&a, &resolve), Err(Errno::NOMEM));
}
