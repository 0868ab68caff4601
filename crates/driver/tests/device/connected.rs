//! Reliable connections: each opcode, with the data checked.

use vrdma_driver::object::pattern;
use vrdma_driver::work::SendWork;
use vrdma_driver::{Pair, PairOptions};
use vrdma_pvrdma::abi::completion::wc_flag;

const SEND: u32 = 0;
const WRITE: u32 = 1;
const READ: u32 = 2;
const RECV: u32 = 128;
const RECV_WRITE_IMM: u32 = 129;
const SUCCESS: u32 = 0;

fn each_kind(test: impl Fn(&mut Pair)) {
    for kernel in [false, true] {
        for loopback in [false, true] {
            test(&mut Pair::with(PairOptions {
                kernel,
                loopback,
                ..PairOptions::default()
            }));
        }
    }
}

#[test]
fn send_arrives_in_the_posted_buffer() {
    each_kind(|pair| {
        pair.receive(7, 100, 5000);
        let request = SendWork::send(1).sge(pair.a.sge(3, 4099));
        pair.send(&request);
        let sent = pair.sent();
        assert_eq!(sent.len(), 1);
        assert_eq!(
            (sent[0].id, sent[0].opcode, sent[0].status),
            (1, SEND, SUCCESS)
        );
        assert_eq!(sent[0].qp, pair.a.qp.handle);
        let received = pair.received();
        assert_eq!(received.len(), 1);
        assert_eq!((received[0].id, received[0].opcode), (7, RECV));
        assert_eq!((received[0].byte_len, received[0].status), (4099, SUCCESS));
        assert_eq!(received[0].qp, pair.b.qp.handle);
        assert_eq!(pair.bytes_of_b(100, 4099), pair.bytes_of_a(3, 4099));
    });
}

#[test]
fn immediate_data_arrives_in_wire_order() {
    let mut pair = Pair::new();
    pair.receive(7, 0, 64);
    let request = SendWork::send(1).imm([1, 2, 3, 4]).sge(pair.a.sge(0, 8));
    pair.send(&request);
    let entry = pair.fabric[pair.b.guest]
        .poll_entry(&pair.b.recv_cq)
        .unwrap();
    assert_eq!(
        (entry.imm, entry.wc_flags.get()),
        ([1, 2, 3, 4], wc_flag::WITH_IMM)
    );
    assert_eq!(entry.byte_len.get(), 8);
}

#[test]
fn write_and_read_move_bytes_without_the_peer_s_help() {
    each_kind(|pair| {
        let (addr, rkey) = pair.b.remote(4000);
        pair.send(&SendWork::write(1, addr, rkey).sge(pair.a.sge(9, 10_000)));
        assert_eq!(pair.bytes_of_b(4000, 10_000), pair.bytes_of_a(9, 10_000));
        pair.send(&SendWork::read(2, addr, rkey).sge(pair.a.sge(20_000, 10_000)));
        assert_eq!(pair.bytes_of_a(20_000, 10_000), pair.bytes_of_a(9, 10_000));
        let sent = pair.sent();
        let done: Vec<_> = sent
            .iter()
            .map(|done| (done.id, done.opcode, done.status))
            .collect();
        assert_eq!(done, [(1, WRITE, SUCCESS), (2, READ, SUCCESS)]);
        assert_eq!(sent[1].byte_len, 10_000);
        assert_eq!(pair.received(), []);
    });
}

#[test]
fn write_with_immediate_takes_a_receive() {
    let mut pair = Pair::new();
    pair.receive(7, 0, 0);
    let (addr, rkey) = pair.b.remote(500);
    pair.send(
        &SendWork::write(1, addr, rkey)
            .imm([9, 8, 7, 6])
            .sge(pair.a.sge(0, 300)),
    );
    let entry = pair.fabric[pair.b.guest]
        .poll_entry(&pair.b.recv_cq)
        .unwrap();
    assert_eq!((entry.wr_id.get(), entry.opcode.get()), (7, RECV_WRITE_IMM));
    assert_eq!((entry.imm, entry.byte_len.get()), ([9, 8, 7, 6], 300));
    assert_eq!(pair.bytes_of_b(500, 300), pair.bytes_of_a(0, 300));
}

#[test]
fn lists_of_buffers_are_gathered_and_scattered() {
    let mut pair = Pair::new();
    let sges = [
        pair.b.sge(0, 10),
        pair.b.sge(50, 0),
        pair.b.sge(100, 4096),
        pair.b.sge(9000, 500),
    ];
    let (guest, qp) = (pair.b.guest, pair.b.qp.clone());
    pair.fabric[guest].post_recv(&qp, 7, &sges).unwrap();
    let request = SendWork::send(1)
        .sge(pair.a.sge(40_000, 1000))
        .sge(pair.a.sge(1, 2))
        .sge(pair.a.sge(20_000, 3500));
    pair.send(&request);
    assert_eq!(pair.received()[0].byte_len, 4502);
    let mut expected = pair.bytes_of_a(40_000, 1000);
    expected.extend(pair.bytes_of_a(1, 2));
    expected.extend(pair.bytes_of_a(20_000, 3500));
    let mut found = pair.bytes_of_b(0, 10);
    found.extend(pair.bytes_of_b(100, 4096));
    found.extend(pair.bytes_of_b(9000, 4502 - 4106));
    assert_eq!(found, expected);
}

#[test]
fn empty_messages_need_no_memory() {
    let mut pair = Pair::new();
    let (guest, qp) = (pair.b.guest, pair.b.qp.clone());
    pair.fabric[guest].post_recv(&qp, 7, &[]).unwrap();
    pair.send(&SendWork::send(1));
    pair.send(&SendWork::write(2, 0xdead, 0xbeef));
    pair.send(&SendWork::read(3, 0xdead, 0xbeef));
    let statuses: Vec<_> = pair.sent().iter().map(|done| done.status).collect();
    assert_eq!(statuses, [SUCCESS; 3]);
    assert_eq!(pair.received()[0].byte_len, 0);
}

#[test]
fn messages_longer_than_a_unit() {
    let mut pair = Pair::new();
    let length = 8 << 20;
    let data = pattern(1, length);
    let ends = [pair.a.clone(), pair.b.clone()];
    let [(source, from), (target, to)] = ends.map(|end| {
        let vm = &mut pair.fabric[end.guest];
        let buffer = vm.buffer_at(77, length as u64);
        let mr = vm
            .register(end.pd, &buffer, vrdma_driver::object::rights::ALL)
            .unwrap();
        (buffer, mr)
    });
    source.write(&pair.fabric[0].ram, 0, &data);
    let sge = from.sge(source.address, length as u32);
    pair.send(&SendWork::write(1, target.address, to.rkey).sge(sge));
    assert_eq!(pair.sent()[0].status, SUCCESS);
    assert!(target.read(&pair.fabric[1].ram, 0, length) == data);
    source.write(&pair.fabric[0].ram, 0, &vec![0; length]);
    pair.send(&SendWork::read(2, target.address, to.rkey).sge(sge));
    let done = pair.sent()[0];
    assert_eq!((done.status, done.byte_len), (SUCCESS, length as u32));
    assert!(source.read(&pair.fabric[0].ram, 0, length) == data);
    let (guest, qp) = (pair.b.guest, pair.b.qp.clone());
    let receive = to.sge(target.address, length as u32);
    target.write(&pair.fabric[1].ram, 0, &vec![0; length]);
    pair.fabric[guest].post_recv(&qp, 7, &[receive]).unwrap();
    pair.send(&SendWork::send(3).sge(sge));
    assert_eq!(pair.received()[0].byte_len, length as u32);
    assert!(target.read(&pair.fabric[1].ram, 0, length) == data);
}

#[test]
fn unsignalled_requests_complete_in_silence_but_free_their_slots() {
    let mut pair = Pair::new();
    let (addr, rkey) = pair.b.remote(0);
    for id in 0..200 {
        let request = SendWork::write(id, addr, rkey).sge(pair.a.sge(0, 8));
        pair.send(&request.unsignaled());
    }
    assert_eq!(pair.sent(), []);
    assert_eq!(pair.a.qp.send.outstanding(&pair.fabric[0].ram.view()), 0);
}

#[test]
fn both_directions_at_once_keep_their_order() {
    let mut pair = Pair::new();
    for round in 0..50u64 {
        for id in 0..16 {
            pair.receive(round * 16 + id, id * 64, 64);
            let request = SendWork::send(id).sge(pair.a.sge(id * 64, 64));
            let (guest, qp) = (pair.a.guest, pair.a.qp.clone());
            pair.fabric[guest].post_send(&qp, &request).unwrap();
            let (addr, rkey) = pair.a.remote(32_768 + id * 64);
            let back = SendWork::write(id, addr, rkey).sge(pair.b.sge(4096 + id * 64, 64));
            let (guest, qp) = (pair.b.guest, pair.b.qp.clone());
            pair.fabric[guest].post_send(&qp, &back).unwrap();
        }
        pair.fabric.pump();
        let ids = |done: Vec<vrdma_driver::object::Completion>| {
            done.iter().map(|done| done.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(pair.sent()), (0..16).collect::<Vec<_>>());
        assert_eq!(
            ids(pair.received()),
            (round * 16..round * 16 + 16).collect::<Vec<_>>()
        );
        assert_eq!(pair.bytes_of_b(0, 1024), pair.bytes_of_a(0, 1024));
        assert_eq!(pair.bytes_of_a(32_768, 1024), pair.bytes_of_b(4096, 1024));
        let (guest, cq) = (pair.b.guest, pair.b.send_cq.clone());
        assert_eq!(pair.fabric[guest].drain_cq(&cq).len(), 16);
    }
}

#[test]
fn rings_of_one_entry_work() {
    let mut shape = vrdma_driver::object::QpShape::RC;
    (shape.send_wr, shape.recv_wr, shape.send_sge, shape.recv_sge) = (1, 1, 1, 1);
    let mut pair = Pair::with(PairOptions {
        shape,
        ..PairOptions::default()
    });
    for id in 0..100 {
        pair.receive(id, 0, 64);
        let request = SendWork::send(id).sge(pair.a.sge(0, 64));
        pair.send(&request);
        assert_eq!(pair.sent()[0].id, id);
        assert_eq!(pair.received()[0].id, id);
    }
}
