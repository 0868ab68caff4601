//! Errors on a connection, and how both sides are told (reference section 9.3).

use std::time::Duration;

use vrdma_driver::object::{qp_state, rights};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Pair, PairOptions};
use vrdma_pvrdma::abi::event::EventCode;

const LOC_LEN: u32 = 1;
const LOC_PROT: u32 = 4;
const FLUSH: u32 = 5;
const REM_INV_REQ: u32 = 9;
const REM_ACCESS: u32 = 10;
const RETRY_EXC: u32 = 12;
const RNR_RETRY_EXC: u32 = 13;

const SECOND: Duration = Duration::from_secs(1);

fn state(pair: &mut Pair, of_a: bool) -> u32 {
    let end = if of_a { pair.a.clone() } else { pair.b.clone() };
    let attrs = pair.fabric[end.guest].query_qp(&end.qp).unwrap();
    attrs.qp_state.get()
}

/// Checks that `a` fails with `status`, and that everything after it is flushed.
fn fails(pair: &mut Pair, request: SendWork, status: u32) {
    let (guest, qp) = (pair.a.guest, pair.a.qp.clone());
    let behind = SendWork::send(2).sge(pair.a.sge(0, 8));
    pair.fabric[guest].post_send(&qp, &request).unwrap();
    pair.fabric[guest]
        .post_send(&qp, &behind.clone().unsignaled())
        .unwrap();
    pair.fabric.pump();
    pair.send(&behind);
    let sent: Vec<_> = pair
        .sent()
        .iter()
        .map(|done| (done.id, done.status))
        .collect();
    assert_eq!(sent, [(1, status), (2, FLUSH), (2, FLUSH)]);
    assert_eq!(state(pair, true), qp_state::ERR);
    assert_eq!(qp.send.outstanding(&pair.fabric[guest].ram.view()), 0);
}

#[test]
fn a_bad_local_key() {
    let mut pair = Pair::new();
    let (addr, rkey) = pair.b.remote(0);
    let mut sge = pair.a.sge(0, 8);
    sge.lkey = (pair.a.mr.lkey + 256).into();
    fails(&mut pair, SendWork::write(1, addr, rkey).sge(sge), LOC_PROT);
    assert_eq!(
        state(&mut pair, false),
        qp_state::RTS,
        "the peer noticed nothing"
    );
}

#[test]
fn local_bytes_beyond_the_region() {
    let mut pair = Pair::new();
    let (addr, rkey) = pair.b.remote(0);
    let end = pair.a.buffer.length - 7;
    let sge = pair.a.sge(end, 8);
    fails(&mut pair, SendWork::write(1, addr, rkey).sge(sge), LOC_PROT);
}

#[test]
fn a_bad_remote_key() {
    let mut pair = Pair::new();
    let (addr, rkey) = pair.b.remote(0);
    let request = SendWork::write(1, addr, rkey ^ 0x100).sge(pair.a.sge(0, 8));
    let before = pair.bytes_of_b(0, 100);
    fails(&mut pair, request, REM_ACCESS);
    assert_eq!(state(&mut pair, false), qp_state::ERR);
    let events = pair.fabric[1].take_events();
    assert_eq!(events, [(EventCode::QpAccessErr, pair.b.qp.handle)]);
    assert_eq!(pair.bytes_of_b(0, 100), before);
}

#[test]
fn remote_bytes_beyond_the_region() {
    for request in [SendWork::write, SendWork::read] {
        let mut pair = Pair::new();
        let (addr, rkey) = pair.b.remote(pair.b.buffer.length - 7);
        let request = request(1, addr, rkey).sge(pair.a.sge(0, 8));
        fails(&mut pair, request, REM_ACCESS);
    }
}

#[test]
fn a_region_without_the_right() {
    type Ask = fn(u64, u64, u32) -> SendWork;
    let asks: [(u32, Ask); 2] = [
        (rights::REMOTE_WRITE, SendWork::write),
        (rights::REMOTE_READ, SendWork::read),
    ];
    for (missing, ask) in asks {
        let mut pair = Pair::new();
        let (pd, buffer) = (pair.b.pd, pair.b.buffer.clone());
        let mr = pair.fabric[1]
            .register(pd, &buffer, rights::ALL & !missing)
            .unwrap();
        let request = ask(1, buffer.address, mr.rkey).sge(pair.a.sge(0, 8));
        fails(&mut pair, request, REM_ACCESS);
    }
}

#[test]
fn a_queue_pair_without_the_right() {
    let mut pair = Pair::with(PairOptions {
        access: rights::LOCAL_WRITE,
        ..PairOptions::default()
    });
    let (addr, rkey) = pair.b.remote(0);
    let request = SendWork::write(1, addr, rkey).sge(pair.a.sge(0, 8));
    fails(&mut pair, request, REM_INV_REQ);
}

#[test]
fn a_message_longer_than_the_receive() {
    let mut pair = Pair::new();
    pair.receive(7, 0, 50);
    let request = SendWork::send(1).sge(pair.a.sge(0, 51));
    fails(&mut pair, request, REM_INV_REQ);
    let received = pair.received()[0];
    assert_eq!((received.id, received.status), (7, LOC_LEN));
    assert_eq!(state(&mut pair, false), qp_state::ERR);
}

#[test]
fn a_receive_buffer_that_is_not_ours() {
    let mut pair = Pair::new();
    let (guest, qp) = (pair.b.guest, pair.b.qp.clone());
    let mut sge = pair.b.sge(0, 100);
    sge.lkey = 0x7777_7700.into();
    pair.fabric[guest].post_recv(&qp, 7, &[sge]).unwrap();
    let request = SendWork::send(1).sge(pair.a.sge(0, 51));
    pair.send(&request);
    let received = pair.received()[0];
    assert_eq!((received.id, received.status), (7, LOC_PROT));
    assert_ne!(pair.sent()[0].status, 0);
}

#[test]
fn nobody_answers() {
    let mut pair = Pair::new();
    pair.fabric.lose(|_| true);
    let (addr, rkey) = pair.b.remote(0);
    pair.send(&SendWork::write(1, addr, rkey).sge(pair.a.sge(0, 8)));
    assert_eq!(pair.sent(), []);
    pair.fabric.pass(10 * SECOND);
    let sent = pair.sent()[0];
    assert_eq!((sent.id, sent.status), (1, RETRY_EXC));
}

#[test]
fn no_receive_is_waited_for_as_long_as_asked() {
    let mut pair = Pair::with(PairOptions {
        rnr_retry: 3,
        ..PairOptions::default()
    });
    pair.send(&SendWork::send(1).sge(pair.a.sge(0, 8)));
    assert_eq!(pair.sent(), []);
    pair.fabric.pass(SECOND);
    assert_eq!(pair.sent()[0].status, RNR_RETRY_EXC);
    assert_eq!(state(&mut pair, false), qp_state::RTS);
}

#[test]
fn a_late_receive_is_in_time_with_endless_retries() {
    let mut pair = Pair::new();
    pair.send(&SendWork::send(1).sge(pair.a.sge(0, 8)));
    pair.fabric.pass(20 * SECOND);
    assert_eq!(pair.sent(), []);
    pair.receive(7, 0, 64);
    pair.fabric.pass(SECOND);
    assert_eq!(pair.sent()[0].status, 0);
    assert_eq!(pair.received()[0].status, 0);
}

/// `ib_drain_qp`: unsignalled sends and receives without buffers, posted in ERR.
#[test]
fn everything_is_flushed_in_error_old_and_new() {
    let mut pair = Pair::kernel();
    let (guest, qp) = (pair.b.guest, pair.b.qp.clone());
    for id in 0..5 {
        pair.receive(id, 0, 64);
    }
    pair.fabric[guest].set_qp_state(&qp, qp_state::ERR).unwrap();
    pair.fabric.pump();
    let ids = |pair: &mut Pair| {
        let received = pair.received();
        assert!(received.iter().all(|done| done.status == FLUSH));
        received.iter().map(|done| done.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&mut pair), [0, 1, 2, 3, 4]);
    pair.fabric[guest].post_recv(&qp, 99, &[]).unwrap();
    let drain = SendWork::write(98, 0, 0).unsignaled();
    pair.fabric[guest].post_send(&qp, &drain).unwrap();
    pair.fabric.pump();
    assert_eq!(ids(&mut pair), [99]);
    let cq = pair.b.send_cq.clone();
    let flushed = pair.fabric[guest].drain_cq(&cq);
    assert_eq!(
        flushed
            .iter()
            .map(|done| (done.id, done.status))
            .collect::<Vec<_>>(),
        [(98, FLUSH)]
    );
}

#[test]
fn a_reset_queue_pair_starts_over() {
    let mut pair = Pair::new();
    for round in 0..3 {
        let (addr, rkey) = pair.b.remote(0);
        pair.receive(5, 0, 64);
        pair.send(&SendWork::write(1, addr, rkey + 1).sge(pair.a.sge(0, 8)));
        pair.sent();
        pair.received();
        for (end, peer) in [
            (pair.a.clone(), pair.b.clone()),
            (pair.b.clone(), pair.a.clone()),
        ] {
            let gid = pair.fabric[peer.guest].gid();
            let vm = &mut pair.fabric[end.guest];
            vm.reset_qp(&end.qp).unwrap();
            let connection = vrdma_driver::object::Connection::to(peer.qp.qpn, gid);
            vm.connect(&end.qp, &connection).unwrap();
        }
        pair.receive(6, 0, 64);
        pair.send(&SendWork::send(2).sge(pair.a.sge(0, 8)));
        assert_eq!(pair.sent()[0].status, 0, "round {round}");
        assert_eq!(pair.received()[0].id, 6);
    }
}

#[test]
fn a_queue_pair_that_is_gone_never_completes() {
    let mut pair = Pair::new();
    for id in 0..10 {
        pair.receive(id, 0, 64);
    }
    let (a, b) = (pair.a.clone(), pair.b.clone());
    for id in 0..5 {
        let request = SendWork::send(id).sge(a.sge(0, 8));
        pair.fabric[a.guest].post_send(&a.qp, &request).unwrap();
    }
    pair.fabric[b.guest].destroy_qp(b.qp).unwrap();
    pair.fabric.pass(10 * SECOND);
    assert_eq!(pair.received(), []);
    assert_eq!(pair.sent()[0].status, RETRY_EXC);
    pair.fabric[a.guest].destroy_qp(a.qp).unwrap();
    pair.fabric.pump();
    assert_eq!(pair.fabric[a.guest].device.snapshot().counts.qps, 0);
}
