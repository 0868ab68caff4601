//! The outline of an adapter, which people read.

use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{MrKind, QpType};
use vrdma_verbs::outline::{MemoryKind, Outline};
use vrdma_verbs::work::SendOp;

use crate::pair::node::ALL;
use crate::pair::{Pair, Setup};

#[test]
fn an_outline_has_what_is_under_way() {
    let setup = Setup {
        psn: 40,
        ..Setup::default()
    };
    let mut pair = Pair::wired(QpType::Rc, setup);
    let from = pair.a().register(100, ALL);
    let to = pair.b().register(100, ALL);
    pair.a().send(1, SendOp::Write(to.remote(0)), &[from.sge()]);
    pair.run();
    pair.a().send(2, SendOp::Write(to.remote(0)), &[from.sge()]);
    assert_eq!(pair.transmit(0).len(), 1, "and nobody answers");
    let (a, b) = (pair.a().name(), pair.b().name());
    let (peer, outline) = (pair.b().gid, pair.a().hca.outline(8));
    let [qp] = outline.qps[..] else {
        panic!("{outline:?}");
    };
    assert_eq!((qp.qpn, qp.state, qp.sends), (a.qpn, QpState::Rts, 1));
    assert_eq!(qp.peer, Some((peer, b.qpn)));
    let psns = [qp.unacked, qp.next].map(|psn| psn.get());
    assert_eq!(psns[1] - psns[0], 1);
    let other = pair.b().hca.outline(8).qps[0];
    assert_eq!((other.msn, other.expected), (1, qp.unacked));
    let regions = outline
        .mrs
        .iter()
        .map(|mr| (mr.kind, mr.length, mr.is_valid));
    let user = MemoryKind::Region(MrKind::User);
    assert_eq!(regions.collect::<Vec<_>>(), [(user, 100, true)]);
    assert_eq!(pair.a().hca.outline(0), Outline::default());
}
