use super::*;
use crate::connection::HALF_OPEN_LASTS;
use crate::{Calls, MAX_BACKLOG, MAX_HALF_OPEN_OF_ONE, MAX_LISTENERS, Refused};

#[test]
fn both_sides_learn_what_the_other_says() {
    let mut world = World::new();
    let listener = world.listen(1, 1);
    let a = world.call(0x11);
    assert_eq!(world.deliver_all(), ["REQ"]);
    let [Event::Requested(b, told, request)] = world.take(1)[..] else {
        panic!("no request");
    };
    assert_eq!(told, listener);
    assert_eq!(request.side, side(0x11));
    assert_eq!(request.link, LINK);
    assert_eq!(request.ends.remote, world.gids[0]);
    assert_eq!(request.caller.unwrap().port, 40000);
    assert_eq!(&request.private.as_bytes()[..6], b"hello\0");

    world.accept(b, 0x22);
    assert_eq!(world.deliver_all(), ["REP"]);
    let [Event::Replied(id, reply)] = world.take(0)[..] else {
        panic!("no reply");
    };
    assert_eq!((id, reply.side), (a, side(0x22)));
    assert_eq!(&reply.private.as_bytes()[..7], b"welcome");

    let private = PrivateData::new(b"go").unwrap();
    world.machines[0].ready(a, private).unwrap();
    assert_eq!(world.deliver_all(), ["RTU"]);
    assert_eq!(world.take(1), [Event::Established(b, private)]);
    assert!(!world.wait(), "a connection at rest needs no timer");
}

#[test]
fn the_path_of_a_request_is_one_that_linux_takes() {
    let mut world = World::new();
    world.call(0x11);
    let Message::Req(req) = world.queue[0].mad.message else {
        panic!("no REQ");
    };
    assert_eq!(
        (req.primary.local_lid, req.primary.remote_lid),
        (0xffff, 0xffff)
    );
    assert_eq!(req.primary.local_gid, world.gids[0]);
    assert_eq!(req.primary.remote_gid, world.gids[1]);
    assert!(!req.primary.subnet_local);
    assert_eq!((req.guid, req.pkey), (1, Pkey::DEFAULT));
    assert_eq!(req.service, ServiceId(0x0106_1c06));
}

#[test]
fn nobody_listens() {
    let mut world = World::new();
    world.call(0x11);
    assert_eq!(world.deliver_all(), ["REQ", "REJ"]);
    assert_eq!(rejected(&world.take(0)[0]), RejectReason::INVALID_SERVICE);
    assert!(!world.wait());
}

#[test]
fn the_nearer_listener_is_told() {
    let mut world = World::new();
    let at = |at| Listen {
        service: SERVICE,
        at,
    };
    world.listen(1, 1);
    let near = world.machines[1]
        .listen(at(Addresses::One(world.gids[1])), 1)
        .unwrap();
    let other = at(Addresses::One(world.gids[0]));
    world.machines[1].listen(other, 1).unwrap();
    assert_eq!(world.machines[1].listen(other, 1), Err(Refused::Taken));
    world.call(0x11);
    world.deliver_all();
    assert!(matches!(world.take(1)[..], [Event::Requested(_, told, _)] if told == near));
    world.machines[1].unlisten(near).unwrap();
    assert_eq!(world.machines[1].unlisten(near), Err(Refused::Unknown));
}

#[test]
fn listeners_of_both_families_stand_side_by_side() {
    let mut world = World::new();
    let listen = |world: &mut World, at| {
        let listen = Listen {
            service: SERVICE,
            at,
        };
        world.machines[1].listen(listen, 1).unwrap()
    };
    let all = listen(&mut world, Addresses::All);
    let other = match world.gids[1].to_ipv4() {
        Some(_) => Addresses::Ipv6,
        None => Addresses::Ipv4,
    };
    listen(&mut world, other);
    world.call(0x11);
    world.deliver_all();
    assert!(matches!(world.take(1)[..], [Event::Requested(_, told, _)] if told == all));
}

#[test]
fn users_reject() {
    let mut world = World::new();
    world.listen(1, 1);
    world.call(0x11);
    world.deliver_all();
    let (b, _) = world.requested();
    let private = PrivateData::new(b"no").unwrap();
    let machine = &mut world.machines[1];
    machine.reject(b, RejectReason::CONSUMER, private).unwrap();
    assert_eq!(
        machine.reject(b, RejectReason::CONSUMER, private),
        Err(Refused::Unknown)
    );
    world.deliver_all();
    let [Event::Rejected(_, reason, told)] = world.take(0)[..] else {
        panic!("no rejection");
    };
    assert_eq!((reason, told), (RejectReason::CONSUMER, private));
    assert!(!world.wait());
}

#[test]
fn the_caller_rejects_a_reply() {
    let mut world = World::new();
    world.listen(1, 1);
    let a = world.call(0x11);
    world.deliver_all();
    let (b, _) = world.requested();
    world.accept(b, 0x22);
    world.deliver_all();
    let machine = &mut world.machines[0];
    machine
        .reject(a, RejectReason::CONSUMER, PrivateData::EMPTY)
        .unwrap();
    assert_eq!(world.deliver_all(), ["REJ"]);
    assert_eq!(rejected(&world.take(1)[0]), RejectReason::CONSUMER);
    assert!(!world.wait());
}

#[test]
fn a_slow_listener_asks_for_patience_and_a_lost_reply_comes_again() {
    let mut world = World::new();
    world.listen(1, 1);
    let a = world.call(0x11);
    world.deliver_all();
    let (b, _) = world.requested();
    world.wait();
    assert_eq!(world.deliver_all(), ["REQ", "MRA"]);
    assert!(world.take(1).is_empty(), "told once");
    world.accept(b, 0x22);
    assert_eq!(world.lose(), ["REP"]);
    world.wait();
    assert_eq!(world.deliver_all(), ["REP"]);
    world.machines[0].ready(a, PrivateData::EMPTY).unwrap();
    assert_eq!(world.lose(), ["RTU"]);
    world.wait();
    assert_eq!(world.deliver_all(), ["REP", "RTU"]);
    assert_eq!(world.take(1), [Event::Established(b, PrivateData::EMPTY)]);
}

#[test]
fn data_says_that_the_caller_is_ready() {
    let mut world = World::new();
    world.listen(1, 1);
    world.call(0x11);
    world.deliver_all();
    let (b, _) = world.requested();
    world.accept(b, 0x22);
    world.machines[1].established(b).unwrap();
    world.collect();
    assert_eq!(world.take(1), [Event::Established(b, PrivateData::EMPTY)]);
    world.machines[1].established(b).unwrap();
    world.collect();
    assert!(world.take(1).is_empty());
}

#[test]
fn silence_is_given_up_at_last() {
    let mut world = World::new();
    let a = world.call(0x11);
    let mut sent = world.lose().len();
    while world.wait() {
        sent += world.lose().len();
    }
    assert_eq!(sent, 16 + 1, "the call, fifteen repetitions, a farewell");
    assert_eq!(world.take(0), [Event::Unreachable(a)]);
}

#[test]
fn a_farewell_ends_a_call_that_was_never_answered() {
    let mut world = World::new();
    world.listen(1, 1);
    let a = world.call(0x11);
    world.deliver_all();
    world.take(1);
    world.machines[0].release(a, world.now);
    assert_eq!(world.deliver_all(), ["REJ"]);
    assert_eq!(rejected(&world.take(1)[0]), RejectReason::TIMEOUT);
    assert!(world.take(0).is_empty());
}

#[test]
fn a_reply_to_a_forgotten_call_is_rejected() {
    let mut world = World::new();
    world.listen(1, 1);
    let a = world.call(0x11);
    world.deliver_all();
    let (b, _) = world.requested();
    world.machines[0].release(a, world.now);
    world.lose();
    world.accept(b, 0x22);
    assert_eq!(world.deliver_all(), ["REP", "REJ"]);
    assert_eq!(rejected(&world.take(1)[0]), RejectReason(6));
}

#[test]
fn calls_beyond_the_backlog_are_rejected() {
    let mut world = World::new();
    world.listen(1, 1);
    world.call(0x11);
    world.call(0x12);
    assert_eq!(world.deliver_all(), ["REQ", "REQ", "REJ"]);
    assert_eq!(rejected(&world.take(0)[0]), RejectReason::NO_RESOURCES);
    let (b, _) = world.requested();
    world.accept(b, 0x22);
    world.deliver_all();
    world.call(0x12);
    world.deliver_all();
    let (_, request) = world.requested();
    assert_eq!(request.side.qpn.get(), 0x12);
}

/// F18: one remote address could take all the room, and got no answer.
#[test]
fn a_remote_address_has_a_share_of_the_calls_that_wait() {
    let mut world = World::new();
    world.listen(1, MAX_BACKLOG);
    let calls = MAX_HALF_OPEN_OF_ONE as u32;
    let ask = |world: &mut World| {
        let request = world.queue.pop_front().unwrap();
        world.deliver(&request);
        let answers = world.queue.drain(..).map(|answer| answer.mad.message);
        answers.into_iter().find_map(|message| match message {
            Message::Rej(rej) => Some(rej.reason),
            _ => None,
        })
    };
    let accept = |world: &mut World, qpn: u32| {
        assert_eq!(ask(world), None, "{qpn}");
        let (b, _) = world.requested();
        world.accept(b, qpn);
        world.lose();
    };
    for qpn in 1..=calls {
        world.call(qpn);
        accept(&mut world, qpn);
    }
    world.call(calls + 1);
    assert_eq!(ask(&mut world), Some(RejectReason::NO_RESOURCES));
    let waiting = Calls {
        half_open: MAX_HALF_OPEN_OF_ONE,
        refused: 1,
    };
    assert_eq!(world.machines[1].calls(), waiting);
    // Another remote address is not affected.
    let first = world.gids[0];
    world.gids[0] = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 9));
    world.call(calls + 2);
    accept(&mut world, calls + 2);
    world.gids[0] = first;
    // Calls that never become connections end in time, whatever the caller asked for.
    let end = world.now + HALF_OPEN_LASTS;
    while world.now < end && world.wait() {
        world.lose();
    }
    world.now = end;
    world.machines[1].expire(end);
    world.lose();
    world.take(1);
    world.call(calls + 3);
    accept(&mut world, calls + 3);
}

#[test]
fn who_calls_in_anothers_name_is_refused() {
    let mut world = World::new();
    world.listen(1, 1);
    world.call(0x11);
    world.gids[0] = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 9));
    let mut datagram = world.queue.pop_front().unwrap();
    datagram.ends.local = world.gids[0];
    world.deliver(&datagram);
    assert_eq!(world.lose(), ["REJ"]);
    assert!(world.take(1).is_empty());
}

#[test]
fn messages_from_elsewhere_do_not_count() {
    let (mut world, a, b) = World::connected();
    world.machines[0].disconnect(a, world.now).unwrap();
    world.collect();
    let mut datagram = world.queue.pop_front().unwrap();
    datagram.ends.local = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 9));
    world.deliver(&datagram);
    assert_eq!(
        world.lose(),
        ["DREP"],
        "as for a connection that is not there"
    );
    assert!(world.take(1).is_empty());
    world.machines[1].disconnect(b, world.now).unwrap();
}

#[test]
fn listeners_are_bounded() {
    let mut world = World::new();
    let mut at = |port: usize| {
        let at = Listen {
            service: ServiceId(port as u64),
            at: Addresses::All,
        };
        world.machines[0].listen(at, 1)
    };
    for port in 0..MAX_LISTENERS {
        at(port).unwrap();
    }
    assert_eq!(at(MAX_LISTENERS), Err(Refused::Full));
}

#[test]
fn strange_bytes_are_none_of_ours() {
    let mut world = World::new();
    let ends = Ends {
        local: world.gids[0],
        remote: world.gids[1],
    };
    let received = |qpn, bytes| Received {
        ends,
        qpn,
        pkey: Pkey::DEFAULT,
        bytes,
    };
    assert!(!world.machines[0].receive(&received(Qpn::GSI, &[7; 256]), world.now));
    assert!(!world.machines[0].receive(&received(Qpn::GSI, &[]), world.now));
    world.call(0x11);
    let bytes = world.queue[0].to_bytes();
    assert!(!world.machines[0].receive(&received(Qpn::default(), &bytes), world.now));
    assert!(world.machines[0].receive(&received(Qpn::GSI, &bytes), world.now));
}
