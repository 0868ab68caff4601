//! Regions and keys: access to them, fast registration, invalidation.

use vrdma_verbs::Error;
use vrdma_verbs::Pace;
use vrdma_verbs::attr::{Access, QpState};
use vrdma_verbs::object::{MrKind, MrSpec, Owner};
use vrdma_verbs::work::{Event, FastRegister, Remote, SendOp, Sge, Status, Tail};
use vrdma_wire::{Lkey, Rkey};

use crate::pair::node::{ALL, Mr};
use crate::pair::{Node, Pair, Region};

const PAGES: u32 = 4;
const PAGE: u64 = 4096;

fn spec(kind: MrKind, region: Option<Region>) -> MrSpec<Region> {
    MrSpec {
        kind,
        start: 0,
        length: 4096,
        access: Access::LOCAL_WRITE,
        region,
    }
}

/// Makes an empty fast-register region.
fn fast_region(node: &mut Node) -> vrdma_verbs::object::MrKeys {
    let kind = MrKind::FastRegister { pages: PAGES };
    let mut spec = spec(kind, None);
    spec.access = Access::empty();
    node.hca.register(node.pd, spec).unwrap()
}

/// Makes a request that fills the region with a fresh buffer, under the key variant `variant`.
fn fill(node: &mut Node, key: Rkey, variant: u8) -> FastRegister<Region> {
    FastRegister {
        key: Rkey::from_parts(key.index(), variant),
        start: 0x7000,
        length: PAGE * u64::from(PAGES),
        access: ALL,
        pages: PAGES,
        region: node.memory.add(PAGE as usize * PAGES as usize),
    }
}

fn remote(fill: &FastRegister<Region>) -> Remote {
    Remote {
        addr: fill.start,
        rkey: fill.key,
    }
}

#[test]
fn registrations_are_checked() {
    let mut pair = Pair::rc();
    let node = pair.a();
    let kernel = node.pd;
    let user = node.hca.create_pd(Owner(7)).unwrap();
    let mut try_in = |pd, change: fn(&mut MrSpec<Region>)| {
        let mut spec = spec(MrKind::User, Some(0));
        change(&mut spec);
        node.hca.register(pd, spec).err()
    };
    assert_eq!(try_in(kernel, |_| ()), None);
    let invalid: [fn(&mut MrSpec<Region>); 7] = [
        |spec| spec.length = 0,
        |spec| spec.start = u64::MAX - 100,
        |spec| spec.region = None,
        |spec| spec.access = Access::REMOTE_WRITE,
        |spec| spec.access = Access::REMOTE_ATOMIC,
        |spec| spec.kind = MrKind::FastRegister { pages: 1 },
        |spec| (spec.kind, spec.access) = (MrKind::Dma, ALL),
    ];
    for change in invalid {
        assert_eq!(try_in(kernel, change), Some(Error::InvalidAttribute));
    }
    for pages in [0, vrdma_verbs::FAST_REGISTER_PAGES_MAX + 1] {
        let spec = spec(MrKind::FastRegister { pages }, None);
        let refused = pair.a().hca.register(kernel, spec).err();
        assert_eq!(refused, Some(Error::InvalidAttribute));
    }
    for kind in [MrKind::Dma, MrKind::FastRegister { pages: 1 }] {
        let refused = pair.a().hca.register(user, spec(kind, Some(0))).err();
        assert_eq!(refused, Some(Error::WrongOwner));
    }
}

#[test]
fn both_keys_of_a_region_have_one_value_and_stale_ones_fail() {
    let mut pair = Pair::rc();
    let node = pair.a();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        let mr = node.register(8, ALL);
        assert_eq!(mr.keys.lkey.0, mr.keys.rkey.0);
        assert!(seen.insert(mr.keys.lkey.0), "a key came back too early");
        node.hca.deregister(mr.keys.id).unwrap();
    }
}

#[test]
fn a_region_gets_other_memory_under_its_keys() {
    let mut pair = Pair::rc();
    let mr = pair.b().register(64, ALL);
    let node = pair.b();
    let (id, pd) = (mr.keys.id, node.pd);
    let region = node.memory.add(4096);
    let again = || MrSpec {
        access: ALL,
        ..spec(MrKind::User, Some(region))
    };
    let empty = MrSpec {
        length: 0,
        ..again()
    };
    assert_eq!(
        node.hca.reregister(id, pd, empty),
        Err(Error::InvalidAttribute)
    );
    let keys = node.hca.reregister(id, pd, again()).unwrap();
    assert_eq!((keys.lkey, keys.rkey), (mr.keys.lkey, mr.keys.rkey));
    let target = Remote {
        addr: again().start,
        rkey: keys.rkey,
    };
    let data = pair.a().holding(&[7; 8]);
    pair.a().send(1, SendOp::Write(target), &[data.sge()]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.b().bytes(&mr)[..8], [0; 8], "the old memory");
    pair.b().hca.deregister(id).unwrap();
    assert_eq!(
        pair.b().hca.reregister(id, pd, again()),
        Err(Error::InvalidHandle)
    );
}

#[test]
fn peers_never_reach_a_dma_region() {
    let mut pair = Pair::rc();
    let node = pair.b();
    let region = node.memory.add(4096);
    let mut spec = spec(MrKind::Dma, Some(region));
    spec.length = u64::MAX;
    let keys = node.hca.register(node.pd, spec).unwrap();
    let target = Remote {
        addr: 0,
        rkey: keys.rkey,
    };
    pair.a().send(1, SendOp::Write(target), &[]);
    let data = pair.a().holding(&[1; 8]);
    pair.a().send(2, SendOp::Write(target), &[data.sge()]);
    pair.run();
    assert_eq!(
        pair.a().sends(),
        [(1, Status::Success), (2, Status::RemAccess)]
    );
}

#[test]
fn a_dma_region_serves_its_own_domain() {
    let mut pair = Pair::rc();
    let node = pair.a();
    let region = node.memory.add(4096);
    let mut spec = spec(MrKind::Dma, Some(region));
    spec.length = u64::MAX;
    let keys = node.hca.register(node.pd, spec).unwrap();
    let sge = Sge {
        addr: 8,
        length: 16,
        lkey: keys.lkey,
    };
    pair.b().receive(9, &[]);
    let to = pair.b().register(16, ALL);
    pair.a().send(1, SendOp::Write(to.remote(0)), &[sge]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
}

#[test]
fn a_fast_register_region_is_usable_between_fill_and_invalidation() {
    let mut pair = Pair::rc();
    let keys = fast_region(pair.b());
    let fill = fill(pair.b(), keys.rkey, 0x42);
    pair.b()
        .send(1, SendOp::FastRegister(fill.clone().into()), &[]);
    pair.run();
    let data = pair.a().holding(b"fast");
    pair.a()
        .send(1, SendOp::Write(remote(&fill)), &[data.sge()]);
    pair.run();
    assert_eq!(pair.nodes[1].memory.bytes(fill.region)[..4], *b"fast");
    pair.b().send(2, SendOp::LocalInvalidate(fill.key), &[]);
    pair.run();
    assert_eq!(
        pair.b().sends(),
        [(1, Status::Success), (2, Status::Success)]
    );
    pair.a()
        .send(2, SendOp::Write(remote(&fill)), &[data.sge()]);
    pair.run();
    assert_eq!(pair.a().sends()[1..], [(2, Status::RemAccess)]);
}

#[test]
fn the_variant_of_a_key_counts() {
    let mut pair = Pair::rc();
    let keys = fast_region(pair.b());
    let fill = fill(pair.b(), keys.rkey, 0x42);
    pair.b()
        .send(1, SendOp::FastRegister(fill.clone().into()), &[]);
    pair.run();
    let mut target = remote(&fill);
    target.rkey = Rkey(target.rkey.0 ^ 1);
    let data = pair.a().holding(b"fast");
    pair.a().send(1, SendOp::Write(target), &[data.sge()]);
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::RemAccess)]);
}

#[test]
fn bad_fast_registrations_fail() {
    let spoil: [fn(&mut FastRegister<Region>); 7] = [
        |fill| fill.pages = PAGES + 1,
        |fill| fill.pages = 0,
        |fill| fill.length = 0,
        |fill| fill.start = u64::MAX,
        |fill| fill.access = Access::REMOTE_WRITE,
        |fill| fill.key = Rkey::from_parts(60, 1),
        |fill| fill.key = Rkey::from_parts(0xff_ffff, 1),
    ];
    for spoil in spoil {
        let mut pair = Pair::rc();
        let keys = fast_region(pair.a());
        let mut fill = fill(pair.a(), keys.rkey, 1);
        spoil(&mut fill);
        pair.a().send(1, SendOp::FastRegister(fill.into()), &[]);
        pair.run();
        assert_eq!(pair.a().sends(), [(1, Status::MwBind)]);
        assert_eq!(pair.a().state(), QpState::Err);
    }
}

#[test]
fn a_valid_region_is_not_filled_again() {
    let mut pair = Pair::rc();
    let keys = fast_region(pair.a());
    for id in [1, 2] {
        let fill = fill(pair.a(), keys.rkey, id as u8);
        pair.a().send(id, SendOp::FastRegister(fill.into()), &[]);
    }
    pair.run();
    assert_eq!(
        pair.a().sends(),
        [(1, Status::Success), (2, Status::MwBind)]
    );
}

#[test]
fn only_valid_fast_register_regions_are_invalidated() {
    let ordinary = |node: &mut Node| node.register(8, ALL).keys.rkey;
    let empty = |node: &mut Node| fast_region(node).rkey;
    let unknown = |_: &mut Node| Rkey(0xffff_ff00);
    for key_of in [ordinary, empty, unknown] {
        let mut pair = Pair::rc();
        let key = key_of(pair.a());
        pair.a().send(1, SendOp::LocalInvalidate(key), &[]);
        pair.run();
        assert_eq!(pair.a().sends(), [(1, Status::MwBind)]);

        let mut pair = Pair::rc();
        let key = key_of(pair.b());
        pair.b().receive(9, &[]);
        pair.a().send(1, SendOp::SendInvalidate(key), &[]);
        pair.run();
        assert_eq!(pair.a().sends(), [(1, Status::RemAccess)]);
        assert_eq!(pair.b().receives(), [(9, Status::WrFlush)]);
        let events = [Event::QpAccessError(pair.b().qp)];
        assert_eq!(pair.b().events, events);
    }
}

#[test]
fn a_message_may_invalidate_a_region_of_the_receiver() {
    let mut pair = Pair::rc();
    let keys = fast_region(pair.b());
    let fill = fill(pair.b(), keys.rkey, 9);
    pair.b()
        .send(1, SendOp::FastRegister(fill.clone().into()), &[]);
    pair.run();
    pair.b().receive(9, &[]);
    pair.a().send(1, SendOp::SendInvalidate(fill.key), &[]);
    pair.run();
    assert_eq!(pair.b().received[0].tail, Some(Tail::Invalidated(fill.key)));
    pair.b().send(2, SendOp::LocalInvalidate(fill.key), &[]);
    pair.run();
    assert_eq!(pair.b().sends()[1..], [(2, Status::MwBind)]);
}

#[test]
fn an_invalidation_waits_for_what_uses_the_region() {
    let mut pair = Pair::rc();
    let keys = fast_region(pair.a());
    let fill = fill(pair.a(), keys.rkey, 5);
    let to = pair.b().register(8, ALL);
    let sge = Sge {
        addr: fill.start,
        length: 8,
        lkey: Lkey(fill.key.0),
    };
    pair.a()
        .send(1, SendOp::FastRegister(fill.clone().into()), &[]);
    pair.a().send(2, SendOp::Write(to.remote(0)), &[sge]);
    pair.a().send(3, SendOp::LocalInvalidate(fill.key), &[]);
    let lost = pair.transmit(0);
    assert_eq!(lost.len(), 1);
    pair.run_dry();
    let done = |id| (id, Status::Success);
    assert_eq!(pair.a().sends(), [done(1), done(2), done(3)]);
}

#[test]
fn a_region_that_goes_between_two_units_stops_the_message() {
    let write = |gone: usize| {
        let mut pair = Pair::rc();
        pair.unit_bytes = 1024;
        let data: Mr = pair.a().register(2048, ALL);
        let to: Mr = pair.b().register(2048, ALL);
        pair.a().send(1, SendOp::Write(to.remote(0)), &[data.sge()]);
        let (qp, now) = (pair.a().qp, pair.now);
        let unit = pair
            .a()
            .hca
            .poll_transmit(qp, now, 1024, &mut Pace::Local)
            .unwrap();
        let response = pair.deliver(1, &unit).unwrap();
        let id = [data, to][gone].keys.id;
        pair.nodes[gone].hca.deregister(id).unwrap();
        pair.respond(0, &response);
        pair.run();
        pair.a().sends()
    };
    assert_eq!(write(0), [(1, Status::LocProt)]);
    assert_eq!(write(1), [(1, Status::RemAccess)]);
}
