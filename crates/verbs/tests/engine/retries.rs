//! Retries: what resets their count, and what waits meanwhile.

use std::time::Duration;

use vrdma_verbs::unit::{Nak, ResponseBody};
use vrdma_verbs::work::{Imm, SendOp, Status};

use crate::pair::Pair;
use crate::pair::node::ALL;

#[test]
fn gaps_between_steps_forward_do_not_use_up_retries() {
    let mut pair = Pair::rc();
    let local = pair.a().register(8, ALL);
    let mr = pair.b().holding(b"contents");
    pair.a().send(0, SendOp::Read(mr.remote(0)), &[local.sge()]);
    for id in 1..=20 {
        pair.a().send(id, SendOp::Write(mr.remote(0)), &[]);
    }
    let units = pair.transmit(0);
    for pass in 1..20 {
        pair.deliver(1, &units[pass - 1]);
        let gap = pair.deliver(1, &units[pass + 1]).unwrap();
        assert!(matches!(gap.body, ResponseBody::Nak(Nak::Sequence)));
        pair.respond(0, &gap);
        assert!(!pair.transmit(0).is_empty(), "it goes on");
    }
    pair.run_dry();
    assert_eq!(pair.a().sends().len(), 21);
    assert!(
        pair.a()
            .sends()
            .iter()
            .all(|(_, status)| *status == Status::Success)
    );
}

#[test]
fn an_unready_receiver_makes_later_requests_wait_too() {
    let mut pair = Pair::rc();
    let mr = pair.b().register(64, ALL);
    pair.a()
        .send(1, SendOp::WriteImm(mr.remote(0), Imm([0; 4])), &[]);
    pair.a().send(2, SendOp::Write(mr.remote(0)), &[]);
    pair.run();
    assert_eq!(pair.a().sends(), []);
    assert_eq!(pair.b().hca.counters().rnr_naks_sent, 1);
    pair.b().receive(9, &[]);
    pair.advance(Duration::from_micros(640));
    assert_eq!(
        pair.a().sends(),
        [(1, Status::Success), (2, Status::Success)]
    );
    assert_eq!(pair.b().receives(), [(9, Status::Success)]);
}
