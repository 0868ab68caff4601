//! Objects and their owners.

use vrdma_verbs::attr::QpState;
use vrdma_verbs::counters::Counts;
use vrdma_verbs::object::{CqId, MrId, Owner, PdId, QpId, QpSpec, QpType, SrqId};
use vrdma_verbs::work::{Event, SendOp, Status};
use vrdma_verbs::{Error, ReceiveQueue};
use vrdma_wire::{Gid, Qpn};

use crate::pair::node::{ALL, limits};
use crate::pair::{Node, Pair, Setup};

fn node() -> Node {
    Node::new(1, QpType::Rc, &Setup::default())
}

fn spec(node: &Node) -> QpSpec {
    *node.hca.qp_spec(node.qp).unwrap()
}

#[test]
fn tables_are_bounded_and_late_to_reuse() {
    let mut node = node();
    let mut spec = spec(&node);
    spec.qp_type = QpType::Ud;
    let mut made = vec![node.qp];
    while let Ok(qp) = node.hca.create_qp(spec) {
        made.push(qp);
    }
    assert_eq!(made.len() as u32, limits().qps - 1);
    assert_eq!(made[0], QpId(1));
    assert_eq!(node.hca.create_qp(spec), Err(Error::Exhausted));
    let numbers: Vec<_> = made.iter().map(|qp| node.hca.qpn(*qp).unwrap()).collect();
    node.hca.destroy_qp(made[4]).unwrap();
    node.hca.destroy_qp(made[2]).unwrap();
    let again = node.hca.create_qp(spec).unwrap();
    assert_eq!(again, made[4]);
    assert_eq!(node.hca.qp_named(numbers[4]), None, "another has its slot");
    assert_eq!(node.hca.qp_named(numbers[2]), None, "nothing is there");
    let number = node.hca.qpn(again).unwrap();
    assert!(!numbers.contains(&number));
    assert_eq!(node.hca.qp_named(number), Some(again));
    let others = (0..).zip(&made).filter(|(at, _)| ![2, 4].contains(at));
    for (at, qp) in others {
        assert_eq!(node.hca.qp_named(numbers[at]), Some(*qp));
    }
    let unique: std::collections::HashSet<_> = numbers.iter().collect();
    assert_eq!(unique.len(), numbers.len());
    assert!(numbers.iter().all(|qpn| !(0..2).contains(&qpn.get())));
}

/// F15: with one known number, all numbers beside it were known, too, except for 8 bits.
#[test]
fn numbers_and_keys_say_nothing_of_slots() {
    let mut node = node();
    let mut spec = spec(&node);
    spec.qp_type = QpType::Ud;
    let (mut numbers, mut keys) = (Vec::new(), Vec::new());
    while let Ok(qp) = node.hca.create_qp(spec) {
        numbers.push(node.hca.qpn(qp).unwrap().get());
        keys.push(node.register(8, ALL).keys.rkey.index());
    }
    for all in [numbers, keys] {
        assert!(all.len() > 10);
        let steps = all.windows(2).map(|two| two[0].abs_diff(two[1]));
        let near = steps.filter(|step| *step < 1 << 16).count();
        assert!(near < 4, "{all:x?}");
    }
}

#[test]
fn another_life_has_other_numbers() {
    let number = |seed| Node::new(seed, QpType::Rc, &Setup::default()).name().qpn;
    let numbers: std::collections::HashSet<Qpn> = (1..=16).map(number).collect();
    assert!(numbers.len() > 10);
    assert_eq!(number(3), number(3));
}

#[test]
fn what_is_in_use_stays() {
    let setup = Setup {
        srq: true,
        ..Setup::default()
    };
    let mut node = Node::new(1, QpType::Rc, &setup);
    let srq = node.srq.unwrap();
    assert_eq!(node.hca.destroy_pd(node.pd), Err(Error::InUse));
    assert_eq!(node.hca.destroy_cq(node.send_cq), Err(Error::InUse));
    assert_eq!(node.hca.destroy_srq(srq), Err(Error::InUse));
    node.hca.destroy_qp(node.qp).unwrap();
    node.hca.destroy_cq(node.send_cq).unwrap();
    assert_eq!(node.hca.destroy_pd(node.pd), Err(Error::InUse));
    node.hca.destroy_srq(srq).unwrap();
    let mr = node.register(8, ALL);
    assert_eq!(node.hca.destroy_pd(node.pd), Err(Error::InUse));
    node.hca.deregister(mr.keys.id).unwrap();
    node.hca.destroy_pd(node.pd).unwrap();
    node.hca.destroy_cq(node.recv_cq).unwrap();
    assert_eq!(node.hca.counts(), Counts::default());
}

#[test]
fn unknown_handles_are_refused() {
    let mut node = node();
    let none = Err(Error::InvalidHandle);
    assert_eq!(node.hca.destroy_pd(PdId(7)), none);
    assert_eq!(node.hca.destroy_cq(CqId(u32::MAX)), none);
    assert_eq!(node.hca.destroy_srq(SrqId(0)), none);
    assert_eq!(node.hca.destroy_qp(QpId(0)), none);
    assert_eq!(node.hca.destroy_qp(QpId(9)), none);
    assert_eq!(node.hca.deregister(MrId(3)), none);
    assert_eq!(node.hca.fail_qp(QpId(9)), none);
    assert_eq!(node.hca.query_qp(QpId(9)).err(), Some(Error::InvalidHandle));
    assert_eq!(node.hca.send_room(QpId(9)), 0);
}

#[test]
fn owners_do_not_mix() {
    let mut node = node();
    let mut foreign = spec(&node);
    foreign.recv_cq = node.hca.create_cq(Owner(5)).unwrap();
    assert_eq!(node.hca.create_qp(foreign), Err(Error::WrongOwner));
    let other = node.hca.create_pd(Owner::KERNEL).unwrap();
    let mut shared = spec(&node);
    shared.srq = Some(node.hca.create_srq(other, 0).unwrap());
    assert_eq!(node.hca.create_qp(shared), Err(Error::WrongOwner));
}

#[test]
fn there_is_one_gsi_and_it_is_the_kernels() {
    let mut node = Node::new(1, QpType::Gsi, &Setup::default());
    let gsi = spec(&node);
    assert_eq!(node.hca.create_qp(gsi), Err(Error::InUse));
    node.hca.destroy_qp(node.qp).unwrap();
    let pd = node.hca.create_pd(Owner(5)).unwrap();
    let cq = node.hca.create_cq(Owner(5)).unwrap();
    let mut user = QpSpec {
        pd,
        send_cq: cq,
        recv_cq: cq,
        ..gsi
    };
    assert_eq!(node.hca.create_qp(user), Err(Error::WrongOwner));
    user.qp_type = QpType::Ud;
    node.hca.create_qp(user).unwrap();
    node.hca.create_qp(gsi).unwrap();
}

#[test]
fn everything_of_an_owner_goes_together() {
    let mut node = node();
    let before = node.hca.counts();
    let owner = Owner(5);
    let pd = node.hca.create_pd(owner).unwrap();
    let cq = node.hca.create_cq(owner).unwrap();
    let srq = node.hca.create_srq(pd, 0).unwrap();
    node.register_in(pd, 64, ALL);
    let spec = QpSpec {
        pd,
        send_cq: cq,
        recv_cq: cq,
        srq: Some(srq),
        ..spec(&node)
    };
    let qp = node.hca.create_qp(spec).unwrap();
    assert_eq!(node.hca.owner_of_qp(qp), Some(owner));
    assert_eq!(node.hca.owner_of_cq(cq), Some(owner));
    assert_eq!(node.hca.owner_of_srq(srq), Some(owner));
    assert_eq!(node.hca.owner_of_pd(pd), Some(owner));
    node.hca.destroy_owner(owner);
    assert_eq!(node.hca.counts(), before);
    assert_eq!(node.hca.owner_of_qp(qp), None);
}

#[test]
fn a_failed_cq_takes_its_queue_pairs_along() {
    let mut pair = Pair::rc();
    pair.a().receive(9, &[]);
    let cq = pair.a().recv_cq;
    pair.a().hca.fail_cq(cq).unwrap();
    pair.a().hca.fail_cq(cq).unwrap();
    pair.a().drain_outputs();
    assert_eq!(pair.a().events, [Event::CqError(cq)]);
    assert_eq!(pair.a().state(), QpState::Err);
    assert_eq!(pair.a().receives(), [(9, Status::WrFlush)]);
    let spec = spec(pair.a());
    assert_eq!(pair.a().hca.create_qp(spec), Err(Error::InvalidState));
}

#[test]
fn a_failed_srq_takes_its_queue_pairs_along() {
    let setup = Setup {
        srq: true,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Rc, setup);
    let (srq, qp) = (pair.b().srq.unwrap(), pair.b().qp);
    pair.b().hca.fail_srq(srq).unwrap();
    pair.b().drain_outputs();
    let events = [Event::SrqError(srq), Event::LastWqeReached(qp)];
    assert_eq!(pair.b().events, events);
    let wr = vrdma_verbs::work::RecvWr {
        id: 1,
        sges: Ok(Default::default()),
    };
    let refused = pair.b().hca.post_srq_recv(srq, wr);
    assert_eq!(refused, Err(Error::InvalidState));
}

#[test]
fn a_failed_queue_pair_says_so_once() {
    let mut pair = Pair::rc();
    let qp = pair.a().qp;
    pair.a().hca.fail_qp(qp).unwrap();
    pair.a().hca.fail_qp(qp).unwrap();
    pair.a().drain_outputs();
    assert_eq!(pair.a().events, [Event::QpFatal(qp)]);
}

#[test]
fn a_shared_queue_warns_once_below_its_limit() {
    let setup = Setup {
        srq: true,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Rc, setup);
    let node = pair.b();
    let srq = node.srq.unwrap();
    node.hca.modify_srq_limit(srq, 4).unwrap();
    for available in [5, 4, 3, 2] {
        node.hca.srq_available(srq, available).unwrap();
    }
    node.drain_outputs();
    assert_eq!(node.events, [Event::SrqLimitReached(srq)]);
}

#[test]
fn a_shared_queue_serves_in_order() {
    let setup = Setup {
        srq: true,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Rc, setup);
    for id in [7, 8] {
        pair.b().receive(id, &[]);
        pair.a().send(id, SendOp::Send, &[]);
    }
    pair.run();
    let done = |id| (id, Status::Success);
    assert_eq!(pair.b().receives(), [done(7), done(8)]);
}

#[test]
fn a_receive_is_wanted_when_one_would_be_taken() {
    for srq in [false, true] {
        let setup = Setup {
            srq,
            ..Setup::default()
        };
        let mut pair = Pair::with(QpType::Rc, setup);
        pair.unit_bytes = 1024;
        let data = pair.a().register(2048, ALL);
        let to = pair.b().register(2048, ALL);
        pair.a().send(1, SendOp::Write(to.remote(0)), &[data.sge()]);
        pair.a().send(2, SendOp::Send, &[data.sge()]);
        let units = pair.transmit(0);
        let queue = match pair.b().srq {
            Some(srq) => ReceiveQueue::Shared(srq),
            None => ReceiveQueue::Own(pair.b().qp),
        };
        let wants = |pair: &mut Pair, unit: usize| pair.b().hca.wants_receive(&units[unit]);
        assert_eq!(wants(&mut pair, 2), None, "not its turn");
        assert_eq!(wants(&mut pair, 0), None, "a WRITE");
        pair.deliver(1, &units[0]);
        pair.deliver(1, &units[1]);
        assert_eq!(wants(&mut pair, 2), Some(queue));
        pair.b().receive(9, &[to.sge()]);
        assert_eq!(wants(&mut pair, 2), None, "staged");
        pair.deliver(1, &units[2]);
        assert_eq!(wants(&mut pair, 3), None, "held");
    }
}

#[test]
fn destroyed_queue_pairs_complete_nothing() {
    let mut pair = Pair::rc();
    pair.a().send(1, SendOp::Refused(Status::LocQpOp), &[]);
    let qp = pair.a().qp;
    assert!(pair.transmit(0).is_empty());
    pair.a().hca.destroy_qp(qp).unwrap();
    assert_eq!(pair.a().hca.poll_output(), None);
    assert_eq!(pair.next_deadline(), None);
}

#[test]
fn gids_are_checked() {
    let mut node = node();
    let bad = Err(Error::InvalidAttribute);
    assert_eq!(node.hca.bind_gid(4, node.gid), bad);
    assert_eq!(node.hca.bind_gid(0, Gid::default()), bad);
    assert_eq!(node.hca.bind_gid(0, Gid([0xff; 16])), bad);
    assert_eq!(node.hca.unbind_gid(4).err(), Some(Error::InvalidAttribute));
    assert_eq!(node.hca.unbind_gid(0), Ok(Some(node.gid)));
    assert_eq!(node.hca.gid(0), None);
}

#[test]
fn windows_are_bounded() {
    let mut pair = Pair::rc();
    let node = pair.a();
    let room = node.hca.send_room(node.qp);
    for id in 0..u64::from(room) {
        node.send(id, SendOp::Send, &[]);
    }
    let wr = crate::pair::node::send_wr(0, SendOp::Send, &[]);
    assert_eq!(node.hca.send_room(node.qp), 0);
    assert_eq!(node.hca.post_send(node.qp, wr), Err(Error::Exhausted));
    for id in 0..u64::from(node.hca.receive_room(node.qp)) {
        node.receive(id, &[]);
    }
    let wr = vrdma_verbs::work::RecvWr {
        id: 1,
        sges: Ok(Default::default()),
    };
    assert_eq!(node.hca.post_recv(node.qp, wr), Err(Error::Exhausted));
}
