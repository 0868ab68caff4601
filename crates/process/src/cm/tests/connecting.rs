//! Connection requests, their answers, and disconnecting.

use super::*;

#[test]
pub(super) fn two_processes_connect_and_part() {
    let mut world = World::new();
    let (a, caller, b, child) = connected(&mut world);
    let rtr = |id| InitQp {
        id,
        state: 2,
        reserved: 0,
    };
    let (ours, theirs) = (
        world.ask(&a, &rtr(caller)).unwrap(),
        world.ask(&b, &rtr(child)).unwrap(),
    );
    assert_eq!((ours.dest_qp_num, theirs.dest_qp_num), (0x22, 0x11));
    assert_eq!(ours.dgid, Gid::from_ipv4(ip(2)).0);
    assert_eq!(ours.rq_psn, theirs.rq_psn);
    let rts = InitQp {
        id: caller,
        state: 3,
        reserved: 0,
    };
    let rts = world.ask(&a, &rts).unwrap();
    assert_eq!((rts.sq_psn, rts.rnr_retry), (theirs.rq_psn, 5));
    world.ask(&a, &Disconnect { id: caller }).unwrap();
    world.expect(&a, caller, EventKind::Disconnected);
    world.expect(&b, child, EventKind::Disconnected);
    world.ask(&b, &Disconnect { id: child }).unwrap();
    world.now = world.service.deadline().unwrap();
    world.service.expire(world.now);
    world.expect(&a, caller, EventKind::TimewaitExit);
    for (process, id) in [(&a, caller), (&b, child)] {
        world.ask(process, &DestroyId { id }).unwrap();
    }
    world.silent(&a);
    assert_eq!(world.service.deadline(), None);
}

#[test]
pub(super) fn both_ends_may_be_on_one_adapter_and_called_by_the_loopback_address() {
    let mut world = World::new();
    let process = world.process("a");
    let (listener, port) = world.listen(&process, at(Ipv4Addr::UNSPECIFIED, 7000), TCP.0, TCP.1);
    let caller = world.resolved(&process, at(Ipv4Addr::LOCALHOST, port), TCP.0, TCP.1);
    world.connect(&process, caller);
    let called = world.event(&process);
    assert_eq!(called.listener, listener);
    let reject = Reject {
        id: called.id,
        private: PrivateData::new(b"no").unwrap(),
        ..Reject::default()
    };
    world.ask(&process, &reject).unwrap();
    let rejected = world.expect(&process, caller, EventKind::Rejected);
    assert_eq!(rejected.status, 28);
    assert_eq!(&rejected.parameters.private.as_bytes()[..3], b"no\0");
}

#[test]
pub(super) fn datagram_services_are_resolved() {
    let mut world = World::new();
    let (a, b) = (world.process("a"), world.process("b"));
    let udp = (space::UDP, qp_type::UD);
    let (_, port) = world.listen(&b, at(Ipv4Addr::UNSPECIFIED, 0), udp.0, udp.1);
    let caller = world.resolved(&a, at(ip(2), port), udp.0, udp.1);
    world.connect(&a, caller);
    let called = world.event(&b);
    assert_eq!(&called.parameters.private.as_bytes()[..5], b"hello");
    let accept = Accept {
        id: called.id,
        parameters: parameters(0x33, b""),
    };
    world.ask(&b, &accept).unwrap();
    let found = world.expect(&a, caller, EventKind::Established);
    assert_eq!(
        (found.parameters.qp_num, found.parameters.qkey),
        (0x33, 0x0123_4567)
    );
    assert_eq!(found.peer.dgid, Gid::from_ipv4(ip(2)).0);
    let nobody = world.resolved(&a, at(ip(2), port + 1), udp.0, udp.1);
    world.connect(&a, nobody);
    let missing = world.expect(&a, nobody, EventKind::Unreachable);
    assert_eq!(missing.status, 1);
}

#[test]
pub(super) fn an_offered_queue_pair_is_told_without_its_process() {
    let mut world = World::new();
    let (a, b) = (world.process("a"), world.process(""));
    let (space, qp_type) = (space::UDP, qp_type::UD);
    let id = world.id(&b, space, qp_type);
    let offer = Offer {
        id,
        qp_num: 0x33,
        qkey: 0,
        adapter: Name::new("b").unwrap(),
    };
    assert_eq!(world.ask(&b, &offer), Err(Errno::INVAL), "not bound");
    let local = at(Ipv4Addr::UNSPECIFIED, 7174);
    world.ask(&b, &Bind { id, local }).unwrap();
    let nowhere = Offer {
        adapter: Name::new("c").unwrap(),
        ..offer
    };
    assert_eq!(world.ask(&b, &nowhere), Err(Errno::NODEV));
    let wide = Offer {
        qp_num: 1 << 24,
        ..offer
    };
    assert_eq!(world.ask(&b, &wide), Err(Errno::INVAL));
    world.ask(&b, &offer).unwrap();
    let listen = Listen {
        id,
        ..Listen::default()
    };
    world.ask(&b, &listen).unwrap();
    // More often than requests may wait for an answer.
    for _ in 0..vrdma_cm::MAX_BACKLOG + 1 {
        let asking = world.resolved(&a, at(ip(2), 7174), space, qp_type);
        world.connect(&a, asking);
        let found = world.expect(&a, asking, EventKind::Established);
        let told = (found.parameters.qp_num, found.parameters.qkey);
        assert_eq!(told, (0x33, 0x0123_4567));
        world.ask(&a, &DestroyId { id: asking }).unwrap();
    }
    // Nothing is offered at the other adapter.
    let asking = world.resolved(&a, at(ip(1), 7174), space, qp_type);
    world.connect(&a, asking);
    let no = world.expect(&a, asking, EventKind::Unreachable);
    assert_eq!(no.status, 2);
    world.silent(&b);
}

#[test]
pub(super) fn nobody_listens_and_nobody_answers() {
    let mut world = World::new();
    let a = world.process("a");
    let caller = world.resolved(&a, at(ip(2), 9), TCP.0, TCP.1);
    world.connect(&a, caller);
    assert_eq!(world.expect(&a, caller, EventKind::Rejected).status, 8);
    let caller = world.resolved(&a, at(ip(2), 9), TCP.0, TCP.1);
    let parameters = parameters(1, b"");
    put(
        &a.socket,
        &Connect {
            id: caller,
            parameters,
        },
    );
    world.service.serve(a.id, world.now);
    while let Some(deadline) = world.service.deadline() {
        while world.service.next_outgoing().is_some() {}
        world.now = deadline;
        world.service.expire(deadline);
    }
    answer::<Connect>(&a.socket).unwrap();
    let status = world.expect(&a, caller, EventKind::Unreachable).status;
    assert_eq!(status, -Errno::TIMEDOUT.raw_os_error());
}

#[test]
pub(super) fn a_process_that_dies_ends_its_connections_and_calls() {
    let mut world = World::new();
    let (a, _, b, child) = connected(&mut world);
    world.hang_up(a.id, a.socket);
    world.carry();
    world.expect(&b, child, EventKind::Disconnected);
    assert!(world.service.socket(a.id).is_none());
}

#[test]
pub(super) fn a_listener_that_goes_takes_unseen_calls_along() {
    let mut world = World::new();
    let (a, b) = (world.process("a"), world.process("b"));
    let (listener, port) = world.listen(&b, at(ip(2), 0), TCP.0, TCP.1);
    let caller = world.resolved(&a, at(ip(2), port), TCP.0, TCP.1);
    world.connect(&a, caller);
    world.ask(&b, &DestroyId { id: listener }).unwrap();
    assert_eq!(world.expect(&a, caller, EventKind::Rejected).status, 28);
    let channel = b.channel;
    world.ask(&b, &DestroyChannel { channel }).unwrap();
}

/// A request with the number of another user's queue pair would end that queue pair's connection: the peer would take
/// the request for a reconnect.
#[test]
fn rule_p46_nobody_connects_with_somebody_elses_queue_pair() {
    let mut world = World::new();
    let (a, caller, b, called) = connected(&mut world);
    let (listener, port) = world.listen(&b, at(ip(2), 0), TCP.0, TCP.1);
    let thief = world.process("a");
    let id = world.resolved(&thief, at(ip(2), port), TCP.0, TCP.1);
    // From here on no queue pair belongs to this user.
    world.queue_pairs.clear();
    let parameters = parameters(0x11, b"hello");
    let stolen = world.ask(&thief, &Connect { id, parameters });
    assert_eq!(stolen.err(), Some(Errno::PERM));
    let offers = world.id(&b, space::UDP, qp_type::UD);
    let local = at(ip(2), 7174);
    world.ask(&b, &Bind { id: offers, local }).unwrap();
    let offer = Offer {
        id: offers,
        qp_num: 0x22,
        qkey: 0,
        adapter: Name::new("b").unwrap(),
    };
    assert_eq!(world.ask(&b, &offer), Err(Errno::PERM));
    for (process, id) in [(&a, caller), (&b, called), (&b, listener)] {
        let silent = world.ask(
            process,
            &GetEvent {
                channel: process.channel,
            },
        );
        assert_eq!(silent.err(), Some(Errno::AGAIN), "{id}");
    }
}
