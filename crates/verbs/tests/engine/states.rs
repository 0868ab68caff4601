//! Queue pair states: which can be reached, and what they do with work.

use std::fmt::Write;

use vrdma_verbs::Error;
use vrdma_verbs::Pace;
use vrdma_verbs::attr::{Access, AttrMask, PathMigration, QpAttr, QpState};
use vrdma_verbs::object::{Capacity, QpSpec, QpType};
use vrdma_verbs::work::{Event, SendOp, Status};
use vrdma_wire::{Gid, Mtu};

use crate::pair::node::{ALL, attributes, mask, send_wr};
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

/// Returns the masks that lead from one state to another: the smallest, and the bits that may be added.
fn masks(qp_type: QpType, from: QpState, to: QpState) -> Option<(AttrMask, AttrMask)> {
    let accepts = |mask: AttrMask| {
        let mut node = node_in(qp_type, from)?;
        let mut attr = attributes(node.name(), &Setup::default());
        attr.state = to;
        attr.current_state = from;
        node.hca.modify_qp(node.qp, &attr, mask).ok()
    };
    let bits: Vec<_> = (1..21)
        .map(|bit| AttrMask::from_bits_retain(1 << bit))
        .collect();
    let largest = largest_mask(&bits, &accepts)?;
    let needed = largest
        .iter()
        .filter(|bit| *bit != AttrMask::STATE && accepts(largest - *bit).is_none());
    let required = needed.fold(AttrMask::STATE, |all, bit| all | bit);
    Some((required, largest - required))
}

/// Grows a mask bit by bit from each of the driver's masks until nothing more is accepted.
fn largest_mask(bits: &[AttrMask], accepts: &impl Fn(AttrMask) -> Option<()>) -> Option<AttrMask> {
    let types = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::Gsi];
    let states = [QpState::Init, QpState::Rtr, QpState::Rts];
    let known = types
        .iter()
        .flat_map(|qp_type| states.map(|state| mask(*qp_type, state)))
        .chain([AttrMask::STATE]);
    let start = known.filter(|mask| accepts(*mask).is_some()).last()?;
    let grow = |all: AttrMask, bit: &AttrMask| match accepts(all | *bit) {
        Some(()) => all | *bit,
        None => all,
    };
    Some(bits.iter().fold(start, grow))
}

#[test]
fn transitions_are_those_of_the_table() {
    let mut table = String::new();
    for qp_type in [QpType::Rc, QpType::Uc, QpType::Ud, QpType::Gsi] {
        for from in STATES {
            for to in STATES {
                if let Some((required, optional)) = masks(qp_type, from, to) {
                    let (required, optional) = (required.bits(), optional.bits());
                    let names = format!("{qp_type:?} {from:?} {to:?}");
                    writeln!(table, "{names:<16} {required:#08x} {optional:#08x}").unwrap();
                }
            }
        }
    }
    assert_eq!(table, include_str!("transitions.txt"), "\n{table}");
}

#[test]
fn a_wrong_belief_about_the_state_is_refused() {
    let mut node = node_in(QpType::Rc, QpState::Sqd).unwrap();
    let attr = QpAttr {
        state: QpState::Rts,
        current_state: QpState::Rts,
        ..QpAttr::default()
    };
    let mask = AttrMask::STATE | AttrMask::CUR_STATE;
    let refused = node.hca.modify_qp(node.qp, &attr, mask);
    assert_eq!(refused, Err(Error::InvalidTransition));
}

#[test]
fn values_have_ranges() {
    type Spoil = fn(&mut QpAttr);
    let spoil: [(QpState, Spoil); 16] = [
        (QpState::Init, |attr| attr.pkey_index = 1),
        (QpState::Init, |attr| attr.port = 0),
        (QpState::Init, |attr| attr.port = 2),
        (QpState::Rtr, |attr| attr.address.sgid_index = 1),
        (QpState::Rtr, |attr| attr.address.sgid_index = 255),
        (QpState::Rtr, |attr| attr.address.port = 2),
        (QpState::Rtr, |attr| attr.address.dgid = Gid::default()),
        (QpState::Rtr, |attr| attr.address.dgid.0 = [0xff; 16]),
        (QpState::Rtr, |attr| attr.max_dest_rd_atomic = 17),
        (QpState::Rtr, |attr| attr.min_rnr_timer = 32),
        (QpState::Rts, |attr| attr.timeout = 32),
        (QpState::Rts, |attr| attr.retry_count = 8),
        (QpState::Rts, |attr| attr.rnr_retry = 8),
        (QpState::Rts, |attr| attr.max_rd_atomic = 17),
        (QpState::Rts, |attr| attr.max_rd_atomic = 255),
        (QpState::Rts, |attr| attr.timeout = 255),
    ];
    for (to, spoil) in spoil {
        let from = STATES[to as usize - 1];
        let mut node = node_in(QpType::Rc, from).unwrap();
        let mut attr = attributes(node.name(), &Setup::default());
        attr.state = to;
        spoil(&mut attr);
        let refused = node.hca.modify_qp(node.qp, &attr, mask(QpType::Rc, to));
        assert_eq!(refused, Err(Error::InvalidAttribute), "{attr:?}");
        assert_eq!(node.state(), from);
    }
}

#[test]
fn the_path_mtu_fits_the_port() {
    let setup = Setup::default();
    let mut limits = crate::pair::node::limits();
    limits.port_mtu = Mtu::B512;
    let mut node = Node::with_limits(1, QpType::Rc, &setup, limits);
    let peer = node.name();
    node.connect(peer, &setup, QpState::Init);
    let mut attr = attributes(peer, &setup);
    attr.state = QpState::Rtr;
    let mask = mask(QpType::Rc, QpState::Rtr);
    assert_eq!(
        node.hca.modify_qp(node.qp, &attr, mask),
        Err(Error::InvalidAttribute)
    );
    attr.path_mtu = Mtu::B512;
    assert_eq!(node.hca.modify_qp(node.qp, &attr, mask), Ok(()));
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

/// There is only one path, so its state can only be set to its present value.
#[test]
fn path_migration_is_always_done() {
    let migrate = |path_migration| {
        let mut node = node_in(QpType::Rc, QpState::Rts).unwrap();
        let attr = QpAttr {
            path_migration,
            ..QpAttr::default()
        };
        let refused = node.hca.modify_qp(node.qp, &attr, AttrMask::PATH_MIG_STATE);
        let answer = node.hca.query_qp(node.qp).unwrap();
        assert_eq!(answer.path_migration, PathMigration::Migrated);
        refused
    };
    assert_eq!(migrate(PathMigration::Migrated), Ok(()));
    for other in [PathMigration::Rearm, PathMigration::Armed] {
        assert_eq!(migrate(other), Err(Error::InvalidAttribute));
    }
    let codes = [0, 1, 2].map(PathMigration::from_code);
    assert_eq!(codes.map(|state| state.unwrap() as u32), [0, 1, 2]);
    assert_eq!(PathMigration::from_code(3), None);
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
