//! Saved state: what is restored, and what is refused.

mod furnished;

use proptest::prelude::*;
use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{Owner, QpSpec, QpType};
use vrdma_verbs::saved::{NotQuiet, RestoreError};
use vrdma_verbs::unit::{Nak, Response, ResponseBody, Route};
use vrdma_verbs::work::{SendOp, Status};
use vrdma_verbs::{Hca, Pace, Source, Time};
use vrdma_wire::{Mtu, Psn, Qpn, Rkey};

pub(crate) use furnished::furnished;

use crate::loss::{Ledger, faults, ops};
use crate::pair::node::{ALL, datagram, send_wr};
use crate::pair::{Fate, Node, Pair, Region, Setup};

pub(crate) fn save(node: &mut Node) -> Vec<u8> {
    node.drain_outputs();
    let saved = node.hca.save(|region| region.to_le_bytes().to_vec());
    saved.unwrap()
}

fn find(name: &[u8]) -> Option<Region> {
    name.try_into().ok().map(Region::from_le_bytes)
}

pub(crate) fn restore(bytes: &[u8]) -> Result<Hca<Region>, RestoreError> {
    Hca::restore(bytes, find)
}

/// Restores the node from its saved state, as in another process.
pub(crate) fn move_house(node: &mut Node) {
    node.hca = restore(&save(node)).unwrap();
}

/// Found by the simulator, seed 2926: the state of such an adapter was refused.
#[test]
fn a_datagram_that_waits_for_a_full_wire_goes_out_after_a_move() {
    let mut pair = Pair::wired(QpType::Ud, Setup::default());
    let to = pair.b().register(100, ALL);
    pair.b().receive(7, &[to.sge()]);
    let mut wr = send_wr(1, SendOp::Send, &[]);
    wr.datagram = Some(datagram(pair.b().name()));
    pair.a().post(wr);
    pair.full = Some(0);
    assert!(pair.transmit(0).is_empty());
    move_house(pair.a());
    pair.full = None;
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.a().hca.counters().sent.datagrams, 1);
    assert_eq!(pair.b().receives().len(), 1);
}

/// Found by fuzzing: the state of such an adapter was refused.
#[test]
fn a_request_that_failed_waits_for_an_older_one_after_a_move() {
    let setup = Setup {
        mtu: Mtu::B256,
        psn: 0,
        ..Setup::default()
    };
    let mut pair = Pair::wired(QpType::Rc, setup);
    let from = pair.b().register(1024, ALL);
    let to = pair.a().register(1024, ALL);
    for id in 1..4 {
        pair.a()
            .send(id, SendOp::Read(from.remote(0)), &[to.part(0, 400)]);
    }
    assert_eq!(pair.transmit(0).len(), 3, "all of it is lost");
    let second = Response {
        route: Route {
            sgid: pair.b().gid,
            dgid: pair.a().gid,
            ..Route::default()
        },
        source: pair.b().name().qpn,
        destination: pair.a().name().qpn,
        psn: Psn::new(2),
        msn: 1,
        body: ResponseBody::Nak(Nak::RemoteAccess),
    };
    pair.respond(0, &second);
    assert_eq!(pair.a().sends(), [], "the first READ has no data yet");
    move_house(pair.a());
    pair.run_dry();
    let ended = [
        (1, Status::Success),
        (2, Status::RemAccess),
        (3, Status::WrFlush),
    ];
    assert_eq!(pair.a().sends(), ended);
}

#[test]
fn what_was_saved_is_saved_again_the_same() {
    let mut node = furnished();
    let bytes = save(&mut node);
    let (counts, counters) = (node.hca.counts(), *node.hca.counters());
    let attr = node.hca.query_qp(node.qp).unwrap();
    move_house(&mut node);
    assert_eq!(save(&mut node), bytes);
    assert_eq!(node.hca.counts(), counts);
    assert_eq!(node.hca.counters(), &counters);
    assert_eq!(node.name().qpn, furnished().name().qpn);
    let again = node.hca.query_qp(node.qp).unwrap();
    assert_eq!(again.dest_qpn, attr.dest_qpn);
    assert_eq!(again.rq_psn, attr.rq_psn);
    assert_eq!(node.hca.gid(0), Some(node.gid));
    assert!(node.hca.next_ready().is_some());
}

/// An adapter whose owner knows queue pairs by their slots goes on numbering them so.
#[test]
fn plain_numbers_stay_plain() {
    let node = furnished();
    let mut hca: Hca<Region> = Hca::new(node.hca.identity(), *node.hca.limits());
    hca.number_plainly();
    let pd = hca.create_pd(Owner::KERNEL).unwrap();
    let cq = hca.create_cq(Owner::KERNEL).unwrap();
    let spec = QpSpec::new(QpType::Ud, pd, cq, cq);
    let first = hca.create_qp(spec).unwrap();
    assert!(first.0 > 1, "0 and 1 are special numbers");
    let saved = hca.save(|_| Vec::new()).unwrap();
    let mut hca = restore(&saved).unwrap();
    let second = hca.create_qp(spec).unwrap();
    for qp in [first, second] {
        assert_eq!(hca.qpn(qp).map(Qpn::get), Some(qp.0));
    }
}

#[test]
fn new_objects_get_the_numbers_they_would_have_got() {
    let spec = |node: &Node| *node.hca.qp_spec(node.qp).unwrap();
    let mut here = furnished();
    let mut there = furnished();
    let numbers = |node: &mut Node, moves: bool| {
        let mut spec = spec(node);
        spec.qp_type = QpType::Ud;
        let first = node.hca.create_qp(spec).unwrap();
        let mr = node.register(8, ALL);
        node.hca.destroy_qp(first).unwrap();
        if moves {
            move_house(node);
        }
        let qp = node.hca.create_qp(spec).unwrap();
        let key = node.register(8, ALL).keys.rkey;
        (qp, node.hca.qpn(qp), mr.keys.rkey, key)
    };
    assert_eq!(numbers(&mut here, false), numbers(&mut there, true));
}

/// Restores what an engine saved whose numbers were slots, from an adapter with some objects of each kind.
#[test]
fn an_adapter_of_version_1_goes_on_with_its_numbers() {
    let mut hca = restore(include_bytes!("saved/version1.bin")).unwrap();
    let of_now = furnished();
    assert_eq!(hca.counts(), of_now.hca.counts());
    let qp = of_now.qp;
    assert_eq!(
        hca.qpn(qp),
        Qpn::new(0x37 << 16 | 1),
        "a generation and a slot"
    );
    assert_eq!(hca.qp_named(Qpn::from_low_bits(0x37 << 16 | 1)), Some(qp));
    let keys = (0..=255).map(|variant| Rkey::from_parts(0, variant));
    let known: Vec<_> = keys
        .filter(|key| hca.region_behind(qp, *key).is_some())
        .collect();
    assert_eq!(known.len(), 1, "{known:?}");
    while hca.poll_output().is_some() {}
    let again = hca.save(|region| region.to_le_bytes().to_vec()).unwrap();
    assert_eq!(again[..2], [8, 2]);
    let mut hca = restore(&again).unwrap();
    assert!(hca.region_behind(qp, known[0]).is_some());
    let spec = *hca.qp_spec(qp).unwrap();
    let spec = QpSpec { srq: None, ..spec };
    let number = hca.create_qp(spec).map(|new| hca.qpn(new)).unwrap();
    assert!(
        number.unwrap().get() & 0xffff != 2,
        "its slot is not in it any more"
    );
}

#[test]
fn completions_not_handed_out_stand_in_the_way() {
    let mut pair = Pair::rc();
    pair.a().send(1, SendOp::Refused(Status::LocQpOp), &[]);
    pair.transmit(0);
    let saved = pair.a().hca.save(|_| Vec::new());
    assert_eq!(saved, Err(NotQuiet::Outputs));
}

#[test]
fn newer_unknown_and_broken_states_are_refused() {
    let refused = |bytes: &[u8]| restore(bytes).err();
    let good = save(&mut furnished());
    assert_eq!(refused(&good), None);
    let mut newer = good.clone();
    assert_eq!(newer[..2], [8, 2]);
    newer[1] = 3;
    assert_eq!(refused(&newer), Some(RestoreError::Version(3)));
    let mut longer = good.clone();
    longer.extend([0xf8, 0x7f, 1]);
    assert_eq!(refused(&longer), Some(RestoreError::Leftover));
    assert_eq!(
        refused(&good[..good.len() - 1]),
        Some(RestoreError::Unreadable)
    );
    assert_eq!(refused(b"not a state"), Some(RestoreError::Unreadable));
    assert_eq!(refused(b""), Some(RestoreError::Version(0)));
    let elsewhere = Hca::<Region>::restore(&good, |_| None);
    assert_eq!(elsewhere.err(), Some(RestoreError::Region));
}

#[test]
fn a_moved_datagram_queue_goes_on() {
    for qp_type in [QpType::Ud, QpType::Gsi] {
        let mut pair = Pair::new(qp_type);
        let room = pair.b().register(64, ALL);
        pair.b().receive(9, &[room.sge()]);
        pair.nodes.iter_mut().for_each(move_house);
        let name = pair.b().name();
        pair.a().send_to(1, name, &[]);
        pair.run();
        assert_eq!(pair.b().receives(), [(9, Status::Success)]);
    }
}

#[test]
fn a_moved_drain_still_ends() {
    let mut pair = Pair::rc();
    let mr = pair.b().register(8, ALL);
    pair.a().send(1, SendOp::Write(mr.remote(0)), &[]);
    pair.transmit(0);
    let attr = vrdma_verbs::attr::QpAttr {
        state: QpState::Sqd,
        sqd_event: true,
        ..Default::default()
    };
    let mask =
        vrdma_verbs::attr::AttrMask::STATE | vrdma_verbs::attr::AttrMask::EN_SQD_ASYNC_NOTIFY;
    let qp = pair.a().qp;
    pair.a().hca.modify_qp(qp, &attr, mask).unwrap();
    move_house(pair.a());
    pair.run();
    assert_eq!(pair.a().sends(), [(1, Status::Success)]);
    assert_eq!(pair.a().events, [vrdma_verbs::work::Event::SqDrained(qp)]);
}

/// Uses an adapter of unknown health.
fn exercise(mut hca: Hca<Region>) {
    let memory = crate::pair::Memory::default();
    for _ in 0..20 {
        while let Some(qp) = hca.next_ready() {
            let Some(unit) = hca.poll_transmit(qp, Time(0), 512, &mut Pace::Local) else {
                continue;
            };
            hca.wants_receive(&unit);
            if let Some(response) = hca.deliver(&unit, Source::Memory(&memory), &memory) {
                hca.respond(&response, Source::Memory(&memory), &memory, Time(0));
            }
        }
        hca.handle_timeout(Time(u64::MAX));
        while hca.poll_output().is_some() {}
    }
}

proptest! {
    /// Both ends move to other processes again and again, while units and answers are lost.
    #[test]
    fn moving_loses_and_doubles_nothing(
        ops in ops(),
        faults in faults(),
        moves in prop::collection::vec(any::<bool>(), 0..30),
    ) {
        let setup = Setup { mtu: Mtu::B256, retry_count: 7, rd_atomic: 3, ..Setup::default() };
        let mut ledger = Ledger::new(setup, 512);
        for (id, op) in (0..).zip(&ops) {
            ledger.post(id, op);
        }
        let mut faults = faults.into_iter();
        ledger.pair.fates(move |_| match faults.next() {
            Some(3) => Fate::Lose,
            _ => Fate::Arrive,
        });
        for first in moves {
            ledger.pair.step();
            let node = &mut ledger.pair.nodes[usize::from(first)];
            move_house(node);
        }
        ledger.pair.heal();
        ledger.pair.run_dry();
        ledger.check(ops.len() as u64);
    }

    /// Whatever the bytes are, restoring returns, and an accepted adapter can be used.
    #[test]
    fn damaged_states_do_no_harm(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = save(&mut furnished());
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(hca) = Hca::restore(&bytes, |_| Some(0)) {
            exercise(hca);
        }
    }
}
