//! A peer that stands still for a while: queue pairs connected to it wait, and none gives up.

use std::time::Duration;

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::QpType;
use vrdma_verbs::unit::{Nak, ResponseBody};
use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::Gid;

use crate::pair::node::ALL;
use crate::pair::{Fate, Pair, Setup};

/// About 1 ms, once: an absence of 2 ms is too long for it.
fn impatient() -> Setup {
    Setup {
        timeout: 8,
        retry_count: 1,
        ..Setup::default()
    }
}

const AWAY: Duration = Duration::from_millis(400);

/// Posts a WRITE, a READ and a SEND of A to B, which does not get them.
fn post(pair: &mut Pair) {
    let local = pair.a().register(64, ALL);
    let mr = pair.b().register(64, ALL);
    pair.a()
        .send(1, SendOp::Write(mr.remote(0)), &[local.sge()]);
    pair.a().send(2, SendOp::Read(mr.remote(0)), &[local.sge()]);
    pair.b().receive(9, &[]);
    pair.a().send(3, SendOp::Send, &[]);
}

const DONE: [(u64, Status); 3] = [
    (1, Status::Success),
    (2, Status::Success),
    (3, Status::Success),
];

fn peer(pair: &mut Pair) -> Gid {
    pair.b().gid
}

#[test]
fn a_peer_that_stands_still_uses_up_no_retry() {
    for wired in [false, true] {
        let mut pair = Pair::with(QpType::Rc, impatient());
        if wired {
            pair = Pair::wired(QpType::Rc, impatient());
        }
        let gid = peer(&mut pair);
        pair.fates(|_| Fate::Lose);
        post(&mut pair);
        pair.run();
        pair.a().hca.pause_peer(gid);
        pair.advance(AWAY);
        assert_eq!(pair.next_deadline(), None, "nothing is waited for");
        assert_eq!(pair.a().sends(), []);
        pair.heal();
        pair.a().hca.resume_peer(gid);
        pair.run();
        assert_eq!(pair.a().sends(), DONE, "at once, without a time-out");
        let counters = *pair.a().hca.counters();
        assert_eq!((counters.retries, counters.timeouts), (0, 0));
    }
}

#[test]
fn without_that_the_connection_ends() {
    let mut pair = Pair::wired(QpType::Rc, impatient());
    pair.fates(|_| Fate::Lose);
    post(&mut pair);
    pair.advance(AWAY);
    assert_eq!(pair.a().sends()[0], (1, Status::RetryExc));
}

/// The peer has gone on, and this adapter was not told before that it stood still.
#[test]
fn a_peer_that_goes_on_is_sent_to_at_once() {
    let mut pair = Pair::wired(QpType::Rc, Setup::default());
    let gid = peer(&mut pair);
    pair.fates(|_| Fate::Lose);
    post(&mut pair);
    pair.run();
    pair.heal();
    pair.a().hca.resume_peer(gid);
    pair.run();
    assert_eq!(pair.a().sends(), DONE);
    pair.a().hca.resume_peer(gid);
    pair.run_dry();
    assert_eq!(pair.a().sends(), DONE, "nothing is done twice");
    assert_eq!(pair.b().receives(), [(9, Status::Success)]);
}

#[test]
fn what_is_posted_meanwhile_waits() {
    for kind in [QpType::Rc, QpType::Uc] {
        let mut pair = Pair::wired(kind, impatient());
        let gid = peer(&mut pair);
        pair.a().hca.pause_peer(gid);
        pair.b().receive(9, &[]);
        pair.a().send(1, SendOp::Send, &[]);
        pair.advance(AWAY);
        assert_eq!(pair.a().sends(), []);
        assert_eq!(pair.b().receives(), []);
        pair.a().hca.resume_peer(gid);
        pair.run();
        assert_eq!(pair.a().sends(), [(1, Status::Success)]);
        assert_eq!(pair.b().receives(), [(9, Status::Success)]);
    }
}

/// An answer was on its way when the peer stopped.
#[test]
fn what_a_peer_said_before_is_no_retry() {
    let mut pair = Pair::with(
        QpType::Rc,
        Setup {
            retry_count: 0,
            rnr_retry: 0,
            ..impatient()
        },
    );
    let gid = peer(&mut pair);
    for id in 1..=3 {
        pair.a().send(id, SendOp::Send, &[]);
    }
    let units = pair.transmit(0);
    let gap = pair.deliver(1, &units[1]).unwrap();
    assert!(matches!(gap.body, ResponseBody::Nak(Nak::Sequence)));
    let unready = pair.deliver(1, &units[0]).unwrap();
    assert!(matches!(
        unready.body,
        ResponseBody::Nak(Nak::ReceiverNotReady(_))
    ));
    pair.a().hca.pause_peer(gid);
    pair.respond(0, &gap);
    pair.respond(0, &unready);
    pair.advance(AWAY);
    assert_eq!(pair.a().sends(), []);
    for id in 1..=3 {
        pair.b().receive(id, &[]);
    }
    pair.a().hca.resume_peer(gid);
    pair.run();
    assert_eq!(pair.a().sends(), DONE);
}

#[test]
fn connections_to_others_and_new_ones() {
    let mut pair = Pair::wired(QpType::Rc, impatient());
    let gid = peer(&mut pair);
    let [own, _] = [0, 1].map(|at| pair.nodes[at].gid);
    assert!(pair.a().hca.has_peer(gid) && !pair.a().hca.has_peer(own));
    let routes: Vec<_> = pair.a().hca.peers().map(|it| (it.sgid, it.dgid)).collect();
    assert_eq!(routes, [(own, gid)]);
    pair.a().hca.pause_peer(Gid([9; 16]));
    pair.b().receive(9, &[]);
    pair.a().send(1, SendOp::Send, &[]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)], "another peer");
    // A queue pair that is connected while the peer stands still waits, too.
    pair.a().hca.pause_peer(gid);
    let [late, theirs] = pair.connect_more(&impatient());
    let wr = crate::pair::node::send_wr(2, SendOp::Send, &[]);
    pair.a().hca.post_send(late, wr).unwrap();
    let receive = vrdma_verbs::work::RecvWr {
        id: 8,
        sges: Ok(Default::default()),
    };
    pair.b().hca.post_recv(theirs, receive).unwrap();
    pair.advance(AWAY);
    assert_eq!(pair.a().sends().len(), 1);
    pair.a().hca.resume_peer(gid);
    pair.run();
    assert_eq!(pair.a().sends().len(), 2);
}

#[test]
fn a_peer_is_known_as_long_as_anybody_is_connected_to_it() {
    let mut pair = Pair::wired(QpType::Rc, impatient());
    let gid = peer(&mut pair);
    let [late, _] = pair.connect_more(&impatient());
    pair.a().modify_state(QpState::Reset);
    assert!(pair.a().hca.has_peer(gid), "the other one is");
    pair.a().hca.pause_peer(gid);
    pair.a().hca.destroy_qp(late).unwrap();
    assert!(!pair.a().hca.has_peer(gid));
    assert_eq!(pair.a().hca.peers().count(), 0);
    // A queue pair that is connected later waits until the peer goes on.
    let names = [0, 1].map(|at| pair.nodes[at].name());
    pair.a().connect(names[1], &impatient(), QpState::Rts);
    pair.b().modify_state(QpState::Reset);
    pair.b().connect(names[0], &impatient(), QpState::Rts);
    pair.b().receive(9, &[]);
    pair.a().send(1, SendOp::Send, &[]);
    pair.advance(AWAY);
    assert_eq!(pair.a().sends(), []);
    pair.a().hca.resume_peer(gid);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
}

/// A failed queue pair is still connected to its peer, but has nothing to tell it.
#[test]
fn who_has_failed_has_no_peer_to_tell() {
    let mut pair = Pair::rc();
    let qp = pair.a().qp;
    pair.a().hca.fail_qp(qp).unwrap();
    assert_eq!(pair.a().hca.peers().count(), 0);
}

/// The adapter itself stood still for longer than its peer's answers may take.
#[test]
fn time_that_passed_meanwhile_is_no_time_out() {
    let mut pair = Pair::wired(
        QpType::Rc,
        Setup {
            retry_count: 0,
            ..impatient()
        },
    );
    pair.fates(|_| Fate::Lose);
    post(&mut pair);
    pair.run();
    pair.heal();
    pair.now = pair.now + AWAY;
    pair.a().hca.resume_all();
    pair.expire();
    pair.run();
    assert_eq!(pair.a().sends(), DONE);
}
