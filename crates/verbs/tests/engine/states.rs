//! Queue pair states: what they do with work, and what queries answer.

mod transitions;

use vrdma_verbs::Pace;
use vrdma_verbs::attr::{Access, AttrMask, QpAttr, QpState};
use vrdma_verbs::object::{Capacity, QpSpec, QpType};
use vrdma_verbs::work::{Event, SendOp, Status};
use vrdma_wire::Mtu;

use crate::pair::node::{ALL, send_wr};
use crate::pair::{Fate, Node, Pair, Setup};

const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::Rtr,
    QpState::Rts,
    QpState::Sqd,
    QpState::Sqe,
    QpState::Err,
];

/// Makes a node whose queue pair is in `state`, if that can be reached.
fn node_in(qp_type: QpType, state: QpState) -> Option<Node> {
    let setup = Setup::default();
    let mut node = Node::new(1, qp_type, &setup);
    let peer = node.name();
    match state {
        QpState::Reset => {}
        QpState::Init | QpState::Rtr | QpState::Rts => node.connect(peer, &setup, state),
        QpState::Sqd | QpState::Err => {
            node.connect(peer, &setup, QpState::Rts);
            node.modify_state(state);
        }
        QpState::Sqe => {
            node.connect(peer, &setup, QpState::Rts);
            node.send(1, SendOp::Refused(Status::LocQpOp), &[]);
            let qp = node.qp;
            node.hca
                .poll_transmit(qp, Default::default(), 4096, &mut Pace::Local);
        }
    }
    (node.state() == state).then_some(node)
}

#[test]
fn work_is_taken_in_the_states_that_take_it() {
    let sends = |state| {
        node_in(QpType::Rc, state).map(|mut node| {
            let qp = node.qp;
            node.hca
                .post_send(qp, send_wr(1, SendOp::Send, &[]))
                .is_ok()
        })
    };
    let receives = |state| {
        node_in(QpType::Rc, state).map(|mut node| {
            let wr = vrdma_verbs::work::RecvWr {
                id: 1,
                sges: Ok(Default::default()),
            };
            let qp = node.qp;
            node.hca.post_recv(qp, wr).is_ok()
        })
    };
    use QpState::{Err, Init, Reset, Rtr, Rts, Sqd};
    for state in [Reset, Init, Rtr, Rts, Sqd, Err] {
        assert_eq!(
            sends(state),
            Some(!matches!(state, Reset | Init | Rtr)),
            "{state:?}"
        );
        assert_eq!(receives(state), Some(state != Reset), "{state:?}");
    }
}

#[test]
fn in_err_everything_comes_back_in_order() {
    let mut pair = Pair::rc();
    for id in 1..4 {
        pair.a().send(id, SendOp::Send, &[]);
        pair.a().receive(10 + id, &[]);
    }
    pair.a().modify_state(QpState::Err);
    pair.a().send(4, SendOp::Write(no_memory()), &[]);
    pair.a().receive(14, &[]);
    pair.a().drain_outputs();
    let flushed = |id| (id, Status::WrFlush);
    assert_eq!(pair.a().sends(), [1, 2, 3, 4].map(flushed));
    assert_eq!(pair.a().receives(), [11, 12, 13, 14].map(flushed));
    assert_eq!(pair.a().events, []);
}

fn no_memory() -> vrdma_verbs::work::Remote {
    vrdma_verbs::work::Remote {
        addr: 0,
        rkey: vrdma_wire::Rkey(0),
    }
}

#[test]
fn reset_forgets_everything() {
    let mut pair = Pair::rc();
    pair.fates(|_| Fate::Lose);
    for id in 1..4 {
        pair.a().send(id, SendOp::Send, &[]);
        pair.a().receive(id, &[]);
    }
    let unit = pair.transmit(0).remove(0);
    pair.a().modify_state(QpState::Err);
    pair.a().sent.clear();
    pair.a().received.clear();
    pair.a().modify_state(QpState::Reset);
    pair.run_dry();
    assert_eq!((pair.a().sends(), pair.a().receives()), (vec![], vec![]));
    let name = pair.b().name();
    pair.a().connect(name, &Setup::default(), QpState::Rts);
    pair.heal();
    pair.b().receive(9, &[]);
    pair.a().send(7, SendOp::Send, &[]);
    let again = pair.transmit(0).remove(0);
    assert_eq!(again.psn, unit.psn);
}

#[test]
fn reset_takes_back_completions_that_were_not_handed_out() {
    let mut pair = Pair::rc();
    pair.a().send(1, SendOp::Refused(Status::LocQpOp), &[]);
    pair.transmit(0);
    pair.a().modify_state(QpState::Reset);
    assert_eq!(pair.a().sends(), []);
}

#[test]
fn the_first_message_in_rtr_is_announced_once() {
    let mut pair = Pair::rc();
    let name = pair.a().name();
    pair.b().modify_state(QpState::Reset);
    pair.b().connect(name, &Setup::default(), QpState::Rtr);
    pair.b().receive(9, &[]);
    pair.b().receive(10, &[]);
    pair.a().send(1, SendOp::Send, &[]);
    pair.a().send(2, SendOp::Send, &[]);
    pair.run();
    let events = [Event::CommEstablished(pair.b().qp)];
    assert_eq!(pair.b().events, events);
    assert_eq!(pair.b().receives().len(), 2);
}

#[test]
fn before_rtr_nothing_is_heard() {
    let mut pair = Pair::rc();
    let name = pair.a().name();
    pair.b().modify_state(QpState::Reset);
    pair.b().connect(name, &Setup::default(), QpState::Init);
    pair.b().receive(9, &[]);
    pair.a().send(1, SendOp::Send, &[]);
    pair.run_dry();
    assert_eq!(pair.a().sends(), [(1, Status::RetryExc)]);
    assert_eq!(pair.b().receives(), []);
    assert_eq!(pair.b().hca.counters().drops.wrong_state, 4);
}

#[test]
fn draining_ends_what_has_begun_and_holds_the_rest() {
    let setup = Setup {
        mtu: Mtu::B256,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Rc, setup);
    pair.unit_bytes = 256;
    let data = pair.a().register(512, ALL);
    let mr = pair.b().register(512, ALL);
    pair.a().send(1, SendOp::Write(mr.remote(0)), &[data.sge()]);
    pair.a().send(2, SendOp::Write(mr.remote(0)), &[]);
    let (qp, now) = (pair.a().qp, pair.now);
    let first = pair
        .a()
        .hca
        .poll_transmit(qp, now, 256, &mut Pace::Local)
        .unwrap();
    let attr = QpAttr {
        state: QpState::Sqd,
        sqd_event: true,
        ..QpAttr::default()
    };
    let mask = AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY;
    pair.a().hca.modify_qp(qp, &attr, mask).unwrap();
    let response = pair.deliver(1, &first).unwrap();
    pair.respond(0, &response);
    assert_eq!(pair.a().events, []);
    assert!(pair.a().hca.query_qp(qp).unwrap().sq_draining);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.a().events, [Event::SqDrained(qp)]);
    assert!(!pair.a().hca.query_qp(qp).unwrap().sq_draining);
    pair.a().modify_state(QpState::Rts);
    pair.run();
    assert_eq!(pair.a().sends()[1..], [(2, Status::Success)]);
    assert_eq!(pair.a().events.len(), 1);
}

#[test]
fn an_idle_queue_is_drained_at_once_and_unasked_says_nothing() {
    let drain = |sqd_event| {
        let mut node = node_in(QpType::Rc, QpState::Rts).unwrap();
        let attr = QpAttr {
            state: QpState::Sqd,
            sqd_event,
            ..QpAttr::default()
        };
        let mask = AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY;
        node.hca.modify_qp(node.qp, &attr, mask).unwrap();
        node.drain_outputs();
        node.events.len()
    };
    assert_eq!((drain(true), drain(false)), (1, 0));
}

#[test]
fn the_last_receive_of_a_shared_queue_is_announced() {
    let setup = Setup {
        srq: true,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Rc, setup);
    pair.b().receive(9, &[]);
    pair.b().modify_state(QpState::Err);
    pair.b().modify_state(QpState::Err);
    let events = [Event::LastWqeReached(pair.b().qp)];
    assert_eq!(pair.b().events, events);
    assert_eq!(pair.b().receives(), []);
}

#[test]
fn a_half_filled_receive_comes_back_when_the_connection_ends() {
    let setup = Setup {
        mtu: Mtu::B256,
        srq: true,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Rc, setup);
    pair.unit_bytes = 256;
    let data = pair.a().register(512, ALL);
    let room = pair.b().register(512, ALL);
    pair.b().receive(9, &[room.sge()]);
    pair.a().send(1, SendOp::Send, &[data.sge()]);
    let units = pair.transmit(0);
    pair.deliver(1, &units[0]);
    pair.b().modify_state(QpState::Err);
    assert_eq!(pair.b().receives(), [(9, Status::WrFlush)]);
}

#[test]
fn queries_answer_what_was_set_and_where_the_psns_are() {
    let mut pair = Pair::rc();
    let mr = pair.b().register(64, ALL);
    pair.a().send(1, SendOp::Write(mr.remote(0)), &[]);
    pair.run();
    let setup = Setup::default();
    let node = pair.a();
    let attr = node.hca.query_qp(node.qp).unwrap();
    assert_eq!(attr.state, QpState::Rts);
    assert_eq!(attr.access, Access::all());
    assert_eq!(
        (attr.timeout, attr.rnr_retry),
        (setup.timeout, setup.rnr_retry)
    );
    assert_eq!(attr.sq_psn.get(), setup.psn + 1);
    assert_eq!(attr.rq_psn.get(), setup.psn);
}

/// `ibv_query_qp` also returns the values that the queue pair was created with.
#[test]
fn creation_attributes_are_answered() {
    let node = node_in(QpType::Uc, QpState::Init).unwrap();
    let mut hca = node.hca;
    let capacity = Capacity {
        send_wrs: 128,
        recv_wrs: 64,
        send_sges: 4,
        recv_sges: 3,
        inline_bytes: 512,
    };
    let spec = QpSpec {
        signal_all: false,
        capacity,
        block_own_multicast: true,
        ..*hca.qp_spec(node.qp).unwrap()
    };
    let qp = hca.create_qp(spec).unwrap();
    assert_eq!(hca.qp_spec(qp), Some(&spec));
    let bytes = hca.save(|_| Vec::new()).unwrap();
    let hca = vrdma_verbs::Hca::<usize>::restore(&bytes, |_| None).unwrap();
    assert_eq!(hca.qp_spec(qp), Some(&spec));
    let answer = hca.query_qp(node.qp).unwrap();
    assert_eq!(answer.current_state, QpState::Init);
}
