//! Shared receive queues.

use vrdma_driver::object::{Connection, QpShape, Srq, qp_state};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Pair, PairOptions};
use vrdma_pvrdma::abi::event::EventCode;

/// A pair whose end `b` uses a shared receive queue.
fn shared(slots: u32) -> (Pair, Srq) {
    let mut pair = Pair::with(PairOptions::default());
    let (a, mut b) = (pair.a.clone(), pair.b.clone());
    let gids = [pair.fabric[0].gid(), pair.fabric[1].gid()];
    let vm = &mut pair.fabric[1];
    let srq = vm.create_srq(b.pd, slots, 2).unwrap();
    let cqs = (&b.send_cq, &b.recv_cq);
    b.qp = vm.create_qp(b.pd, cqs, Some(&srq), QpShape::RC).unwrap();
    vm.connect(&b.qp, &Connection::to(a.qp.qpn, gids[0]))
        .unwrap();
    pair.fabric[0].reset_qp(&a.qp).unwrap();
    pair.fabric[0]
        .connect(&a.qp, &Connection::to(b.qp.qpn, gids[1]))
        .unwrap();
    pair.b = b;
    (pair, srq)
}

fn post(pair: &mut Pair, srq: &Srq, id: u64) {
    let sge = pair.b.sge(id * 64, 64);
    pair.fabric[1].post_srq_recv(srq, id, &[sge]).unwrap();
}

#[test]
fn receives_come_from_the_shared_queue() {
    let (mut pair, srq) = shared(16);
    for round in 0..5 {
        for id in 0..16 {
            post(&mut pair, &srq, id);
        }
        for id in 0..16 {
            let request = SendWork::send(id).sge(pair.a.sge(id * 64, 64));
            pair.send(&request);
        }
        let ids: Vec<_> = pair.received().iter().map(|done| done.id).collect();
        assert_eq!(ids, (0..16).collect::<Vec<_>>(), "round {round}");
        assert_eq!(pair.sent().len(), 16);
        assert_eq!(pair.bytes_of_b(0, 1024), pair.bytes_of_a(0, 1024));
    }
}

#[test]
fn an_empty_shared_queue_makes_the_sender_wait() {
    let (mut pair, srq) = shared(4);
    pair.send(&SendWork::send(1).sge(pair.a.sge(0, 64)));
    assert_eq!(pair.sent(), []);
    post(&mut pair, &srq, 3);
    pair.fabric.pass(std::time::Duration::from_millis(10));
    assert_eq!(pair.sent()[0].status, 0);
    assert_eq!(pair.received()[0].id, 3);
}

#[test]
fn the_limit_is_reported_once_when_armed() {
    let (mut pair, srq) = shared(16);
    for id in 0..8 {
        post(&mut pair, &srq, id);
    }
    pair.fabric[1].set_srq_limit(&srq, 6).unwrap();
    let limit = |pair: &mut Pair| pair.fabric[1].query_srq(&srq).unwrap().srq_limit.get();
    assert_eq!(limit(&mut pair), 6);
    assert_eq!(pair.fabric[1].take_events(), []);
    let request = SendWork::send(1).sge(pair.a.sge(0, 64));
    pair.send(&request);
    pair.send(&request);
    assert_eq!(pair.fabric[1].take_events(), []);
    for _ in 0..3 {
        pair.send(&request);
    }
    let events = pair.fabric[1].take_events();
    assert_eq!(events, [(EventCode::SrqLimitReached, srq.handle)]);
    assert_eq!(limit(&mut pair), 0, "it is disarmed");
}

#[test]
fn a_limit_above_what_is_posted_is_reported_at_once() {
    let (mut pair, srq) = shared(16);
    post(&mut pair, &srq, 1);
    pair.fabric[1].set_srq_limit(&srq, 5).unwrap();
    let events = pair.fabric[1].take_events();
    assert_eq!(events, [(EventCode::SrqLimitReached, srq.handle)]);
}

#[test]
fn a_queue_pair_in_error_reports_that_it_takes_no_more() {
    let (mut pair, srq) = shared(16);
    post(&mut pair, &srq, 1);
    let qp = pair.b.qp.clone();
    pair.fabric[1].set_qp_state(&qp, qp_state::ERR).unwrap();
    pair.fabric.pump();
    let events = pair.fabric[1].take_events();
    assert!(
        events.contains(&(EventCode::QpLastWqeReached, qp.handle)),
        "{events:?}"
    );
    assert_eq!(pair.received(), [], "what is shared stays for the others");
}

#[test]
fn queries_answer_what_was_asked_for() {
    let (mut pair, srq) = shared(16);
    let attrs = pair.fabric[1].query_srq(&srq).unwrap();
    assert_eq!(
        (
            attrs.max_wr.get(),
            attrs.max_sge.get(),
            attrs.srq_limit.get()
        ),
        (16, 2, 0)
    );
}
