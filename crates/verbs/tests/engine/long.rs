//! Messages longer than the processors' caches are copied with non-temporal stores, others are not.

use vrdma_verbs::object::{Limits, QpType};
use vrdma_verbs::work::{SendOp, Status};

use crate::pair::node::ALL;
use crate::pair::{Pair, Setup, limits};

/// Returns the bytes that both nodes copied with non-temporal stores, for one message of each kind.
fn non_temporal(length: u32) -> [u64; 3] {
    let limits = Limits {
        message_bytes: 32 << 20,
        ..limits()
    };
    let mut pair = Pair::with_limits(QpType::Rc, &Setup::default(), limits);
    let data: Vec<u8> = (0..length).map(|at| (at / 251) as u8).collect();
    let from = pair.a().holding(&data);
    let to = pair.b().register(length, ALL);
    let back = pair.a().register(length, ALL);
    pair.b().receive(1, &[to.sge()]);
    let ops = [
        (SendOp::Send, from.sge()),
        (SendOp::Write(to.remote(0)), from.sge()),
        (SendOp::Read(to.remote(0)), back.sge()),
    ];
    ops.map(|(op, sge)| {
        let before = pair.non_temporal();
        pair.a().send(7, op, &[sge]);
        pair.run();
        assert_eq!(pair.a().sends().pop(), Some((7, Status::Success)));
        pair.non_temporal() - before
    })
}

#[test]
fn only_messages_longer_than_caches_are_copied_so() {
    assert_eq!(non_temporal((16 << 20) - 4096), [0; 3]);
    assert_eq!(non_temporal(16 << 20), [16 << 20; 3]);
}
