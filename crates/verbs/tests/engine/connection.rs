//! Reliable connections on a wire without faults.

use crate::pair::Pair;
use crate::pair::node::ALL;
use vrdma_verbs::work::{Imm, SendOp, Status, Tail, WcOp};

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn a_send_lands_in_the_posted_receive() {
    let mut pair = Pair::rc();
    let data = pattern(5000);
    let from = pair.a().holding(&data);
    let to = pair.b().register(8192, ALL);
    pair.b().receive(9, &[to.sge()]);
    pair.a()
        .send(1, SendOp::SendImm(Imm([1, 2, 3, 4])), &[from.sge()]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.b().messages(), [(9, WcOp::Recv, 5000)]);
    assert_eq!(
        pair.b().received[0].tail,
        Some(Tail::Imm(Imm([1, 2, 3, 4])))
    );
    let sender = pair.a().name().qpn;
    assert_eq!(pair.b().received[0].src_qp, sender);
    assert_eq!(pair.nodes[1].bytes(&to)[..5000], data);
}

#[test]
fn write_read_and_atomics_reach_the_named_memory() {
    let mut pair = Pair::rc();
    let data = pattern(3000);
    let local = pair.a().holding(&data);
    let back = pair.a().register(3000, ALL);
    let word = pair.a().register(8, ALL);
    let remote = pair.b().register(4096, ALL);
    pair.a()
        .send(1, SendOp::Write(remote.remote(96)), &[local.sge()]);
    pair.a()
        .send(2, SendOp::Read(remote.remote(96)), &[back.sge()]);
    let add = SendOp::FetchAdd {
        remote: remote.remote(0),
        add: 5,
    };
    pair.a().send(3, add, &[word.sge()]);
    let swap = SendOp::CompareSwap {
        remote: remote.remote(0),
        compare: 5,
        swap: 77,
    };
    pair.a().send(4, swap, &[word.sge()]);
    pair.run();
    let done = |id| (id, Status::Success);
    assert_eq!(pair.a().sends(), [done(1), done(2), done(3), done(4)]);
    let lengths: Vec<_> = pair
        .a()
        .sent
        .iter()
        .flatten()
        .map(|c| (c.op, c.byte_len))
        .collect();
    assert_eq!(
        lengths,
        [
            (WcOp::Write, 3000),
            (WcOp::Read, 3000),
            (WcOp::FetchAdd, 8),
            (WcOp::CompareSwap, 8)
        ]
    );
    assert_eq!(pair.nodes[1].bytes(&remote)[96..3096], data);
    assert_eq!(pair.nodes[0].bytes(&back), data);
    assert_eq!(pair.nodes[0].bytes(&word), 5u64.to_le_bytes());
    assert_eq!(pair.nodes[1].bytes(&remote)[..8], 77u64.to_le_bytes());
}
