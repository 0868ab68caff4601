//! Memory windows: what peers reach through them, how they are bound and unbound, and what they hold on to.

mod binding;

use vrdma_verbs::attr::Access;
use vrdma_verbs::object::{MrId, MwId, MwKeys, Owner, QpId, WindowKind};
use vrdma_verbs::work::{BindWindow, Output, Remote, SendOp, Sge, Status, Tail, WcOp};
use vrdma_verbs::{Error, Pace};
use vrdma_wire::{Lkey, Rkey};

use crate::pair::node::{ALL, Mr, send_wr};
use crate::pair::{Node, Pair, Setup};
use crate::saved::move_house;

const BOTH: [WindowKind; 2] = [WindowKind::One, WindowKind::Two];

/// First byte and length of the part that the tests' windows show.
const PART: (u64, u64) = (100, 50);

fn window(node: &mut Node, kind: WindowKind) -> MwKeys {
    node.hca.alloc_mw(node.pd, kind).unwrap()
}

/// Makes a bind of the window to [`PART`] of a region, under a new key.
fn part_of(mr: &Mr, window: Rkey) -> BindWindow {
    BindWindow {
        window: Rkey::from_parts(window.index(), window.variant().wrapping_add(1)),
        region: mr.keys.lkey,
        start: mr.start + PART.0,
        length: PART.1,
        access: Access::REMOTE_WRITE | Access::REMOTE_READ,
        zero_based: false,
    }
}

/// A region of node 1 without own rights for peers, and a window that is bound to a part of it.
struct Bound {
    pair: Pair,
    mr: Mr,
    window: MwKeys,
    bind: BindWindow,
}

impl Bound {
    fn new(kind: WindowKind) -> Self {
        Self::with(kind, |_| ())
    }

    fn with(kind: WindowKind, change: impl FnOnce(&mut BindWindow)) -> Self {
        let mut pair = Pair::rc();
        let mr = pair.b().register(1000, local_only());
        let window = window(pair.b(), kind);
        let mut bind = part_of(&mr, window.rkey);
        change(&mut bind);
        pair.b().send(1, SendOp::BindWindow(bind), &[]);
        pair.run();
        Self {
            pair,
            mr,
            window,
            bind,
        }
    }

    fn place(&self, offset: u64) -> Remote {
        Remote {
            addr: self.bind.start + offset,
            rkey: self.bind.window,
        }
    }

    /// Returns how a WRITE of `length` bytes by the peer ends.
    fn write(&mut self, remote: Remote, length: usize) -> Status {
        let data = self.pair.a().holding(&vec![0xee; length]);
        self.pair.a().send(7, SendOp::Write(remote), &[data.sge()]);
        self.pair.run();
        self.pair.a().sends().last().unwrap().1
    }

    /// Returns how the owner's next request ends.
    fn own(&mut self, op: SendOp<usize>) -> Status {
        self.pair.b().send(2, op, &[]);
        self.pair.run();
        self.pair.b().sends().last().unwrap().1
    }

    fn deregister(&mut self) -> Result<(), Error> {
        self.pair.nodes[1].hca.deregister(self.mr.keys.id)
    }
}

fn local_only() -> Access {
    Access::LOCAL_WRITE | Access::BIND_WINDOW
}

#[test]
fn peers_reach_what_a_window_shows_and_nothing_else() {
    for kind in BOTH {
        let mut bound = Bound::new(kind);
        assert_eq!(bound.pair.b().sends(), [(1, Status::Success)]);
        let op = bound.pair.b().sent[0].unwrap().op;
        assert_eq!((op, op as u8), (WcOp::BindWindow, 5));
        let all = bound.place(0);
        assert_eq!(bound.write(all, 50), Status::Success);
        let bytes = bound.pair.nodes[1].bytes(&bound.mr);
        assert_eq!(bytes[100..150], [0xee; 50]);
        assert_eq!(bytes.iter().filter(|byte| **byte == 0xee).count(), 50);
        let back = bound.pair.a().register(10, ALL);
        let op = SendOp::Read(bound.place(40));
        bound.pair.a().send(8, op, &[back.sge()]);
        bound.pair.run();
        assert_eq!(bound.pair.nodes[0].bytes(&back), [0xee; 10]);
    }
    for (offset, length) in [(0, 51), (1, 50), (u64::MAX, 1), (50, 1)] {
        let mut bound = Bound::new(WindowKind::One);
        let addr = bound.bind.start.wrapping_add(offset);
        let remote = Remote {
            addr,
            ..bound.place(0)
        };
        assert_eq!(bound.write(remote, length), Status::RemAccess);
    }
}

#[test]
fn a_window_gives_its_own_rights() {
    let write_to = |access| {
        let mut bound = Bound::with(WindowKind::One, |bind| bind.access = access);
        let remote = bound.place(0);
        bound.write(remote, 8)
    };
    assert_eq!(write_to(Access::REMOTE_WRITE), Status::Success);
    assert_eq!(write_to(Access::REMOTE_READ), Status::RemAccess);
    assert_eq!(write_to(Access::empty()), Status::RemAccess);
    let mut bound = Bound::with(WindowKind::Two, |bind| {
        bind.access = Access::REMOTE_ATOMIC;
        bind.start += 4;
    });
    let word = bound.pair.a().register(8, ALL);
    let add = SendOp::FetchAdd {
        remote: bound.place(0),
        add: 0x0102,
    };
    bound.pair.a().send(1, add, &[word.sge()]);
    bound.pair.run();
    let bytes = bound.pair.nodes[1].bytes(&bound.mr);
    assert_eq!(bytes[104..112], 0x0102u64.to_le_bytes());
}

#[test]
fn a_zero_based_window_counts_from_its_start() {
    for kind in BOTH {
        let mut bound = Bound::with(kind, |bind| bind.zero_based = true);
        let rkey = bound.bind.window;
        assert_eq!(bound.write(Remote { addr: 20, rkey }, 30), Status::Success);
        let bytes = bound.pair.nodes[1].bytes(&bound.mr);
        assert_eq!(bytes[120..150], [0xee; 30]);
        assert_eq!(bytes[119], 0);
        assert_eq!(
            bound.write(Remote { addr: 20, rkey }, 31),
            Status::RemAccess
        );
    }
}

#[test]
fn a_window_of_type_1_is_bound_anew_and_unbound_by_binding_nothing() {
    let mut bound = Bound::new(WindowKind::One);
    let old = bound.place(0);
    let mut again = part_of(&bound.mr, bound.bind.window);
    again.start += 200;
    assert_eq!(bound.own(SendOp::BindWindow(again)), Status::Success);
    let moved = Remote {
        addr: again.start,
        rkey: again.window,
    };
    assert_eq!(bound.write(moved, 8), Status::Success);
    assert_eq!(bound.pair.nodes[1].bytes(&bound.mr)[300], 0xee);
    assert_eq!(bound.deregister(), Err(Error::InUse));
    let nothing = BindWindow {
        region: Lkey(0),
        length: 0,
        ..again
    };
    assert_eq!(bound.own(SendOp::BindWindow(nothing)), Status::Success);
    assert_eq!(bound.deregister(), Ok(()));
    assert_eq!(bound.write(moved, 8), Status::RemAccess);
    let mut bound = Bound::new(WindowKind::One);
    let again = part_of(&bound.mr, bound.bind.window);
    assert_eq!(bound.own(SendOp::BindWindow(again)), Status::Success);
    assert_eq!(bound.write(old, 8), Status::RemAccess, "an old key");
}

#[test]
fn a_window_of_type_2_is_invalidated_by_its_owner() {
    let mut bound = Bound::new(WindowKind::Two);
    let key = bound.bind.window;
    assert_eq!(bound.own(SendOp::LocalInvalidate(key)), Status::Success);
    assert_eq!(bound.deregister(), Ok(()));
    let remote = bound.place(0);
    assert_eq!(bound.write(remote, 8), Status::RemAccess);
    let mut bound = Bound::new(WindowKind::Two);
    let again = part_of(&bound.mr, bound.bind.window);
    assert_eq!(bound.own(SendOp::LocalInvalidate(key)), Status::Success);
    assert_eq!(bound.own(SendOp::BindWindow(again)), Status::Success);
    assert_eq!(bound.own(SendOp::LocalInvalidate(key)), Status::MwBind);
}

#[test]
fn a_window_of_type_2_is_invalidated_by_the_peer() {
    let mut bound = Bound::new(WindowKind::Two);
    let key = bound.bind.window;
    bound.pair.b().receive(9, &[]);
    bound.pair.a().send(1, SendOp::SendInvalidate(key), &[]);
    bound.pair.run();
    let received = bound.pair.b().received[0];
    assert_eq!(received.tail, Some(Tail::Invalidated(key)));
    let remote = bound.place(0);
    assert_eq!(bound.write(remote, 8), Status::RemAccess);
}

#[test]
fn nobody_invalidates_a_window_of_type_1() {
    let mut bound = Bound::new(WindowKind::One);
    let key = bound.bind.window;
    bound.pair.b().receive(9, &[]);
    bound.pair.a().send(1, SendOp::SendInvalidate(key), &[]);
    bound.pair.run();
    assert_eq!(bound.pair.a().sends(), [(1, Status::RemAccess)]);
    let mut bound = Bound::new(WindowKind::One);
    assert_eq!(bound.own(SendOp::LocalInvalidate(key)), Status::MwBind);
}

fn on_qp(node: &mut Node, qp: QpId, op: SendOp<usize>) -> Status {
    node.drain_outputs();
    node.hca.post_send(qp, send_wr(1, op, &[])).unwrap();
    node.hca
        .poll_transmit(qp, Default::default(), 4096, &mut Pace::Local);
    match node.hca.poll_output() {
        Some(Output::SendDone { completion, .. }) => completion.unwrap().status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_window_of_type_2_serves_the_queue_pair_that_bound_it() {
    let bind_elsewhere = |kind| {
        let mut pair = Pair::rc();
        let mr = pair.b().register(1000, local_only());
        let window = window(pair.b(), kind);
        let bind = part_of(&mr, window.rkey);
        let [_, qp] = pair.connect_more(&Setup::default());
        let status = on_qp(pair.b(), qp, SendOp::BindWindow(bind));
        assert_eq!(status, Status::Success);
        let bound = Bound {
            pair,
            mr,
            window,
            bind,
        };
        (bound, qp)
    };
    let (mut bound, _) = bind_elsewhere(WindowKind::One);
    let remote = bound.place(0);
    assert_eq!(bound.write(remote, 8), Status::Success);
    let (mut bound, _) = bind_elsewhere(WindowKind::Two);
    let key = bound.bind.window;
    assert_eq!(bound.own(SendOp::LocalInvalidate(key)), Status::MwBind);
    let (mut bound, qp) = bind_elsewhere(WindowKind::Two);
    assert_eq!(bound.write(remote, 8), Status::RemAccess);
    assert_eq!(bound.deregister(), Err(Error::InUse));
    bound.pair.b().hca.destroy_qp(qp).unwrap();
    assert_eq!(bound.deregister(), Ok(()), "the queue pair is gone");
}

#[test]
fn a_window_holds_its_region_and_its_domain() {
    for kind in BOTH {
        let mut bound = Bound::new(kind);
        assert_eq!(bound.deregister(), Err(Error::InUse));
        let counts = bound.pair.b().hca.counts();
        assert_eq!((counts.mrs, counts.mws), (1, 1));
        let remote = bound.place(0);
        assert_eq!(bound.write(remote, 8), Status::Success);
        let hca = &mut bound.pair.nodes[1].hca;
        assert_eq!(hca.free_mw(bound.window.id), Ok(()));
        assert_eq!(hca.free_mw(bound.window.id), Err(Error::InvalidHandle));
        assert_eq!(hca.counts().mws, 0);
        assert_eq!(bound.deregister(), Ok(()));
        assert_eq!(bound.write(remote, 8), Status::RemAccess);
    }
    let mut node = Node::new(1, vrdma_verbs::object::QpType::Rc, &Setup::default());
    let pd = node.hca.create_pd(Owner(5)).unwrap();
    let window = node.hca.alloc_mw(pd, WindowKind::Two).unwrap();
    assert_eq!(node.hca.owner_of_mw(window.id), Some(Owner(5)));
    assert_eq!(node.hca.owner_of_mr(MrId(window.id.0)), None);
    assert_eq!(node.hca.destroy_pd(pd), Err(Error::InUse));
    node.hca.destroy_owner(Owner(5));
    assert_eq!(node.hca.counts().mws, 0);
    assert_eq!(node.hca.destroy_pd(pd), Err(Error::InvalidHandle));
}

#[test]
fn everything_of_an_owner_goes_with_its_windows() {
    let mut bound = Bound::new(WindowKind::Two);
    bound.pair.b().hca.destroy_owner(Owner::KERNEL);
    assert_eq!(bound.pair.b().hca.counts(), Default::default());
}

#[test]
fn windows_and_regions_are_not_taken_for_each_other() {
    let mut bound = Bound::new(WindowKind::One);
    let (mr, window) = (bound.mr.keys.id, bound.window.id);
    let hca = &mut bound.pair.nodes[1].hca;
    let wrong = Err(Error::InvalidHandle);
    assert_eq!(hca.deregister(MrId(window.0)), wrong);
    assert_eq!(hca.free_mw(MwId(mr.0)), wrong);
    assert_eq!(hca.owner_of_mw(MwId(mr.0)), None);
    assert_eq!(hca.owner_of_mr(mr), Some(Owner::KERNEL));
    let sge = Sge {
        addr: bound.bind.start,
        length: 8,
        lkey: Lkey(bound.bind.window.0),
    };
    bound.pair.b().send(2, SendOp::Send, &[sge]);
    bound.pair.run();
    assert_eq!(bound.pair.b().sends()[1..], [(2, Status::LocProt)]);
}

#[test]
fn windows_move_house_as_they_are() {
    for kind in BOTH {
        let mut bound = Bound::with(kind, |bind| bind.zero_based = kind == WindowKind::Two);
        move_house(bound.pair.b());
        let addr = match kind {
            WindowKind::One => bound.bind.start,
            WindowKind::Two => 0,
        };
        let rkey = bound.bind.window;
        assert_eq!(bound.write(Remote { addr, rkey }, 50), Status::Success);
        assert_eq!(bound.pair.nodes[1].bytes(&bound.mr)[100..150], [0xee; 50]);
        assert_eq!(bound.deregister(), Err(Error::InUse));
        assert_eq!(bound.pair.b().hca.counts().mws, 1);
        let end = match kind {
            WindowKind::One => SendOp::BindWindow(BindWindow {
                length: 0,
                ..bound.bind
            }),
            WindowKind::Two => SendOp::LocalInvalidate(rkey),
        };
        assert_eq!(bound.own(end), Status::Success);
        assert_eq!(bound.deregister(), Ok(()));
    }
}
