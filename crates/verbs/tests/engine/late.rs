//! Memory that is late: its queue pair waits, and nothing is lost, done twice or counted as a failure.

use std::time::Duration;

use vrdma_verbs::memory::Fault;
use vrdma_verbs::object::QpType;
use vrdma_verbs::unit::{Nak, ResponseBody};
use vrdma_verbs::work::{Imm, SendOp, Status};

use crate::pair::Pair;
use crate::pair::node::{ALL, Mr, Setup};

/// Longer than a wait for late memory, and far shorter than a time-out.
const WAIT: Duration = Duration::from_millis(42);

const DONE: Status = Status::Success;

/// Runs while the memory of one side is late; it comes after three waits.
fn run_late(pair: &mut Pair, node: usize, late: &Mr) {
    pair.nodes[node].memory.set_late(Some(late.region));
    for _ in 0..3 {
        pair.run();
        assert_eq!(pair.a().sends(), []);
        assert_eq!(pair.b().receives(), []);
        pair.advance(WAIT);
    }
    pair.nodes[node].memory.set_late(None);
    pair.advance(WAIT);
}

/// Retries as most programs ask for them.
fn patient() -> Setup {
    Setup {
        rnr_retry: 7,
        ..Setup::default()
    }
}

fn local() -> Pair {
    Pair::with(QpType::Rc, patient())
}

fn both_kinds() -> [Pair; 2] {
    [local(), Pair::wired(QpType::Rc, patient())]
}

#[test]
fn a_send_into_late_memory_takes_one_receive() {
    for mut pair in both_kinds() {
        let data = pair.a().holding(b"contents");
        let to = pair.b().register(64, ALL);
        pair.b().receive(9, &[to.sge()]);
        pair.b().receive(10, &[to.sge()]);
        pair.a().send(1, SendOp::Send, &[data.sge()]);
        run_late(&mut pair, 1, &to);
        assert_eq!(pair.a().sends(), [(1, DONE)]);
        assert_eq!(pair.b().receives(), [(9, DONE)]);
        assert_eq!(pair.nodes[1].bytes(&to)[..8], *b"contents");
        assert_eq!(pair.b().events, []);
    }
}

#[test]
fn writes_of_several_units_go_on_where_memory_was_late() {
    for mut pair in both_kinds() {
        let data = pair.a().holding(&[7; 3000]);
        let to = pair.b().register(3000, ALL);
        pair.b().receive(9, &[]);
        let op = SendOp::WriteImm(to.remote(0), Imm([0; 4]));
        pair.a().send(1, op, &[data.sge()]);
        pair.a().send(2, SendOp::Write(to.remote(0)), &[data.sge()]);
        run_late(&mut pair, 1, &to);
        assert_eq!(pair.a().sends(), [(1, DONE), (2, DONE)]);
        assert_eq!(pair.b().receives(), [(9, DONE)]);
        assert_eq!(pair.nodes[1].bytes(&to), [7; 3000]);
    }
}

#[test]
fn an_atomic_on_late_memory_is_done_once() {
    for mut pair in both_kinds() {
        let local = pair.a().register(8, ALL);
        let word = pair.b().register(8, ALL);
        let op = SendOp::FetchAdd {
            remote: word.remote(0),
            add: 1,
        };
        pair.a().send(1, op, &[local.part(0, 8)]);
        run_late(&mut pair, 1, &word);
        assert_eq!(pair.a().sends(), [(1, DONE)]);
        assert_eq!(pair.nodes[1].bytes(&word), 1u64.to_le_bytes());
    }
}

#[test]
fn answers_wait_for_late_memory_of_the_requester() {
    for mut pair in both_kinds() {
        let local = pair.a().register(8, ALL);
        let old = pair.a().register(8, ALL);
        let data = pair.b().holding(b"contents");
        pair.a()
            .send(1, SendOp::Read(data.remote(0)), &[local.sge()]);
        let op = SendOp::FetchAdd {
            remote: data.remote(0),
            add: 0,
        };
        pair.a().send(2, op, &[old.part(0, 8)]);
        run_late(&mut pair, 0, &local);
        assert_eq!(pair.a().sends(), [(1, DONE), (2, DONE)]);
        assert_eq!(pair.nodes[0].bytes(&local), b"contents");
        assert_eq!(pair.nodes[0].bytes(&old), b"contents");
    }
}

#[test]
fn late_memory_of_the_sender_is_asked_for_again() {
    let mut pair = local();
    let data = pair.a().holding(b"contents");
    let to = pair.b().register(64, ALL);
    pair.b().receive(9, &[to.sge()]);
    pair.a().send(1, SendOp::Send, &[data.sge()]);
    run_late(&mut pair, 0, &data);
    assert_eq!(pair.a().sends(), [(1, DONE)]);
    assert_eq!(pair.b().receives(), [(9, DONE)]);
    assert_eq!(pair.nodes[1].bytes(&to)[..8], *b"contents");
}

#[test]
fn read_data_that_is_late_is_asked_for_again() {
    let mut pair = local();
    let local = pair.a().register(8, ALL);
    let data = pair.b().holding(b"contents");
    pair.a()
        .send(1, SendOp::Read(data.remote(0)), &[local.sge()]);
    run_late(&mut pair, 1, &data);
    assert_eq!(pair.a().sends(), [(1, DONE)]);
    assert_eq!(pair.nodes[0].bytes(&local), b"contents");
}

#[test]
fn a_datagram_to_late_memory_is_lost_and_its_receive_is_not() {
    let mut pair = Pair::ud();
    let data = pair.a().holding(&[1; 8]);
    let to = pair.b().register(64, ALL);
    pair.b().receive(9, &[to.sge()]);
    pair.nodes[1].memory.set_late(Some(to.region));
    let name = pair.b().name();
    pair.a().send_to(1, name, &[data.sge()]);
    pair.run();
    pair.nodes[1].memory.set_late(None);
    pair.a().send_to(2, name, &[data.sge()]);
    pair.run();
    assert_eq!(pair.b().receives(), [(9, DONE)]);
    assert_eq!(pair.b().hca.counters().drops.source_fault, 1);
}

#[test]
fn a_payload_that_cannot_be_put_on_the_wire_waits_or_fails() {
    for (fault, expected) in [(Fault::Late, None), (Fault::Gone, Some(Status::LocProt))] {
        let mut pair = local();
        let data = pair.a().holding(b"contents");
        let to = pair.b().register(64, ALL);
        pair.a().send(1, SendOp::Write(to.remote(0)), &[data.sge()]);
        let units = pair.transmit(0);
        let lost = units[0].payload_lost(fault);
        let is_late = matches!(lost.body, ResponseBody::Nak(Nak::LATE));
        assert_eq!(is_late, fault == Fault::Late);
        pair.respond(0, &lost);
        let failed = pair.a().sends().first().map(|(_, status)| *status);
        assert_eq!(failed, expected);
        pair.advance(WAIT);
        let status = expected.unwrap_or(DONE);
        assert_eq!(pair.a().sends(), [(1, status)]);
    }
}
