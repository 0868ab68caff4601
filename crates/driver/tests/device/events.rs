//! Asynchronous events.

use vrdma_driver::object::{Connection, QpShape, qp_mask, qp_state};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Pair, PairOptions};
use vrdma_pvrdma::abi::event::EventCode;
use vrdma_pvrdma::abi::qp::QpAttributes;

#[test]
fn the_first_message_in_rtr_is_announced() {
    let mut pair = Pair::new();
    let (a, b) = (pair.a.clone(), pair.b.clone());
    let gid = pair.fabric[0].gid();
    pair.fabric[1].reset_qp(&b.qp).unwrap();
    let connection = Connection::to(a.qp.qpn, gid);
    pair.fabric[1].init_qp(&b.qp, connection.access, 0).unwrap();
    pair.fabric[1].rtr_qp(&b.qp, &connection).unwrap();
    pair.receive(1, 0, 64);
    pair.receive(2, 0, 64);
    let request = SendWork::send(1).sge(a.sge(0, 8));
    pair.send(&request);
    pair.send(&request);
    let events = pair.fabric[1].take_events();
    assert_eq!(events, [(EventCode::CommEst, b.qp.handle)]);
    assert_eq!(pair.received().len(), 2);
}

#[test]
fn a_drained_send_queue_is_announced_when_asked_for() {
    for asked in [0, 1] {
        let mut pair = Pair::new();
        let qp = pair.a.qp.clone();
        let attrs = QpAttributes {
            qp_state: qp_state::SQD.into(),
            en_sqd_async_notify: asked,
            ..QpAttributes::default()
        };
        const EN_SQD_ASYNC_NOTIFY: u32 = 4;
        let mask = qp_mask::STATE | EN_SQD_ASYNC_NOTIFY;
        pair.fabric[0].modify_qp(&qp, mask, attrs).unwrap();
        pair.fabric.pump();
        let expected: &[_] = match asked {
            0 => &[],
            _ => &[(EventCode::SqDrained, qp.handle)],
        };
        assert_eq!(pair.fabric[0].take_events(), expected);
        let (addr, rkey) = pair.b.remote(0);
        pair.send(&SendWork::write(1, addr, rkey).sge(pair.a.sge(0, 8)));
        assert_eq!(pair.sent(), [], "nothing new is started");
        pair.fabric[0].set_qp_state(&qp, qp_state::RTS).unwrap();
        pair.fabric.pump();
        assert_eq!(pair.sent()[0].status, 0);
    }
}

#[test]
fn an_overflowing_cq_dies_and_takes_its_queue_pairs_along() {
    let mut pair = Pair::with(PairOptions {
        shape: QpShape {
            send_wr: 64,
            ..QpShape::RC
        },
        ..PairOptions::default()
    });
    let b = pair.b.clone();
    let vm = &mut pair.fabric[0];
    let a = pair.a.clone();
    let cq = vm.create_cq(a.context, 4).unwrap();
    let qp = vm.create_qp(a.pd, (&cq, &cq), None, QpShape::RC).unwrap();
    let peer = pair.fabric[1]
        .create_qp(b.pd, (&b.send_cq, &b.recv_cq), None, QpShape::RC)
        .unwrap();
    let gids = [pair.fabric[0].gid(), pair.fabric[1].gid()];
    pair.fabric[0]
        .connect(&qp, &Connection::to(peer.qpn, gids[1]))
        .unwrap();
    pair.fabric[1]
        .connect(&peer, &Connection::to(qp.qpn, gids[0]))
        .unwrap();
    let (addr, rkey) = b.remote(0);
    for id in 0..5 {
        let request = SendWork::write(id, addr, rkey).sge(a.sge(0, 8));
        pair.fabric[0].post_send(&qp, &request).unwrap();
    }
    pair.fabric.pump();
    let events = pair.fabric[0].take_events();
    assert!(
        events.contains(&(EventCode::CqErr, cq.handle)),
        "{events:?}"
    );
    let entries = pair.fabric[0].drain_cq(&cq);
    assert_eq!(
        entries.iter().map(|done| done.id).collect::<Vec<_>>(),
        [0, 1, 2, 3]
    );
    let attrs = pair.fabric[0].query_qp(&qp).unwrap();
    assert_eq!(attrs.qp_state.get(), qp_state::ERR);
    let attrs = pair.fabric[0].query_qp(&a.qp).unwrap();
    assert_eq!(
        attrs.qp_state.get(),
        qp_state::RTS,
        "other queue pairs go on"
    );
}
