//! Binds: which windows can show which part of which region, and with which rights.

use vrdma_verbs::attr::Access;
use vrdma_verbs::object::{MrKind, MrSpec, Owner, WindowKind};
use vrdma_verbs::work::{BindWindow, SendOp, Status};
use vrdma_wire::{Lkey, Rkey};

use super::{BOTH, Bound, local_only, part_of, window};
use crate::pair::node::{ALL, Mr};
use crate::pair::{Node, Pair};

#[test]
fn binds_are_checked() {
    type Spoil = fn(&mut Node, &mut BindWindow);
    let both: [Spoil; 13] = [
        |_, bind| bind.length = 901,
        |_, bind| bind.length = u64::MAX,
        |_, bind| bind.start -= 101,
        |_, bind| bind.start = u64::MAX,
        |_, bind| bind.access = Access::LOCAL_WRITE,
        |_, bind| bind.access = Access::BIND_WINDOW,
        |_, bind| bind.region = Lkey(bind.region.0 ^ 1),
        |_, bind| bind.region = Lkey(bind.window.0),
        |_, bind| bind.window = Rkey(bind.region.0),
        |_, bind| bind.window = Rkey(0xffff_ff00),
        |node, bind| bind.region = node.register(1000, Access::LOCAL_WRITE).keys.lkey,
        |node, bind| {
            let pd = node.hca.create_pd(Owner::KERNEL).unwrap();
            bind.region = node.register_in(pd, 1 << 24, ALL).keys.lkey;
        },
        |node, bind| {
            let pd = node.hca.create_pd(Owner::KERNEL).unwrap();
            bind.window = node.hca.alloc_mw(pd, WindowKind::One).unwrap().rkey;
        },
    ];
    let nothing: [Spoil; 1] = [|_, bind| bind.length = 0];
    let cases = BOTH.map(|kind| both.map(|spoil| (kind, spoil)));
    let cases = cases.into_iter().flatten();
    for (kind, spoil) in cases.chain(nothing.map(|spoil| (WindowKind::Two, spoil))) {
        let mut pair = Pair::rc();
        let mr = pair.b().register(1000, local_only());
        let window = window(pair.b(), kind);
        let mut bind = part_of(&mr, window.rkey);
        spoil(pair.b(), &mut bind);
        pair.b().send(1, SendOp::BindWindow(bind), &[]);
        pair.run();
        assert_eq!(pair.b().sends(), [(1, Status::MwBind)], "{kind:?} {bind:?}");
        assert_eq!(pair.b().hca.deregister(mr.keys.id), Ok(()));
    }
    let mut bound = Bound::new(WindowKind::Two);
    let again = part_of(&bound.mr, bound.bind.window);
    assert_eq!(bound.own(SendOp::BindWindow(again)), Status::MwBind);
}

/// A window may give a right to write only if the region's owner has it.
#[test]
fn writing_windows_need_a_region_that_is_written() {
    let bind = |access| {
        let mut pair = Pair::rc();
        let mr = pair.b().register(1000, Access::BIND_WINDOW);
        let window = window(pair.b(), WindowKind::One);
        let mut bind = part_of(&mr, window.rkey);
        bind.access = access;
        pair.b().send(1, SendOp::BindWindow(bind), &[]);
        pair.run();
        pair.b().sends()[0].1
    };
    assert_eq!(bind(Access::REMOTE_READ), Status::Success);
    assert_eq!(bind(Access::REMOTE_WRITE), Status::MwBind);
    assert_eq!(bind(Access::REMOTE_ATOMIC), Status::MwBind);
}

#[test]
fn windows_show_ordinary_regions_only() {
    let kinds = [MrKind::Dma, MrKind::FastRegister { pages: 1 }];
    for kind in kinds {
        let mut pair = Pair::rc();
        let node = pair.b();
        let dma = kind == MrKind::Dma;
        let spec = MrSpec {
            kind,
            start: 0,
            length: 1 << 40,
            access: Access::LOCAL_WRITE,
            region: dma.then_some(0),
        };
        let keys = node.hca.register(node.pd, spec).unwrap();
        let window = window(node, WindowKind::One);
        let mr = Mr {
            keys,
            start: 0,
            length: 1000,
            region: 0,
        };
        let bind = part_of(&mr, window.rkey);
        node.send(1, SendOp::BindWindow(bind), &[]);
        pair.run();
        assert_eq!(pair.b().sends(), [(1, Status::MwBind)]);
    }
}
