use super::*;
use crate::Refused;

#[test]
fn one_side_disconnects_and_both_are_told() {
    let (mut world, a, b) = World::connected();
    world.machines[0].disconnect(a, world.now).unwrap();
    assert_eq!(world.deliver_all(), ["DREQ", "DREP"]);
    assert_eq!(world.take(0), [Event::Disconnected(a)]);
    assert_eq!(world.take(1), [Event::Disconnected(b)]);
    world.machines[1].disconnect(b, world.now).unwrap();
    assert!(world.deliver_all().is_empty(), "it is over already");
    while world.wait() {}
    assert_eq!(world.take(0), [Event::TimewaitOver(a)]);
    assert_eq!(world.take(1), [Event::TimewaitOver(b)]);
    assert_eq!(
        world.machines[0].disconnect(a, world.now),
        Err(Refused::Unknown)
    );
}

#[test]
fn both_sides_disconnect_at_once() {
    let (mut world, a, b) = World::connected();
    world.machines[0].disconnect(a, world.now).unwrap();
    world.machines[1].disconnect(b, world.now).unwrap();
    assert_eq!(world.deliver_all(), ["DREQ", "DREQ", "DREP", "DREP"]);
    assert_eq!(world.take(0), [Event::Disconnected(a)]);
    assert_eq!(world.take(1), [Event::Disconnected(b)]);
}

#[test]
fn lost_farewells_are_repeated() {
    let (mut world, a, b) = World::connected();
    world.machines[0].disconnect(a, world.now).unwrap();
    world.lose();
    world.wait();
    let datagram = world.queue.pop_front().unwrap();
    world.deliver(&datagram);
    assert_eq!(world.lose(), ["DREP"]);
    assert_eq!(world.take(1), [Event::Disconnected(b)]);
    while world.take(0).is_empty() {
        world.wait();
        world.deliver_all();
    }
}

#[test]
fn a_peer_that_is_gone_does_not_hold_the_end_up() {
    let (mut world, a, _) = World::connected();
    world.machines[0].disconnect(a, world.now).unwrap();
    let mut sent = world.lose().len();
    while world.wait() {
        sent += world.lose().len();
    }
    assert_eq!(sent, 16);
    assert_eq!(
        world.take(0),
        [Event::Disconnected(a), Event::TimewaitOver(a)]
    );
}

#[test]
fn release_disconnects_and_says_nothing_to_the_owner() {
    let (mut world, a, b) = World::connected();
    world.machines[0].release(a, world.now);
    assert_eq!(world.deliver_all(), ["DREQ", "DREP"]);
    assert_eq!(world.take(1), [Event::Disconnected(b)]);
    world.machines[1].release(b, world.now);
    while world.wait() {}
    assert!(world.take(0).is_empty() && world.take(1).is_empty());
}

#[test]
fn release_of_a_call_that_waits_rejects_it() {
    let mut world = World::new();
    world.listen(1, 1);
    world.call(0x11);
    world.deliver_all();
    let (b, _) = world.requested();
    world.machines[1].release(b, world.now);
    assert_eq!(world.deliver_all(), ["REJ"]);
    assert_eq!(rejected(&world.take(0)[0]), RejectReason::CONSUMER);
    world.call(0x12);
    world.deliver_all();
    world.requested();
}

#[test]
fn a_queue_pair_used_anew_ends_the_stale_connection() {
    let (mut world, a, b) = World::connected();
    world.machines[0].release(a, world.now);
    world.lose();
    world.call(0x11);
    let sent = world.deliver_all();
    assert!(sent.contains(&"REJ") && sent.contains(&"DREQ"), "{sent:?}");
    assert_eq!(rejected(&world.take(0)[0]), RejectReason::STALE);
    assert_eq!(world.take(1), [Event::Disconnected(b)]);
    world.call(0x11);
    world.deliver_all();
    world.requested();
}

#[test]
fn commands_out_of_season_change_nothing() {
    let mut world = World::new();
    world.listen(1, 1);
    let a = world.call(0x11);
    let now = world.now;
    let none = PrivateData::EMPTY;
    assert_eq!(world.machines[0].disconnect(a, now), Err(Refused::State));
    assert_eq!(world.machines[0].ready(a, none), Err(Refused::State));
    let early = Acceptance {
        side: side(1),
        private: PrivateData::EMPTY,
    };
    assert_eq!(
        world.machines[0].accept(a, &early, now),
        Err(Refused::State)
    );
    let reason = RejectReason::CONSUMER;
    let reject = world.machines[0].reject(a, reason, PrivateData::EMPTY);
    assert_eq!(reject, Err(Refused::State));
    world.deliver_all();
    let (b, _) = world.requested();
    world.accept(b, 0x22);
    assert_eq!(
        world.machines[1].accept(b, &early, now),
        Err(Refused::State)
    );
}
