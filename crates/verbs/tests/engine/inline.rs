//! Payload that comes with the request instead of lying in a region.

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::QpType;
use vrdma_verbs::work::{Imm, Remote, SendOp, SendWr, Sge, Status, WcOp};
use vrdma_verbs::{Error, INLINE_MAX};
use vrdma_wire::{Lkey, Mtu, Rkey};

use crate::loss::lose_every_other;
use crate::pair::node::{ALL, datagram, send_wr};
use crate::pair::{Pair, Region, Setup};
use crate::saved::move_house;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn inline_wr(id: u64, op: SendOp<Region>, bytes: &[u8]) -> SendWr<Region> {
    SendWr {
        inline: Some(bytes.into()),
        ..SendWr::new(id, op)
    }
}

/// Makes a pair of that service with small packets, on one host or with a wire in between.
fn pair(qp_type: QpType, wired: bool) -> Pair {
    let setup = Setup {
        mtu: Mtu::B256,
        retry_count: 7,
        ..Setup::default()
    };
    let mut pair = match wired {
        true => Pair::wired(qp_type, setup),
        false => Pair::with(qp_type, setup),
    };
    pair.unit_bytes = 256;
    pair
}

#[test]
fn inline_sends_and_writes_arrive() {
    for (qp_type, wired) in [
        (QpType::Rc, false),
        (QpType::Rc, true),
        (QpType::Uc, false),
        (QpType::Uc, true),
    ] {
        let mut pair = pair(qp_type, wired);
        for (id, length) in (0..).zip([0, 1, 255, 256, 257, INLINE_MAX]) {
            let data = pattern(length);
            let [room, target] = [(); 2].map(|()| pair.b().register(INLINE_MAX as u32, ALL));
            pair.b().receive(id, &[room.sge()]);
            pair.b().receive(id + 100, &[]);
            pair.a()
                .post(inline_wr(id, SendOp::SendImm(Imm([1; 4])), &data));
            let write = SendOp::WriteImm(target.remote(0), Imm([2; 4]));
            pair.a().post(inline_wr(id + 100, write, &data));
            pair.run();
            let done = [(id, Status::Success), (id + 100, Status::Success)];
            assert_eq!(pair.a().sends()[2 * id as usize..], done);
            let messages = [
                (id, WcOp::Recv, length as u32),
                (id + 100, WcOp::RecvWriteImm, length as u32),
            ];
            assert_eq!(pair.b().messages()[2 * id as usize..], messages);
            for mr in [room, target] {
                assert_eq!(pair.nodes[1].bytes(&mr)[..length], data, "{qp_type:?}");
            }
        }
    }
}

#[test]
fn an_inline_datagram_arrives() {
    for wired in [false, true] {
        let mut pair = pair(QpType::Ud, wired);
        let room = pair.b().register(40 + INLINE_MAX as u32, ALL);
        pair.b().receive(9, &[room.sge()]);
        let mut wr = inline_wr(1, SendOp::Send, &pattern(300));
        wr.datagram = Some(datagram(pair.b().name()));
        pair.a().post(wr);
        pair.run();
        assert_eq!(pair.b().messages(), [(9, WcOp::Recv, 340)]);
        assert_eq!(pair.nodes[1].bytes(&room)[40..340], pattern(300));
    }
}

#[test]
fn what_was_lost_is_sent_again_from_the_same_bytes() {
    let mut pair = pair(QpType::Rc, false);
    let room = pair.b().register(INLINE_MAX as u32, ALL);
    pair.b().receive(9, &[room.sge()]);
    lose_every_other(&mut pair, 5);
    pair.a()
        .post(inline_wr(1, SendOp::Send, &pattern(INLINE_MAX)));
    pair.run_dry();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert!(pair.a().hca.counters().retries > 0);
    assert_eq!(pair.nodes[1].bytes(&room), pattern(INLINE_MAX));
}

#[test]
fn inline_payload_takes_the_place_of_buffers() {
    let mut pair = pair(QpType::Rc, false);
    let room = pair.b().register(8, ALL);
    pair.b().receive(9, &[room.sge()]);
    let mut wr = inline_wr(1, SendOp::Send, b"hello");
    wr.sges.push(Sge {
        addr: 0,
        length: 100,
        lkey: Lkey(0),
    });
    pair.a().post(wr);
    pair.run();
    assert_eq!(pair.b().messages(), [(9, WcOp::Recv, 5)]);
}

#[test]
fn what_cannot_be_inline_is_refused() {
    let remote = Remote {
        addr: 0,
        rkey: Rkey(0),
    };
    let ops = [
        (SendOp::Send, INLINE_MAX + 1),
        (SendOp::Read(remote), 8),
        (SendOp::FetchAdd { remote, add: 1 }, 8),
        (SendOp::LocalInvalidate(Rkey(0)), 0),
    ];
    for (op, length) in ops {
        let mut pair = pair(QpType::Rc, false);
        let (qp, wr) = (pair.a().qp, inline_wr(1, op, &pattern(length)));
        let refused = pair.a().hca.post_send(qp, wr);
        assert_eq!(refused, Err(Error::InvalidAttribute));
        pair.run();
        assert_eq!(pair.a().sends(), []);
        assert_eq!(pair.a().state(), QpState::Rts);
    }
}

#[test]
fn inline_payload_moves_house() {
    let mut pair = pair(QpType::Rc, false);
    let room = pair.b().register(INLINE_MAX as u32, ALL);
    pair.b().receive(9, &[room.sge()]);
    pair.a().post(inline_wr(1, SendOp::Send, &pattern(700)));
    pair.a()
        .post(send_wr(2, SendOp::Write(room.remote(0)), &[]));
    let units = pair.transmit(0);
    pair.deliver(1, &units[0]);
    move_house(pair.a());
    pair.run_dry();
    let done = [(1, Status::Success), (2, Status::Success)];
    assert_eq!(pair.a().sends(), done);
    assert_eq!(pair.nodes[1].bytes(&room)[..700], pattern(700));
}
