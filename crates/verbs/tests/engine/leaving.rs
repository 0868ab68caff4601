//! Owners that leave: unusable at once, freed piece by piece, and reported object by object.

mod any_order;

use vrdma_verbs::attr::Access;
use vrdma_verbs::object::{MrKind, MrSpec, Owner, QpId, QpSpec, QpType, WindowKind};
use vrdma_verbs::saved::NotQuiet;
use vrdma_verbs::work::{Event, SendOp, Status};
use vrdma_verbs::{Error, Hca, Pace, Reaped};
use vrdma_wire::Gid;

use crate::pair::node::{ALL, datagram, send_wr};
use crate::pair::{Node, Pair, Region, Setup};

fn reap_all(hca: &mut Hca<Region>) -> Vec<Reaped> {
    let mut freed = Vec::new();
    while hca.reap(3, |object| freed.push(object)) {}
    freed
}

#[test]
fn what_is_sent_to_one_that_leaves_is_lost() {
    for pace in [Pace::Local, Pace::Wire] {
        let mut pair = Pair::rc();
        pair.pace = pace;
        let to = pair.b().register(8, ALL);
        let data = pair.a().holding(&[0xee; 8]);
        pair.a().send(1, SendOp::Write(to.remote(0)), &[data.sge()]);
        pair.b().hca.retire_owner(Owner::KERNEL);
        pair.run();
        assert_eq!(pair.b().hca.counters().drops.unknown_qp, 1, "{pace:?}");
        assert_eq!(pair.b().bytes(&to), [0; 8]);
        pair.run_dry();
        assert_eq!(pair.a().sends(), [(1, Status::RetryExc)]);
        assert_eq!(reap_all(&mut pair.b().hca).len(), 6);
        assert_eq!(pair.b().hca.counts(), Default::default());
    }
}

#[test]
fn one_that_leaves_says_nothing_more() {
    for pace in [Pace::Local, Pace::Wire] {
        let mut pair = Pair::rc();
        pair.pace = pace;
        pair.b().receive(1, &[]);
        pair.a().send(1, SendOp::Send, &[]);
        pair.a().send(2, SendOp::Send, &[]);
        let sent = pair.transmit(0);
        pair.a().hca.retire_owner(Owner::KERNEL);
        let answers = sent.iter().filter_map(|unit| pair.deliver(1, unit));
        let answer = answers.last().unwrap();
        pair.respond(0, &answer);
        assert_eq!(pair.a().hca.counters().drops.stale_response, 1);
        pair.a().hca.bind_gid(1, Gid([7; 16])).unwrap();
        assert_eq!(pair.transmit(0).len(), 0);
        pair.advance(std::time::Duration::from_secs(60));
        assert_eq!(pair.a().hca.counters().retries, 0);
        assert_eq!(pair.a().sends(), []);
    }
}

/// READ data that is owed to a peer behind a wire is not sent.
#[test]
fn one_that_leaves_owes_nothing() {
    let mut pair = Pair::wired(QpType::Rc, Setup::default());
    let from = pair.b().register(10_000, ALL);
    let to = pair.a().register(10_000, ALL);
    pair.a().send(1, SendOp::Read(from.remote(0)), &[to.sge()]);
    let now = pair.now;
    for frame in pair.frames_of(0) {
        pair.b().receive_frame(&frame, now);
    }
    assert!(pair.b().hca.poll_reply(now, &mut Pace::Wire).is_some());
    pair.b().hca.retire_owner(Owner::KERNEL);
    assert!(pair.b().hca.poll_reply(now, &mut Pace::Wire).is_none());
    reap_all(&mut pair.b().hca);
}

#[test]
fn completions_and_events_of_one_that_leaves_are_not_handed_out() {
    let mut pair = Pair::rc();
    let node = pair.a();
    let other = node.hca.create_cq(Owner(5)).unwrap();
    node.send(1, SendOp::Refused(Status::LocQpOp), &[]);
    pair.transmit(0);
    let node = pair.a();
    node.hca.fail_cq(other).unwrap();
    node.hca.fail_cq(node.recv_cq).unwrap();
    node.hca.retire_owner(Owner::KERNEL);
    node.drain_outputs();
    assert_eq!(node.events, [Event::CqError(other)]);
    assert_eq!(node.sends(), []);
    reap_all(&mut node.hca);
    assert_eq!(node.hca.poll_output(), None);
}

#[test]
fn one_that_leaves_gets_nothing_new() {
    let mut node = Node::new(1, QpType::Rc, &Setup::default());
    let mr = node.register(8, ALL);
    let (spec, qp) = (*node.hca.qp_spec(node.qp).unwrap(), node.qp);
    let (pd, hca) = (node.pd, &mut node.hca);
    hca.retire_owner(Owner::KERNEL);
    assert!(hca.is_leaving(Owner::KERNEL) && !hca.is_leaving(Owner(5)));
    assert_eq!(hca.create_pd(Owner::KERNEL), Err(Error::Leaving));
    assert_eq!(hca.create_cq(Owner::KERNEL), Err(Error::Leaving));
    assert_eq!(hca.create_srq(pd, 0), Err(Error::Leaving));
    assert_eq!(hca.create_qp(spec), Err(Error::Leaving));
    assert_eq!(hca.alloc_mw(pd, WindowKind::One), Err(Error::Leaving));
    assert_eq!(hca.register(pd, region()), Err(Error::Leaving));
    let again = hca.reregister(mr.keys.id, pd, region());
    assert_eq!(again, Err(Error::Leaving));
    assert!(hca.region_behind(qp, mr.keys.rkey).is_none());
    reap_all(hca);
    assert!(!hca.is_leaving(Owner::KERNEL));
    hca.create_pd(Owner::KERNEL).unwrap();
}

fn region() -> MrSpec<Region> {
    MrSpec {
        kind: MrKind::User,
        start: 0,
        length: 8,
        access: Access::all(),
        region: Some(0),
    }
}

#[test]
fn groups_do_not_hear_through_one_that_leaves() {
    let mut pair = Pair::ud();
    let group = Gid([0xff; 16]);
    let qp = pair.b().qp;
    pair.b().hca.attach_mcast(qp, group).unwrap();
    let mut wr = send_wr(1, SendOp::Send, &[]);
    let mut to = datagram(pair.b().name());
    to.address.dgid = group;
    to.qpn = vrdma_wire::Qpn::MULTICAST;
    wr.datagram = Some(to);
    pair.a().post(wr);
    let unit = pair.transmit(0).remove(0);
    assert_eq!(pair.b().hca.fan_out(&unit).len(), 1);
    pair.b().hca.retire_owner(Owner::KERNEL);
    assert_eq!(pair.b().hca.fan_out(&unit).len(), 0);
    reap_all(&mut pair.b().hca);
    assert_eq!(pair.b().hca.multicast_groups().count(), 0);
}

/// A number is in use until its object is freed, and its successor inherits nothing.
#[test]
fn numbers_are_taken_until_they_are_freed() {
    let mut node = Node::new(1, QpType::Rc, &Setup::default());
    let owner = Owner(5);
    let before = node.hca.counts();
    let (pd, cq) = (
        node.hca.create_pd(owner).unwrap(),
        node.hca.create_cq(owner).unwrap(),
    );
    let spec = QpSpec::new(QpType::Rc, pd, cq, cq);
    while node.hca.create_qp(spec).is_ok() {}
    node.hca.retire_owner(owner);
    let own = *node.hca.qp_spec(node.qp).unwrap();
    assert_eq!(node.hca.create_qp(own), Err(Error::Exhausted));
    let mut freed = Vec::new();
    assert!(node.hca.reap(1, |object| freed.push(object)));
    let [Reaped::Qp(first)] = freed[..] else {
        panic!("{freed:?}");
    };
    assert_eq!(node.hca.create_qp(own), Ok(first));
    reap_all(&mut node.hca);
    assert_eq!(node.hca.counts().qps, before.qps + 1);
    assert_eq!(node.hca.owner_of_qp(first), Some(Owner::KERNEL));
}

/// An adapter is saved with objects that have an owner, not with those that are being freed.
#[test]
fn what_leaves_is_not_saved() {
    let mut node = Node::new(1, QpType::Rc, &Setup::default());
    node.hca.create_cq(Owner(5)).unwrap();
    node.hca.retire_owner(Owner(5));
    let save = |node: &Node| node.hca.save(|region| region.to_le_bytes().to_vec());
    assert_eq!(save(&node), Err(NotQuiet::Leaving));
    assert!(!node.hca.reap(9, |_| {}));
    assert!(save(&node).is_ok());
}

/// Posted work is dropped within the budget, too.
#[test]
fn posted_work_is_dropped_in_slices() {
    let setup = Setup {
        srq: true,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Rc, setup);
    let node = pair.a();
    for id in 0..100 {
        node.send(id, SendOp::Send, &[]);
        node.receive(id, &[]);
    }
    node.hca.retire_owner(Owner::KERNEL);
    let mut freed = Vec::new();
    let mut calls = 0;
    while node.hca.reap(10, |object| freed.push(object)) {
        calls += 1;
    }
    // 100 sends, 100 receives, then a QP, an SRQ, two CQs, a PD and the owner.
    assert_eq!((calls, freed.len()), (20, 6));
}

/// Other owners notice nothing.
#[test]
fn neighbours_of_one_that_leaves_go_on() {
    for pace in [Pace::Local, Pace::Wire] {
        let mut pair = Pair::rc();
        pair.pace = pace;
        let hca = &mut pair.nodes[1].hca;
        let (pd, cq) = (
            hca.create_pd(Owner(5)).unwrap(),
            hca.create_cq(Owner(5)).unwrap(),
        );
        for _ in 0..8 {
            hca.create_qp(QpSpec::new(QpType::Rc, pd, cq, cq)).unwrap();
            hca.register(pd, region()).unwrap();
        }
        let data = pair.a().register(5000, ALL);
        let to = pair.b().register(5000, ALL);
        pair.b().hca.retire_owner(Owner(5));
        for id in 0..20 {
            pair.b().receive(id, &[to.sge()]);
            pair.a().send(id, SendOp::Send, &[data.sge()]);
            while pair.step() {
                pair.nodes[1].hca.reap(1, |_| {});
            }
        }
        pair.run();
        let done: Vec<_> = (0..20).map(|id| (id, Status::Success)).collect();
        assert_eq!(pair.a().sends(), done);
        assert_eq!(pair.b().receives(), done);
        assert!(!pair.b().hca.is_reaping());
    }
}

/// The kernel's QP1 goes with the kernel, and there may be another one afterwards.
#[test]
fn the_gsi_leaves_with_its_owner() {
    let mut node = Node::new(1, QpType::Gsi, &Setup::default());
    node.hca.retire_owner(Owner::KERNEL);
    let freed = reap_all(&mut node.hca);
    assert_eq!(freed[0], Reaped::Qp(QpId(node.qp.0)));
    let pd = node.hca.create_pd(Owner::KERNEL).unwrap();
    let cq = node.hca.create_cq(Owner::KERNEL).unwrap();
    node.hca
        .create_qp(QpSpec::new(QpType::Gsi, pd, cq, cq))
        .unwrap();
}
