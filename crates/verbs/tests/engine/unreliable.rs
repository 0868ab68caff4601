//! Unreliable connections: there are no answers, and a message with losses is lost as a whole.

use proptest::prelude::*;
use vrdma_verbs::Pace;
use vrdma_verbs::ReceiveQueue;
use vrdma_verbs::attr::{Access, QpState};
use vrdma_verbs::object::QpType;
use vrdma_verbs::unit::{Request, RequestOp, RequestTail};
use vrdma_verbs::work::{Event, Imm, RecvWr, Remote, SendOp, Status, Tail, WcOp};
use vrdma_wire::{Mtu, Rkey, Service};

use crate::pair::node::{ALL, Mr};
use crate::pair::{Pair, Region, Setup};
use crate::saved::move_house;

const MTU: usize = 256;

/// Makes two ends whose units are single packets.
fn packets(srq: bool) -> Pair {
    let setup = Setup {
        mtu: Mtu::B256,
        srq,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Uc, setup);
    pair.unit_bytes = MTU as u32;
    pair
}

/// Returns the packets of one message of `count` whole packets.
fn message(pair: &mut Pair, id: u64, op: SendOp<Region>, count: usize) -> Vec<Request<Region>> {
    let data = pair.a().holding(&vec![id as u8; MTU * count]);
    pair.a().send(id, op, &[data.sge()]);
    pair.transmit(0)
}

fn deliver(pair: &mut Pair, units: &[Request<Region>]) {
    for unit in units {
        assert!(pair.deliver(1, unit).is_none(), "nobody answers");
    }
}

fn filled(pair: &Pair, mr: &Mr) -> u8 {
    let bytes = pair.nodes[1].bytes(mr);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mixture");
    bytes[0]
}

#[test]
fn sends_and_writes_arrive_and_complete_without_an_answer() {
    let mut pair = Pair::uc();
    let data = pair.a().holding(&[7; 3000]);
    let [send, write, write_imm] = [(); 3].map(|()| pair.b().register(4096, ALL));
    pair.b().receive(9, &[send.sge()]);
    pair.b().receive(10, &[]);
    let imm = Imm([1, 2, 3, 4]);
    let ops = [
        SendOp::SendImm(imm),
        SendOp::Write(write.remote(96)),
        SendOp::WriteImm(write_imm.remote(0), imm),
    ];
    for (id, op) in (1..).zip(ops) {
        pair.a().send(id, op, &[data.sge()]);
    }
    let units = pair.transmit(0);
    pair.a().drain_outputs();
    let done = |id| (id, Status::Success);
    assert_eq!(pair.a().sends(), [done(1), done(2), done(3)]);
    deliver(&mut pair, &units);
    let messages = [(9, WcOp::Recv, 3000), (10, WcOp::RecvWriteImm, 3000)];
    assert_eq!(pair.b().messages(), messages);
    assert_eq!(pair.b().received[1].tail, Some(Tail::Imm(imm)));
    assert_eq!(pair.nodes[1].bytes(&send)[..3000], [7; 3000]);
    assert_eq!(pair.nodes[1].bytes(&write)[96..3096], [7; 3000]);
    assert_eq!(pair.nodes[1].bytes(&write_imm)[..3000], [7; 3000]);
    assert_eq!(pair.next_deadline(), None, "nothing to wait for");
}

#[test]
fn a_gap_drops_the_message_and_the_next_one_takes_its_receive() {
    for lost in 0..3 {
        let mut pair = packets(false);
        let room = pair.b().register(MTU as u32 * 3, ALL);
        pair.b().receive(9, &[room.sge()]);
        let mut first = message(&mut pair, 1, SendOp::Send, 3);
        let second = message(&mut pair, 2, SendOp::Send, 3);
        first.remove(lost);
        deliver(&mut pair, &first);
        assert_eq!(pair.b().receives(), [], "{lost} is missing");
        deliver(&mut pair, &second);
        assert_eq!(pair.b().receives(), [(9, Status::Success)]);
        assert_eq!(filled(&pair, &room), 2);
        let dropped = [2, 1, 0][lost];
        let drops = pair.b().hca.counters().drops;
        assert_eq!(drops.out_of_sequence, dropped, "{lost} is missing");
    }
}

#[test]
fn a_new_message_ends_the_one_whose_last_packet_is_missing() {
    let mut pair = packets(false);
    let write = pair.b().register(MTU as u32 * 2, ALL);
    pair.b().receive(9, &[]);
    let op = SendOp::WriteImm(write.remote(0), Imm([0; 4]));
    let first = message(&mut pair, 1, op.clone(), 2);
    let second = message(&mut pair, 2, op, 2);
    deliver(&mut pair, &first[..1]);
    deliver(&mut pair, &second);
    assert_eq!(pair.b().messages(), [(9, WcOp::RecvWriteImm, 512)]);
    assert_eq!(filled(&pair, &write), 2);
}

#[test]
fn an_abandoned_receive_of_a_shared_queue_is_aborted() {
    let mut pair = packets(true);
    let room = pair.b().register(MTU as u32 * 2, ALL);
    pair.b().receive(9, &[room.sge()]);
    let first = message(&mut pair, 1, SendOp::Send, 2);
    let second = message(&mut pair, 2, SendOp::Send, 2);
    deliver(&mut pair, &first[..1]);
    let srq = pair.b().srq.unwrap();
    let wanted = pair.b().hca.wants_receive(&second[0]);
    assert_eq!(wanted, Some(ReceiveQueue::Shared(srq)));
    pair.b().receive(10, &[room.sge()]);
    deliver(&mut pair, &second);
    let ends = [(9, Status::RemAbort), (10, Status::Success)];
    assert_eq!(pair.b().receives(), ends);
    assert_eq!(pair.b().state(), QpState::Rts);
}

#[test]
fn receives_are_asked_for_when_a_message_begins() {
    let mut pair = packets(false);
    let units = message(&mut pair, 1, SendOp::Send, 2);
    let own = Some(ReceiveQueue::Own(pair.b().qp));
    let wants = |pair: &mut Pair, unit| pair.b().hca.wants_receive(unit);
    assert_eq!(wants(&mut pair, &units[0]), own);
    assert_eq!(wants(&mut pair, &units[1]), None);
    deliver(&mut pair, &units);
    assert_eq!(pair.b().hca.counters().drops.no_receive, 1);
    let write = pair.b().register(MTU as u32 * 2, ALL);
    let op = SendOp::WriteImm(write.remote(0), Imm([0; 4]));
    let units = message(&mut pair, 2, op, 2);
    deliver(&mut pair, &units[..1]);
    assert_eq!(wants(&mut pair, &units[1]), own);
    deliver(&mut pair, &units[1..]);
    assert_eq!(pair.b().hca.counters().drops.no_receive, 2);
    assert_eq!(pair.b().state(), QpState::Rts);
}

#[test]
fn what_the_peer_does_wrong_is_dropped() {
    type Spoil = fn(&mut Request<Region>);
    let spoil: [(Spoil, &str); 6] = [
        (|unit| unit.packets += 1, "malformed"),
        (
            |unit| {
                unit.op = RequestOp::Read {
                    remote: nowhere(),
                    length: 0,
                }
            },
            "malformed",
        ),
        (
            |unit| {
                unit.op = RequestOp::FetchAdd {
                    remote: nowhere(),
                    add: 1,
                }
            },
            "malformed",
        ),
        (
            |unit| unit.tail = Some(RequestTail::Invalidate(Rkey(1))),
            "malformed",
        ),
        (
            |unit| {
                unit.op = RequestOp::Write {
                    target: Some((nowhere(), 256)),
                }
            },
            "access",
        ),
        (|unit| unit.service = Service::Rc, "unknown"),
    ];
    for (spoil, reason) in spoil {
        let mut pair = packets(false);
        let room = pair.b().register(MTU as u32, ALL);
        pair.b().receive(9, &[room.sge()]);
        let mut units = message(&mut pair, 1, SendOp::Send, 1);
        spoil(&mut units[0]);
        deliver(&mut pair, &units);
        let drops = pair.b().hca.counters().drops;
        let seen = [
            ("malformed", drops.malformed),
            ("access", drops.no_access),
            ("unknown", drops.unknown_qp),
        ];
        let expected = seen.map(|(name, _)| (name, u64::from(name == reason)));
        assert_eq!(seen, expected);
        let units = message(&mut pair, 2, SendOp::Send, 1);
        deliver(&mut pair, &units);
        assert_eq!(pair.b().receives(), [(9, Status::Success)]);
        assert_eq!(pair.b().events, []);
    }
}

fn nowhere() -> Remote {
    Remote {
        addr: 0,
        rkey: Rkey(0xffff_ff00),
    }
}

#[test]
fn without_the_right_nothing_is_written() {
    let setup = Setup {
        access: Access::LOCAL_WRITE,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Uc, setup);
    let write = pair.b().register(8, ALL);
    let data = pair.a().holding(&[1; 8]);
    pair.a()
        .send(1, SendOp::Write(write.remote(0)), &[data.sge()]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.nodes[1].bytes(&write), [0; 8]);
}

/// F15: a peer could try keys without end.
#[test]
fn who_tries_keys_loses_the_connection() {
    const FAULTS_MAX: u32 = 32;
    let mut pair = Pair::with(QpType::Uc, Setup::default());
    let data = pair.a().holding(&[1; 8]);
    for tries in 1..=FAULTS_MAX {
        assert_eq!(pair.b().state(), QpState::Rts, "before {tries}");
        let write = SendOp::Write(nowhere());
        pair.a().send(u64::from(tries), write, &[data.sge()]);
        pair.run();
    }
    assert_eq!(pair.b().state(), QpState::Err);
    let qp = pair.b().qp;
    assert_eq!(pair.b().events, [Event::QpAccessError(qp)]);
}

#[test]
fn what_the_owner_does_wrong_ends_the_connection() {
    let short = |pair: &mut Pair| {
        let room = pair.b().register(8, ALL);
        pair.b().receive(9, &[room.sge()]);
    };
    let unwritable = |pair: &mut Pair| {
        let room = pair.b().register(512, Access::empty());
        pair.b().receive(9, &[room.sge()]);
    };
    let undecodable = |pair: &mut Pair| {
        let sges = Err(Status::LocQpOp);
        let qp = pair.b().qp;
        pair.b().hca.post_recv(qp, RecvWr { id: 9, sges }).unwrap();
    };
    type Prepare = fn(&mut Pair);
    let cases: [(Prepare, Status); 3] = [
        (short, Status::LocLen),
        (unwritable, Status::LocProt),
        (undecodable, Status::LocQpOp),
    ];
    for (prepare, status) in cases {
        let mut pair = packets(false);
        prepare(&mut pair);
        pair.b().receive(10, &[]);
        let units = message(&mut pair, 1, SendOp::Send, 2);
        deliver(&mut pair, &units);
        let ends = [(9, status), (10, Status::WrFlush)];
        assert_eq!(pair.b().receives(), ends);
        assert_eq!(pair.b().state(), QpState::Err);
    }
    let mut pair = packets(false);
    let write = pair.b().register(256, ALL);
    pair.b().memory.remove(write.region);
    let units = message(&mut pair, 1, SendOp::Write(write.remote(0)), 1);
    deliver(&mut pair, &units);
    let events = [Event::QpFatal(pair.b().qp)];
    assert_eq!(pair.b().events, events);
}

#[test]
fn there_are_no_reads_atomics_and_remote_invalidations() {
    let remote = nowhere();
    let never = [
        SendOp::Read(remote),
        SendOp::FetchAdd { remote, add: 1 },
        SendOp::SendInvalidate(remote.rkey),
    ];
    for op in never {
        let mut pair = Pair::uc();
        pair.a().send(1, op, &[]);
        pair.a().send(2, SendOp::Send, &[]);
        pair.run();
        let ends = [(1, Status::LocQpOp), (2, Status::WrFlush)];
        assert_eq!(pair.a().sends(), ends);
        assert_eq!(pair.a().state(), QpState::Sqe);
        pair.a().modify_state(QpState::Rts);
        pair.b().receive(9, &[]);
        pair.a().send(3, SendOp::Send, &[]);
        pair.run();
        assert_eq!(pair.b().receives(), [(9, Status::Success)]);
    }
}

#[test]
fn a_message_whose_sender_vanishes_is_lost() {
    let mut pair = Pair::uc();
    let room = pair.b().register(64, ALL);
    pair.b().receive(9, &[room.sge()]);
    let data = pair.a().holding(&[1; 64]);
    pair.a().memory.remove(data.region);
    pair.a().send(1, SendOp::Send, &[data.sge()]);
    pair.run();
    assert_eq!(pair.b().hca.counters().drops.source_fault, 1);
    pair.a().send(2, SendOp::Send, &[]);
    pair.run();
    assert_eq!(pair.b().receives(), [(9, Status::Success)]);
}

#[test]
fn a_message_under_way_moves_house_with_both_ends() {
    let mut pair = packets(false);
    let room = pair.b().register(MTU as u32 * 3, ALL);
    pair.b().receive(9, &[room.sge()]);
    let data = pair.a().holding(&[5; MTU * 3]);
    pair.a().send(1, SendOp::Send, &[data.sge()]);
    let (qp, now) = (pair.a().qp, pair.now);
    let first = pair
        .a()
        .hca
        .poll_transmit(qp, now, MTU as u32, &mut Pace::Local)
        .unwrap();
    deliver(&mut pair, &[first]);
    pair.nodes.iter_mut().for_each(move_house);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.b().receives(), [(9, Status::Success)]);
    assert_eq!(filled(&pair, &room), 5);
}

proptest! {
    /// For any losses, doubled and swapped packets: a completed receive holds one whole message, and without faults all
    /// of them arrive.
    #[test]
    fn messages_arrive_whole_or_not_at_all(
        lengths in prop::collection::vec(1usize..5, 1..12),
        faults in prop::collection::vec(0u8..8, 0..30),
    ) {
        let mut pair = packets(false);
        let rooms: Vec<Mr> = lengths.iter().map(|_| pair.b().register(MTU as u32 * 5, ALL)).collect();
        for (id, room) in (0..).zip(&rooms) {
            pair.b().receive(id, &[room.sge()]);
        }
        let mut units = Vec::new();
        for (id, length) in (1..).zip(&lengths) {
            units.extend(message(&mut pair, id, SendOp::Send, *length));
        }
        let mut wire = Vec::new();
        let mut faults_left = faults.iter();
        for unit in units {
            match faults_left.next() {
                Some(0) => {}
                Some(1) => wire.extend([unit.clone(), unit]),
                Some(2) => wire.insert(wire.len().saturating_sub(1), unit),
                _ => wire.push(unit),
            }
        }
        deliver(&mut pair, &wire);
        let received = pair.nodes[1].received.clone();
        for (done, room) in received.iter().zip(&rooms) {
            let bytes = &pair.nodes[1].bytes(room)[..done.byte_len as usize];
            let id = usize::from(bytes[0]);
            prop_assert!(bytes.iter().all(|byte| usize::from(*byte) == id));
            prop_assert_eq!(bytes.len(), lengths[id - 1] * MTU);
        }
        if faults.iter().all(|fault| *fault > 2) {
            prop_assert_eq!(received.len(), lengths.len());
        }
    }
}
