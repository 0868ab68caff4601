//! Doorbells and completion notifications, mapped and trapped.

use std::time::Duration;

use vrdma_driver::work::SendWork;
use vrdma_driver::{Pair, PairOptions};

fn pair(maps_doorbells: bool) -> Pair {
    Pair::on(
        |config| config.maps_doorbells = maps_doorbells,
        PairOptions::default(),
    )
}

const BOTH: [bool; 2] = [true, false];

fn write(pair: &mut Pair, id: u64) {
    let (addr, rkey) = pair.b.remote(0);
    let request = SendWork::write(id, addr, rkey).sge(pair.a.sge(0, 8));
    pair.send(&request);
}

#[test]
fn an_armed_cq_is_notified_once() {
    for mode in BOTH {
        let mut pair = pair(mode);
        let cq = pair.a.send_cq.clone();
        pair.fabric[0].arm(&cq);
        write(&mut pair, 1);
        assert_eq!(pair.fabric[0].take_notified(), [cq.handle], "{mode:?}");
        write(&mut pair, 2);
        pair.fabric.pass(Duration::from_secs(1));
        assert_eq!(pair.fabric[0].take_notified(), [], "{mode:?}");
    }
}

#[test]
fn without_arming_there_is_no_notification() {
    for mode in BOTH {
        let mut pair = pair(mode);
        write(&mut pair, 1);
        pair.fabric.pass(Duration::from_secs(1));
        assert_eq!(pair.fabric[0].take_notified(), [], "{mode:?}");
        assert_eq!(pair.fabric[0].interrupts.fired[2], 0);
    }
}

/// Before it sleeps, rdma-core overwrites the ARM by a POLL.
#[test]
fn an_arm_hidden_by_a_poll_is_notified() {
    for mode in BOTH {
        let mut pair = pair(mode);
        let cq = pair.a.send_cq.clone();
        for id in 0..10 {
            pair.fabric[0].arm(&cq);
            assert_eq!(pair.fabric[0].poll_cq(&cq), None);
            write(&mut pair, id);
            pair.fabric.pass(Duration::from_micros(100));
            assert_eq!(pair.fabric[0].take_notified(), [cq.handle], "{mode:?} {id}");
            assert_eq!(pair.fabric[0].poll_cq(&cq).unwrap().id, id);
        }
    }
}

/// The ARM becomes visible after the completion was published, and the program does not look again.
#[test]
fn an_arm_over_a_full_ring_is_notified() {
    for mode in BOTH {
        let mut pair = pair(mode);
        let cq = pair.a.send_cq.clone();
        write(&mut pair, 1);
        pair.fabric[0].arm(&cq);
        pair.fabric.pass(Duration::from_millis(25));
        assert_eq!(pair.fabric[0].take_notified(), [cq.handle], "{mode:?}");
    }
}

#[test]
fn a_solicited_arm_waits_for_a_solicited_message() {
    for mode in BOTH {
        let mut pair = pair(mode);
        let cq = pair.b.recv_cq.clone();
        for id in 0..3 {
            pair.receive(id, id * 64, 64);
        }
        pair.fabric[1].arm_solicited(&cq);
        let plain = SendWork::send(1).sge(pair.a.sge(0, 8));
        pair.send(&plain);
        assert_eq!(pair.received().len(), 1, "taken by polling");
        pair.fabric.pass(Duration::from_millis(1));
        assert_eq!(pair.fabric[1].take_notified(), [], "{mode:?}");
        pair.send(&plain.solicited());
        pair.fabric.pass(Duration::from_millis(1));
        assert_eq!(pair.fabric[1].take_notified(), [cq.handle], "{mode:?}");
    }
}

/// All QPs of a program share one word: the last doorbell hides the others.
#[test]
fn doorbells_of_many_qps_hide_each_other() {
    for mode in BOTH {
        let mut pair = pair(mode);
        let (a, b) = (pair.a.clone(), pair.b.clone());
        let mut qps = Vec::new();
        for _ in 0..100 {
            let shape = vrdma_driver::object::QpShape::RC;
            let cqs = (&a.send_cq, &a.recv_cq);
            let ours = pair.fabric[0].create_qp(a.pd, cqs, None, shape).unwrap();
            let cqs = (&b.send_cq, &b.recv_cq);
            let theirs = pair.fabric[1].create_qp(b.pd, cqs, None, shape).unwrap();
            let gids = [pair.fabric[0].gid(), pair.fabric[1].gid()];
            let connection = vrdma_driver::object::Connection::to(theirs.qpn, gids[1]);
            pair.fabric[0].connect(&ours, &connection).unwrap();
            let connection = vrdma_driver::object::Connection::to(ours.qpn, gids[0]);
            pair.fabric[1].connect(&theirs, &connection).unwrap();
            qps.push(ours);
        }
        let (addr, rkey) = b.remote(0);
        for (id, qp) in (0..).zip(&qps) {
            let request = SendWork::write(id, addr, rkey).sge(a.sge(0, 8));
            pair.fabric[0].post_send(qp, &request).unwrap();
        }
        pair.fabric.pump();
        assert_eq!(pair.sent().len(), 100, "{mode:?}");
    }
}

#[test]
fn a_busy_poller_gets_no_interrupts() {
    let mut pair = pair(true);
    let cq = pair.a.send_cq.clone();
    for id in 0..1000 {
        for _ in 0..3 {
            assert_eq!(pair.fabric[0].poll_cq(&cq), None);
            pair.fabric.pass(Duration::from_micros(1));
        }
        write(&mut pair, id);
        pair.fabric.pass(Duration::from_micros(2));
        assert_eq!(pair.fabric[0].poll_cq(&cq).unwrap().id, id);
    }
    assert_eq!(pair.fabric[0].interrupts.fired[2], 0);
}
