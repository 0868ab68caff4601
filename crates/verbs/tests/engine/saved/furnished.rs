//! An adapter with some objects of each kind, some of them at work.

use vrdma_verbs::attr::Access;
use vrdma_verbs::object::{MrKeys, MrKind, MrSpec, QpType, WindowKind};
use vrdma_verbs::work::{BindWindow, FastRegister, Imm, SendOp, SendWr, Status};
use vrdma_wire::{Mtu, Rkey};

use crate::pair::node::{ALL, Mr, datagram, send_wr};
use crate::pair::{Node, Pair, Region, Setup};

/// Makes an adapter with some objects of each kind.
pub(crate) fn furnished() -> Node {
    let setup = Setup {
        srq: true,
        mtu: Mtu::B256,
        ..Setup::default()
    };
    let mut pair = Pair::with(QpType::Rc, setup);
    pair.unit_bytes = 256;
    let data = pair.b().register(600, ALL);
    let to = pair.a().register(600, ALL);
    for id in 0..3 {
        pair.a().receive(id, &[to.sge()]);
    }
    pair.b().send(1, SendOp::Send, &[data.sge()]);
    let first_of_message = pair.transmit(1).remove(0);
    pair.deliver(0, &first_of_message);
    let node = pair.a();
    let fast = add_fast_region(node);
    add_windows(node, &to);
    for (id, op) in (0..).zip(ops_of_each_kind(&to, fast.rkey)) {
        node.send(id, op, &[to.part(0, 300)]);
    }
    post_datagram_and_inline(node);
    pair.transmit(0);
    let [node, _] = pair.nodes;
    node
}

/// Makes a region for fast registration, which shows no memory yet.
fn add_fast_region(node: &mut Node) -> MrKeys {
    let spec = MrSpec {
        kind: MrKind::FastRegister { pages: 2 },
        start: 0,
        length: 0,
        access: Default::default(),
        region: None,
    };
    node.hca.register(node.pd, spec).unwrap()
}

/// Makes windows of both types, all but the last with a bind behind them.
fn add_windows(node: &mut Node, mr: &Mr) {
    for kind in [WindowKind::One, WindowKind::Two, WindowKind::Two] {
        let window = node.hca.alloc_mw(node.pd, kind).unwrap();
        node.send(50, SendOp::BindWindow(bind(mr, window.rkey)), &[]);
    }
    node.hca.alloc_mw(node.pd, WindowKind::Two).unwrap();
}

/// Returns an operation of each kind but a plain SEND.
fn ops_of_each_kind(mr: &Mr, fast: Rkey) -> [SendOp<Region>; 11] {
    let remote = mr.remote(0);
    [
        SendOp::Write(remote),
        SendOp::FastRegister(Box::new(FastRegister {
            key: Rkey::from_parts(fast.index(), 7),
            start: 0x5000,
            length: 100,
            access: ALL,
            pages: 1,
            region: 0,
        })),
        SendOp::Read(remote),
        SendOp::WriteImm(remote, Imm([1, 2, 3, 4])),
        SendOp::CompareSwap {
            remote,
            compare: 1,
            swap: u64::MAX,
        },
        SendOp::FetchAdd { remote, add: 9 },
        SendOp::SendImm(Imm([4, 3, 2, 1])),
        SendOp::SendInvalidate(Rkey(77)),
        SendOp::LocalInvalidate(Rkey(0x100)),
        SendOp::Refused(Status::LocQpOp),
        SendOp::BindWindow(bind(mr, Rkey(0x300))),
    ]
}

/// Posts plain SENDs: one with the address of a datagram, and one with its data inline.
fn post_datagram_and_inline(node: &mut Node) {
    let mut wr = send_wr(99, SendOp::Send, &[]);
    wr.datagram = Some(datagram(node.name()));
    node.post(wr);
    let inline = SendWr {
        inline: Some([7; 33].as_slice().into()),
        ..SendWr::new(98, SendOp::Send)
    };
    node.post(inline);
}

fn bind(mr: &Mr, window: Rkey) -> BindWindow {
    BindWindow {
        window,
        region: mr.keys.lkey,
        start: mr.start + 8,
        length: 100,
        access: Access::REMOTE_WRITE,
        zero_based: window.index().is_multiple_of(2),
    }
}
