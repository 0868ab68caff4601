//! Rules 43 to 47: doorbells and ring indices.

use std::time::Duration;

use vrdma_driver::object::{Connection, QpShape, qp_state};
use vrdma_driver::work::SendWork;
use vrdma_driver::{End, Fabric, Pair, PairOptions};
use vrdma_pvrdma::DeviceState;
use vrdma_pvrdma::abi::doorbell::Doorbell;
use vrdma_pvrdma::abi::event::EventCode;

use super::single::Single;

const SEND: u32 = 1 << 30;
const ARM: u32 = 1 << 30;

fn trapped_pair() -> Pair {
    let change = |config: &mut vrdma_pvrdma::DeviceConfig| config.maps_doorbells = false;
    Pair::on(change, PairOptions::default())
}

#[test]
fn rule_43_a_page_rings_for_its_own_context_only() {
    let mut pair = trapped_pair();
    let other = pair.fabric[0].open().unwrap();
    pair.fabric.pump();
    let (addr, rkey) = pair.b.remote(0);
    let request = SendWork::write(1, addr, rkey).sge(pair.a.sge(0, 8));
    let (a, vm) = (pair.a.clone(), &mut pair.fabric[0]);
    a.qp.send.push(&vm.ram.view(), &request.encode()).unwrap();
    for page in [other.page, 99, 1023, 1024] {
        vm.write_doorbell(page, Doorbell::Qp, a.qp.handle | SEND);
        vm.write_doorbell(page, Doorbell::Cq, a.send_cq.handle | ARM);
    }
    pair.fabric.pump();
    assert_eq!(pair.sent(), []);
    assert_eq!(pair.fabric[0].device.snapshot().violations.doorbells, 8);
    pair.fabric[0].write_doorbell(0, Doorbell::Qp, a.qp.handle | SEND);
    pair.fabric.pump();
    assert_eq!(
        pair.sent().len(),
        1,
        "the kernel's page rings for everything"
    );
    assert_eq!(pair.fabric[0].take_notified(), []);
}

#[test]
fn rule_44_doorbells_for_nobody_are_ignored() {
    let mut single = Single::trapped();
    let page = single.context.page;
    let (context, pd) = (single.context, single.pd);
    let vm = single.vm();
    let cq = vm.create_cq(context, 4).unwrap();
    let srq = vm.create_srq(pd, 4, 1).unwrap();
    let qp = vm
        .create_qp(pd, (&cq, &cq), Some(&srq), QpShape::RC)
        .unwrap();
    vm.ring_recv(&qp);
    for doorbell in Doorbell::ALL {
        for handle in [0, 2, 1000, 1 << 20, 0xff_ffff] {
            for flags in 0..8 {
                vm.write_doorbell(page, doorbell, handle | flags << 29);
            }
        }
    }
    for offset in [12, 16, 4092] {
        let now = Default::default();
        let region = vrdma_pvrdma::BarRegion::Doorbells;
        vm.device
            .write(region, u64::from(page) * 4096 + offset, &[0xff; 4], now);
    }
    single.fabric.pump();
    assert_eq!(single.vm().take_events(), []);
    assert_eq!(single.vm().device.snapshot().counts.qps, 1);
}

/// All invalid values that a guest could write as its index.
const BOGUS: [u32; 5] = [64 + 1, 127, 128, 1 << 20, u32::MAX];

#[test]
fn rule_45_a_bogus_send_index_is_fatal_to_the_queue_pair() {
    for index in BOGUS {
        let mut pair = Pair::new();
        let a = pair.a.clone();
        let vm = &mut pair.fabric[0];
        vm.ram.store(a.qp.send.state(), index);
        vm.ring_send(&a.qp);
        fatal(&mut pair, &a);
    }
}

#[test]
fn rule_45_a_bogus_receive_index_is_fatal_to_the_queue_pair() {
    for index in BOGUS {
        let mut pair = Pair::new();
        let b = pair.b.clone();
        let ring = b.qp.recv.as_ref().unwrap();
        pair.fabric[1].ram.store(ring.state(), index);
        pair.send(&SendWork::send(1).sge(pair.a.sge(0, 8)));
        fatal(&mut pair, &b);
        pair.fabric.pass(Duration::from_secs(10));
        assert_ne!(pair.sent()[0].status, 0);
    }
}

fn fatal(pair: &mut Pair, end: &End) {
    pair.fabric.pump();
    let events = pair.fabric[end.guest].take_events();
    assert_eq!(events, [(EventCode::QpFatal, end.qp.handle)]);
    let attrs = pair.fabric[end.guest].query_qp(&end.qp).unwrap();
    assert_eq!(attrs.qp_state.get(), qp_state::ERR);
}

#[test]
fn rule_45_an_index_that_goes_back_is_bogus() {
    let mut pair = Pair::new();
    let a = pair.a.clone();
    let (addr, rkey) = pair.b.remote(0);
    for id in 0..10 {
        pair.send(&SendWork::write(id, addr, rkey).sge(a.sge(0, 8)));
    }
    pair.fabric[0].ram.store(a.qp.send.state(), 9);
    pair.fabric[0].ring_send(&a.qp);
    fatal(&mut pair, &a);
    assert_eq!(pair.sent().len(), 10);
}

#[test]
fn rule_45_a_bogus_index_of_a_shared_queue_kills_it() {
    for index in BOGUS {
        let mut fabric = Fabric::new();
        let guest = fabric.add();
        let end = fabric.end(guest, PairOptions::default());
        let srq = fabric[guest].create_srq(end.pd, 64, 1).unwrap();
        fabric[guest].ram.store(srq.ring.state(), index);
        fabric[guest].set_srq_limit(&srq, 1).unwrap();
        fabric.pump();
        let events = fabric[guest].take_events();
        assert!(
            events.contains(&(EventCode::SrqErr, srq.handle)),
            "{index}: {events:?}"
        );
    }
}

#[test]
fn rule_45_a_bogus_index_of_a_completion_queue_kills_it() {
    for index in [1, 255, 512, u32::MAX] {
        let mut pair = Pair::new();
        let a = pair.a.clone();
        pair.fabric[0].ram.store(a.send_cq.state() + 4, index);
        let (addr, rkey) = pair.b.remote(0);
        pair.send(&SendWork::write(1, addr, rkey).sge(a.sge(0, 8)));
        let events = pair.fabric[0].take_events();
        assert!(
            events.contains(&(EventCode::CqErr, a.send_cq.handle)),
            "{index}: {events:?}"
        );
        let attrs = pair.fabric[0].query_qp(&a.qp).unwrap();
        assert_eq!(attrs.qp_state.get(), qp_state::ERR);
    }
}

#[test]
fn rule_45_bogus_indices_of_device_rings_are_forgiven_for_a_while() {
    let mut pair = Pair::new();
    let a = pair.a.clone();
    pair.fabric[0].interrupts.blocked = true;
    let at = pair.fabric[0].driver().notify_pages.pages[0] + 12;
    pair.fabric[0].ram.store(at, 5000);
    let (addr, rkey) = pair.b.remote(0);
    let notify = |pair: &mut Pair, id| {
        pair.fabric[0].arm(&a.send_cq);
        pair.send(&SendWork::write(id, addr, rkey).sge(a.sge(0, 8)));
    };
    notify(&mut pair, 1);
    pair.fabric[0].ram.store(at, 0);
    pair.fabric[0].interrupts.blocked = false;
    pair.fabric.pass(Duration::from_millis(10));
    assert_eq!(
        pair.fabric[0].take_notified(),
        [a.send_cq.handle],
        "nothing was lost"
    );
    pair.fabric[0].interrupts.blocked = true;
    pair.fabric[0].ram.store(at, 5000);
    notify(&mut pair, 2);
    pair.fabric.pass(Duration::from_secs(1));
    assert_eq!(pair.fabric[0].device.snapshot().state, DeviceState::Failed);
}

#[test]
fn rule_46_a_full_ring_does_not_hold_up_others() {
    let shape = QpShape {
        send_wr: 4096,
        ..QpShape::RC
    };
    let mut pair = Pair::with(PairOptions {
        shape,
        ..PairOptions::default()
    });
    let a = pair.a.clone();
    let gids = [pair.fabric[0].gid(), pair.fabric[1].gid()];
    let other = pair.fabric[0]
        .create_qp(a.pd, (&a.recv_cq, &a.recv_cq), None, QpShape::RC)
        .unwrap();
    let b = pair.b.clone();
    let peer = pair.fabric[1]
        .create_qp(b.pd, (&b.send_cq, &b.recv_cq), None, QpShape::RC)
        .unwrap();
    pair.fabric[0]
        .connect(&other, &Connection::to(peer.qpn, gids[1]))
        .unwrap();
    pair.fabric[1]
        .connect(&peer, &Connection::to(other.qpn, gids[0]))
        .unwrap();
    let (addr, rkey) = b.remote(0);
    let request = SendWork::write(1, addr, rkey).sge(a.sge(0, 8)).unsignaled();
    for _ in 0..4096 {
        pair.fabric[0].post_send(&a.qp, &request).unwrap();
    }
    let last = SendWork::write(2, addr, rkey).sge(a.sge(0, 8));
    pair.fabric[0].post_send(&other, &last).unwrap();
    let done = |pair: &mut Pair| pair.fabric[0].poll_cq(&a.recv_cq).is_some();
    let turns = (0..4096).take_while(|_| {
        pair.fabric.step(0);
        !done(&mut pair)
    });
    assert!(turns.count() < 200, "it waited for the long ring");
    assert!(a.qp.send.outstanding(&pair.fabric[0].ram.view()) > 3000);
}

#[test]
fn rule_47_the_device_s_own_indices_are_its_own() {
    let mut pair = Pair::new();
    let (a, b) = (pair.a.clone(), pair.b.clone());
    let (addr, rkey) = b.remote(0);
    for id in 0..300 {
        pair.receive(id, 0, 64);
        let request = SendWork::write(id, addr, rkey).imm([0; 4]).sge(a.sge(0, 8));
        pair.fabric[0].post_send(&a.qp, &request).unwrap();
        let garbage = 0xffff_0000 + id as u32;
        for word in [a.qp.send.state() + 4, a.send_cq.state()] {
            pair.fabric[0].ram.store(word, garbage);
        }
        for word in [b.qp.recv.as_ref().unwrap().state() + 4, b.recv_cq.state()] {
            pair.fabric[1].ram.store(word, garbage);
        }
        pair.fabric.pump();
        assert_eq!(
            pair.sent().iter().map(|done| done.id).collect::<Vec<_>>(),
            [id]
        );
        assert_eq!(
            pair.received()
                .iter()
                .map(|done| done.id)
                .collect::<Vec<_>>(),
            [id]
        );
    }
}
