//! Statuses and events of both ends when a request is wrong: the status table of the PVRDMA reference, section 9.3.

use std::time::Duration;

use vrdma_verbs::attr::{Access, QpState};
use vrdma_verbs::work::{Event, Imm, RecvWr, SendOp, Sge, Status};
use vrdma_wire::{Lkey, Rkey};

use crate::pair::node::ALL;
use crate::pair::{Pair, Setup};
use vrdma_verbs::object::QpType;

const FLUSHED: Status = Status::WrFlush;

/// One bad request of node 0, a good one behind it, and a receive at node 1.
struct Case {
    pair: Pair,
}

impl Case {
    fn new(setup: Setup) -> Self {
        let mut pair = Pair::with(QpType::Rc, setup);
        pair.b().receive(90, &[]);
        Self { pair }
    }

    /// Posts the request and checks how it ends here, and which events the peer sees.
    fn expect(mut self, op: SendOp<usize>, sges: &[Sge], status: Status, events: &[Event]) {
        self.pair.a().send(1, op, sges);
        self.pair.a().send(2, SendOp::Send, &[]);
        self.pair.run();
        let [a, b] = &self.pair.nodes;
        assert_eq!(a.sends(), [(1, status), (2, FLUSHED)]);
        assert_eq!(a.state(), QpState::Err);
        assert_eq!(b.events, events);
        let refused = !events.is_empty();
        let receives: &[_] = if refused { &[(90, FLUSHED)] } else { &[] };
        assert_eq!(b.receives(), receives);
        let peer_state = if refused { QpState::Err } else { QpState::Rts };
        assert_eq!(b.state(), peer_state);
    }
}

fn case() -> Case {
    Case::new(Setup::default())
}

fn with_access(access: Access) -> Case {
    Case::new(Setup {
        access,
        ..Setup::default()
    })
}

#[test]
fn unknown_and_foreign_local_keys_are_protection_errors() {
    let unknown = Sge {
        addr: 0,
        length: 4,
        lkey: Lkey(0xdead),
    };
    case().expect(SendOp::Send, &[unknown], Status::LocProt, &[]);
    let mut case = case();
    let node = case.pair.a();
    let other = node
        .hca
        .create_pd(vrdma_verbs::object::Owner::KERNEL)
        .unwrap();
    let foreign = node.register_in(other, 64, ALL);
    case.expect(SendOp::Send, &[foreign.sge()], Status::LocProt, &[]);
}

#[test]
fn local_ranges_end_where_the_region_ends() {
    for (offset, length) in [(60, 8), (64, 1), (u64::MAX - 0x10_0000 - 2, 8)] {
        let mut case = case();
        let mr = case.pair.a().register(64, ALL);
        let sge = Sge {
            addr: mr.start.wrapping_add(offset),
            ..mr.part(0, length)
        };
        case.expect(SendOp::Send, &[sge], Status::LocProt, &[]);
    }
}

#[test]
fn results_need_local_write() {
    let mut case = case();
    let read_only = case.pair.a().register(64, Access::REMOTE_READ);
    let remote = case.pair.b().register(64, ALL).remote(0);
    case.expect(
        SendOp::Read(remote),
        &[read_only.sge()],
        Status::LocProt,
        &[],
    );
}

#[test]
fn a_message_beyond_the_limit_is_a_length_error() {
    let mut case = case();
    let mr = case.pair.a().register(1 << 20, ALL);
    let sges = [mr.sge(), mr.part(0, 1)];
    case.expect(SendOp::Send, &sges, Status::LocLen, &[]);
}

#[test]
fn a_refused_request_ends_with_its_status() {
    let op = SendOp::Refused(Status::LocQpOp);
    case().expect(op, &[], Status::LocQpOp, &[]);
}

#[test]
fn reads_need_a_connection_that_allows_them() {
    let mut case = Case::new(Setup {
        rd_atomic: 0,
        ..Setup::default()
    });
    let remote = case.pair.b().register(64, ALL).remote(0);
    case.expect(SendOp::Read(remote), &[], Status::LocQpOp, &[]);
}

#[test]
fn wrong_remote_keys_ranges_and_rights_are_access_errors() {
    let accused = |pair: &Pair| [Event::QpAccessError(pair.nodes[1].qp)];
    let unknown = |case: &mut Case| {
        let mut remote = case.pair.b().register(64, ALL).remote(0);
        remote.rkey = Rkey(remote.rkey.0 ^ 1);
        remote
    };
    let beyond = |case: &mut Case| case.pair.b().register(64, ALL).remote(60);
    let unwritable = |case: &mut Case| {
        let mr = case.pair.b().register(64, Access::LOCAL_WRITE);
        mr.remote(0)
    };
    let gone = |case: &mut Case| {
        let mr = case.pair.b().register(64, ALL);
        case.pair.b().hca.deregister(mr.keys.id).unwrap();
        mr.remote(0)
    };
    for remote_of in [unknown, beyond, unwritable, gone] {
        let mut case = case();
        let data = case.pair.a().holding(&[7; 8]);
        let remote = remote_of(&mut case);
        let events = accused(&case.pair);
        let op = SendOp::Write(remote);
        case.expect(op, &[data.sge()], Status::RemAccess, &events);
    }
}

#[test]
fn the_whole_range_is_checked_before_the_first_byte() {
    let mut case = case();
    case.pair.unit_bytes = 1024;
    let data = case.pair.a().holding(&[7; 4096]);
    let mr = case.pair.b().register(4000, ALL);
    case.pair
        .a()
        .send(1, SendOp::Write(mr.remote(0)), &[data.sge()]);
    case.pair.run();
    assert_eq!(case.pair.a().sends(), [(1, Status::RemAccess)]);
    assert_eq!(case.pair.nodes[1].bytes(&mr), [0; 4000]);
}

#[test]
fn a_qp_without_the_right_is_an_invalid_request() {
    let ops: [fn(vrdma_verbs::work::Remote) -> SendOp<usize>; 3] =
        [SendOp::Write, SendOp::Read, |remote| SendOp::FetchAdd {
            remote,
            add: 1,
        }];
    for op in ops {
        let mut case = with_access(Access::LOCAL_WRITE);
        let local = case.pair.a().register(8, ALL);
        let remote = case.pair.b().register(64, ALL).remote(0);
        let events = [Event::QpRequestError(case.pair.b().qp)];
        case.expect(op(remote), &[local.sge()], Status::RemInvReq, &events);
    }
}

#[test]
fn atomics_need_alignment_and_room_for_the_result() {
    let mut odd = case();
    let local = odd.pair.a().register(8, ALL);
    let remote = odd.pair.b().register(64, ALL).remote(4);
    let events = [Event::QpRequestError(odd.pair.b().qp)];
    let op = SendOp::FetchAdd { remote, add: 1 };
    odd.expect(op.clone(), &[local.sge()], Status::RemInvReq, &events);
    let mut short = case();
    let local = short.pair.a().register(8, ALL);
    short.expect(op, &[local.part(0, 7)], Status::LocQpOp, &[]);
}

#[test]
fn empty_accesses_name_nothing() {
    let mut pair = Pair::rc();
    let nowhere = vrdma_verbs::work::Remote {
        addr: u64::MAX,
        rkey: Rkey(0),
    };
    pair.b().receive(9, &[]);
    pair.a().send(1, SendOp::Write(nowhere), &[]);
    pair.a().send(2, SendOp::Read(nowhere), &[]);
    pair.a()
        .send(3, SendOp::WriteImm(nowhere, Imm([0; 4])), &[]);
    pair.run();
    let done = |id| (id, Status::Success);
    assert_eq!(pair.a().sends(), [done(1), done(2), done(3)]);
    assert_eq!(pair.b().receives(), [done(9)]);
}

#[test]
fn empty_buffers_are_skipped_unchecked() {
    let mut pair = Pair::rc();
    let nowhere = Sge {
        addr: 1,
        length: 0,
        lkey: Lkey(0),
    };
    let data = pair.a().holding(b"abc");
    let to = pair.b().register(3, ALL);
    pair.b()
        .receive(9, &[nowhere, to.part(0, 1), nowhere, to.part(1, 2)]);
    pair.a().send(
        1,
        SendOp::Send,
        &[nowhere, data.part(0, 2), nowhere, data.part(2, 1)],
    );
    pair.run();
    assert_eq!(pair.nodes[1].bytes(&to), b"abc");
}

#[test]
fn a_short_receive_is_a_length_error_there_and_an_invalid_request_here() {
    let mut pair = Pair::rc();
    let data = pair.a().holding(&[1; 65]);
    let to = pair.b().register(64, ALL);
    pair.b().receive(9, &[to.sge()]);
    pair.b().receive(10, &[to.sge()]);
    pair.a().send(1, SendOp::Send, &[data.sge()]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::RemInvReq)]);
    assert_eq!(pair.b().receives(), [(9, Status::LocLen), (10, FLUSHED)]);
    assert_eq!(pair.b().events, []);
    assert_eq!(pair.nodes[1].bytes(&to), [0; 64]);
}

#[test]
fn a_bad_receive_is_a_protection_error_there_and_an_operational_error_here() {
    let mut pair = Pair::rc();
    let data = pair.a().holding(&[1; 8]);
    let read_only = pair.b().register(64, Access::REMOTE_READ);
    pair.b().receive(9, &[read_only.sge()]);
    pair.a().send(1, SendOp::Send, &[data.sge()]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::RemOp)]);
    assert_eq!(pair.b().receives(), [(9, Status::LocProt)]);
    assert_eq!(pair.b().state(), QpState::Err);
}

#[test]
fn an_undecodable_receive_completes_with_its_status() {
    let mut pair = Pair::rc();
    let wr = RecvWr {
        id: 9,
        sges: Err(Status::LocQpOp),
    };
    let qp = pair.b().qp;
    pair.b().hca.post_recv(qp, wr).unwrap();
    pair.a().send(1, SendOp::Send, &[]);
    pair.run();
    assert_eq!(pair.b().receives(), [(9, Status::LocQpOp)]);
    assert_eq!(pair.a().sends(), [(1, Status::RemOp)]);
}

#[test]
fn memory_that_vanished_fails_the_side_that_owned_it() {
    let mut theirs = Pair::rc();
    let data = theirs.a().holding(&[1; 8]);
    let mr = theirs.b().register(64, ALL);
    theirs.b().memory.remove(mr.region);
    theirs
        .a()
        .send(1, SendOp::Write(mr.remote(0)), &[data.sge()]);
    theirs.run();
    assert_eq!(theirs.a().sends(), [(1, Status::RemOp)]);
    let events = [Event::QpFatal(theirs.b().qp)];
    assert_eq!(theirs.b().events, events);

    let mut ours = Pair::rc();
    let data = ours.a().holding(&[1; 8]);
    let mr = ours.b().register(64, ALL);
    ours.a().memory.remove(data.region);
    ours.a().send(1, SendOp::Write(mr.remote(0)), &[data.sge()]);
    ours.run();
    assert_eq!(ours.a().sends(), [(1, Status::LocProt)]);
    assert_eq!(ours.b().state(), QpState::Rts);
    assert_eq!(ours.b().hca.counters().drops.source_fault, 1);
}

#[test]
fn read_data_that_vanished_ends_the_reader() {
    let mut pair = Pair::rc();
    let local = pair.a().register(64, ALL);
    let mr = pair.b().register(64, ALL);
    pair.b().memory.remove(mr.region);
    pair.a().send(1, SendOp::Read(mr.remote(0)), &[local.sge()]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::RemOp)]);
}

#[test]
fn older_requests_succeed_before_a_bad_one_fails() {
    let mut pair = Pair::rc();
    let data = pair.a().holding(&[1; 8]);
    let mr = pair.b().register(64, ALL);
    let bad = Sge {
        lkey: Lkey(0),
        ..data.sge()
    };
    pair.a().send(1, SendOp::Write(mr.remote(0)), &[data.sge()]);
    pair.a().send(2, SendOp::Write(mr.remote(8)), &[bad]);
    pair.a()
        .send(3, SendOp::Write(mr.remote(16)), &[data.sge()]);
    let units = pair.transmit(0);
    assert_eq!(units.len(), 1);
    pair.a().drain_outputs();
    assert_eq!(pair.a().sends(), []);
    let response = pair.deliver(1, &units[0]).unwrap();
    pair.respond(0, &response);
    let ends = [(1, Status::Success), (2, Status::LocProt), (3, FLUSHED)];
    assert_eq!(pair.a().sends(), ends);
}

#[test]
fn a_vanished_peer_exhausts_the_retries() {
    let mut pair = Pair::rc();
    let mr = pair.b().register(64, ALL);
    pair.fates(|_| crate::pair::Fate::Lose);
    pair.a().send(1, SendOp::Write(mr.remote(0)), &[]);
    let time_out = Duration::from_nanos(4096 << 14);
    pair.advance(time_out * 4 - Duration::from_nanos(1));
    assert_eq!(pair.a().sends(), []);
    pair.advance(Duration::from_nanos(1));
    assert_eq!(pair.a().sends(), [(1, Status::RetryExc)]);
    assert_eq!(pair.a().hca.counters().timeouts, 4);
    assert_eq!(pair.a().hca.counters().retries, 3);
}

#[test]
fn a_receiver_that_never_gets_ready_exhausts_the_other_retries() {
    let mut pair = Pair::rc();
    pair.a().send(1, SendOp::Send, &[]);
    let wait = Duration::from_micros(640);
    pair.advance(wait * 3 - Duration::from_nanos(1));
    assert_eq!(pair.a().sends(), []);
    pair.advance(Duration::from_nanos(1));
    assert_eq!(pair.a().sends(), [(1, Status::RnrRetryExc)]);
    assert_eq!(pair.b().state(), QpState::Rts);
    assert_eq!(pair.b().hca.counters().rnr_naks_sent, 4);
}

#[test]
fn seven_waits_for_a_receiver_for_ever() {
    let mut pair = Pair::with(
        QpType::Rc,
        Setup {
            rnr_retry: 7,
            ..Setup::default()
        },
    );
    pair.a().send(1, SendOp::Send, &[]);
    pair.advance(Duration::from_secs(1));
    assert_eq!(pair.a().sends(), []);
    pair.b().receive(9, &[]);
    pair.run_dry();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.b().receives(), [(9, Status::Success)]);
}
