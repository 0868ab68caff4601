//! The cost of operations, in objects looked at: it may not depend on what others have.

use vrdma_wire::{Gid, Mac, Mtu, Qpn, Rkey};

use crate::attr::{Access, Address, AttrMask, QpAttr, QpState};
use crate::object::{
    CqId, Identity, Limits, MrKeys, MrKind, MrSpec, MwKeys, Owner, PdId, QpId, QpSpec, QpType,
    SrqId, WindowKind,
};
use crate::work::{BindWindow, SendOp, SendWr};
use crate::{Hca, Pace, Time};

const OWN: Owner = Owner(1);
const OTHER: Owner = Owner(2);

/// An adapter on which one owner has few objects and another one may have many.
struct Adapter {
    hca: Hca<()>,
    pd: PdId,
    cq: CqId,
    srq: SrqId,
}

impl Adapter {
    fn new() -> Self {
        let limits = Limits {
            pds: 1 << 16,
            mrs: 1 << 20,
            cqs: 1 << 16,
            qps: 1 << 16,
            srqs: 1 << 16,
            gids: 1,
            rd_atomic: 16,
            message_bytes: 1 << 20,
            port_mtu: Mtu::B4096,
        };
        let identity = Identity {
            mac: Mac([2, 0, 0, 0, 0, 1]),
            seed: 1,
        };
        let mut hca = Hca::new(identity, limits);
        hca.bind_gid(0, Gid([1; 16])).unwrap();
        let pd = hca.create_pd(OWN).unwrap();
        Self {
            pd,
            cq: hca.create_cq(OWN).unwrap(),
            srq: hca.create_srq(pd, 0).unwrap(),
            hca,
        }
    }

    /// Makes an adapter on which another owner has `others` objects of each kind.
    fn crowded(others: u32) -> Self {
        let mut adapter = Self::new();
        let hca = &mut adapter.hca;
        let pd = hca.create_pd(OTHER).unwrap();
        let cq = hca.create_cq(OTHER).unwrap();
        for _ in 0..others {
            let region = register(hca, pd);
            let qp = sending(hca, QpSpec::new(QpType::Rc, pd, cq, cq));
            bind(hca, qp, pd, region);
            hca.create_pd(OTHER).unwrap();
            hca.create_cq(OTHER).unwrap();
            hca.create_srq(pd, 0).unwrap();
        }
        adapter
    }

    fn spec(&self) -> QpSpec {
        QpSpec {
            srq: Some(self.srq),
            ..QpSpec::new(QpType::Rc, self.pd, self.cq, self.cq)
        }
    }

    /// Returns how many objects an operation looks at.
    fn cost(&mut self, operation: impl FnOnce(&mut Hca<()>)) -> u64 {
        let before = self.hca.visits();
        operation(&mut self.hca);
        self.hca.visits() - before
    }
}

impl Hca<()> {
    fn visits(&self) -> u64 {
        let shared = &self.shared;
        let queues = shared.cqs.visits() + shared.srqs.visits() + self.qps.table.visits();
        queues + shared.pds.visits() + shared.mrs.visits()
    }
}

fn register(hca: &mut Hca<()>, pd: PdId) -> MrKeys {
    let spec = MrSpec {
        kind: MrKind::User,
        start: 0,
        length: 4096,
        access: Access::all(),
        region: Some(()),
    };
    hca.register(pd, spec).unwrap()
}

/// Makes a queue pair and takes it to a state in which it sends.
fn sending(hca: &mut Hca<()>, spec: QpSpec) -> QpId {
    let qp = hca.create_qp(spec).unwrap();
    let mut attr = QpAttr {
        port: 1,
        address: Address {
            dgid: Gid([2; 16]),
            port: 1,
            ..Address::default()
        },
        path_mtu: Mtu::B1024,
        dest_qpn: Qpn::from_low_bits(77),
        ..QpAttr::default()
    };
    let steps = [
        (QpState::Init, 0x39),
        (QpState::Rtr, 0x12_9181),
        (QpState::Rts, 0x1_2e01),
    ];
    for (state, mask) in steps {
        attr.state = state;
        hca.modify_qp(qp, &attr, AttrMask::from_bits_retain(mask))
            .unwrap();
    }
    qp
}

/// Makes a window of type 2 that a queue pair has bound.
fn bind(hca: &mut Hca<()>, qp: QpId, pd: PdId, region: MrKeys) -> MwKeys {
    let window = hca.alloc_mw(pd, WindowKind::Two).unwrap();
    let bind = BindWindow {
        window: Rkey::from_parts(window.rkey.index(), window.rkey.variant().wrapping_add(1)),
        region: region.lkey,
        start: 0,
        length: 8,
        access: Access::REMOTE_READ,
        zero_based: false,
    };
    hca.post_send(qp, SendWr::new(1, SendOp::BindWindow(bind)))
        .unwrap();
    assert_eq!(hca.next_ready(), Some(qp));
    let unit = hca.poll_transmit(qp, Time(0), 4096, &mut Pace::Local);
    assert!(unit.is_none(), "a bind sends nothing");
    while hca.poll_output().is_some() {}
    window
}

/// Cost of an operation beside `others` objects of another owner.
type Cost = fn(others: u32) -> u64;

fn destroy_qp(others: u32) -> u64 {
    let mut adapter = Adapter::crowded(others);
    let (spec, pd) = (adapter.spec(), adapter.pd);
    let qp = sending(&mut adapter.hca, spec);
    let region = register(&mut adapter.hca, pd);
    for _ in 0..3 {
        bind(&mut adapter.hca, qp, pd, region);
    }
    adapter.cost(|hca| hca.destroy_qp(qp).unwrap())
}

fn fail_cq(others: u32) -> u64 {
    let mut adapter = Adapter::crowded(others);
    let (spec, cq) = (adapter.spec(), adapter.cq);
    sending(&mut adapter.hca, spec);
    adapter.cost(|hca| hca.fail_cq(cq).unwrap())
}

fn fail_srq(others: u32) -> u64 {
    let mut adapter = Adapter::crowded(others);
    let (spec, srq) = (adapter.spec(), adapter.srq);
    sending(&mut adapter.hca, spec);
    adapter.cost(|hca| hca.fail_srq(srq).unwrap())
}

fn bind_gid(others: u32) -> u64 {
    let mut adapter = Adapter::crowded(others);
    adapter.cost(|hca| hca.bind_gid(0, Gid([1; 16])).unwrap())
}

fn destroy_owner(others: u32) -> u64 {
    let mut adapter = Adapter::crowded(others);
    let (spec, pd) = (adapter.spec(), adapter.pd);
    let region = register(&mut adapter.hca, pd);
    let qp = sending(&mut adapter.hca, spec);
    bind(&mut adapter.hca, qp, pd, region);
    adapter.cost(|hca| hca.destroy_owner(OWN))
}

#[test]
fn nothing_costs_more_beside_many_objects_of_others() {
    let operations: [(&str, Cost); 5] = [
        ("bind_gid", bind_gid),
        ("destroy_qp", destroy_qp),
        ("fail_cq", fail_cq),
        ("fail_srq", fail_srq),
        ("destroy_owner", destroy_owner),
    ];
    // One object of the other owner is a neighbour: both queue pairs are in the list of the same peer.
    for (name, cost) in operations {
        assert_eq!(cost(1), cost(500), "{name}");
        assert!(cost(500) <= cost(0) + 1, "{name}");
    }
}

/// A queue pair may bind a limited number of windows; one more is refused and changes nothing.
#[test]
fn windows_of_a_queue_pair_are_bounded() {
    let mut adapter = Adapter::new();
    let (spec, pd) = (adapter.spec(), adapter.pd);
    let qp = sending(&mut adapter.hca, spec);
    let region = register(&mut adapter.hca, pd);
    for _ in 0..=crate::QP_WINDOWS_MAX {
        bind(&mut adapter.hca, qp, pd, region);
    }
    assert_eq!(adapter.hca.qp_state(qp), Some(QpState::Err));
    adapter.hca.destroy_qp(qp).unwrap();
    adapter.hca.deregister(region.id).unwrap();
}

/// Most objects that a step of the reaper looks at, on average over a slice: the object that goes, its neighbours in
/// its lists, and what these lists belong to.
const STEP_VISITS: u64 = 16;

/// 4096 queue pairs with a window each, beside 2^19 regions of another owner.
#[test]
fn each_slice_of_the_reaper_keeps_to_its_budget() {
    const BUDGET: u32 = 64;
    const QPS: u32 = 4096;
    let mut adapter = Adapter::new();
    let other = adapter.hca.create_pd(OTHER).unwrap();
    for _ in 0..1 << 19 {
        register(&mut adapter.hca, other);
    }
    let (spec, pd) = (adapter.spec(), adapter.pd);
    for _ in 0..QPS {
        let region = register(&mut adapter.hca, pd);
        let qp = sending(&mut adapter.hca, spec);
        bind(&mut adapter.hca, qp, pd, region);
    }
    assert_eq!(adapter.cost(|hca| hca.retire_owner(OWN)), 0);
    let (mut slices, mut more) = (0, true);
    while more {
        let mut freed = 0;
        let cost = adapter.cost(|hca| more = hca.reap(BUDGET, |_| freed += 1));
        assert!(freed <= BUDGET);
        assert!(cost <= u64::from(BUDGET) * STEP_VISITS, "{cost} objects");
        slices += 1;
    }
    // A binding, a queue pair, a window and a region for each, then the SRQ, the CQ, the domain and the owner.
    assert_eq!(slices, (4 * QPS + 4).div_ceil(BUDGET));
    assert_eq!(adapter.hca.counts().mrs, 1 << 19);
}
