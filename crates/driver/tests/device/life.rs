//! Resets, reloads and destruction at awkward moments.

use std::time::Duration;

use vrdma_driver::object::{Context, QpShape, qp_state, rights};
use vrdma_driver::work::SendWork;
use vrdma_driver::{CommandError, Fabric, Pair, PairOptions};
use vrdma_pvrdma::DeviceState;
use vrdma_pvrdma::abi::register::{Control, Register};

const RETRY_EXC: u32 = 12;
const BUSY: CommandError = CommandError::Refused(16);

/// A pair with traffic in both directions, of which only `steps` turns are done.
fn in_flight(steps: usize) -> Pair {
    let mut pair = Pair::new();
    for id in 0..40 {
        pair.receive(id, id * 64, 64);
        let request = match id % 4 {
            0 => SendWork::read(id, pair.b.remote(id * 64).0, pair.b.mr.rkey),
            1 => SendWork::fetch_add(id, pair.b.remote(5).0, pair.b.mr.rkey, 1),
            2 => SendWork::send(id),
            _ => SendWork::write(id, pair.b.remote(id * 64).0, pair.b.mr.rkey),
        };
        let length = if id % 4 == 1 { 8 } else { 64 };
        let qp = pair.a.qp.clone();
        let request = request.sge(pair.a.sge(id * 64, length));
        pair.fabric[0].post_send(&qp, &request).unwrap();
    }
    for turn in 0..steps {
        pair.fabric.step(turn % 2);
    }
    pair
}

/// The guest checks its freed pages when it is dropped.
#[test]
fn a_reset_at_any_moment_frees_everything() {
    for steps in 0..20 {
        for victim in [0, 1] {
            let mut pair = in_flight(steps);
            pair.fabric[victim].remove();
            let snapshot = pair.fabric[victim].device.snapshot();
            assert_eq!(snapshot.state, DeviceState::Reset);
            assert_eq!(snapshot.counts, Default::default());
            let [a, b] = [pair.a.clone(), pair.b.clone()];
            let gone = if victim == 0 { &a } else { &b };
            let pages = [
                &gone.qp.directory,
                &gone.send_cq.directory,
                &gone.recv_cq.directory,
            ];
            for directory in pages {
                pair.fabric[victim].ram.free(directory.pages.clone());
            }
            pair.fabric.pass(Duration::from_secs(10));
            assert_eq!(pair.fabric[victim].device.take_interrupts(), 0);
        }
    }
}

#[test]
fn the_peer_of_a_guest_that_reboots_gets_an_error() {
    let mut pair = Pair::new();
    pair.fabric[1].device.reset();
    pair.fabric[1].forget_driver();
    let (addr, rkey) = pair.b.remote(0);
    pair.send(&SendWork::write(1, addr, rkey).sge(pair.a.sge(0, 8)));
    pair.fabric.pass(Duration::from_secs(10));
    assert_eq!(pair.sent()[0].status, RETRY_EXC);
    pair.fabric[1].probe().unwrap();
    pair.fabric.bind(1);
    let (a, b) = (pair.a.guest, pair.b.guest);
    let fabric = std::mem::take(&mut pair.fabric);
    let mut again = Pair::between(fabric, (a, b), PairOptions::default());
    let (addr, rkey) = again.b.remote(0);
    again.send(&SendWork::write(1, addr, rkey).sge(again.a.sge(0, 8)));
    assert_eq!(again.sent()[0].status, 0);
}

#[test]
fn numbers_of_an_earlier_life_are_stale() {
    let mut pair = Pair::new();
    let (addr, rkey) = pair.b.remote(0);
    pair.fabric[1].remove();
    pair.fabric[1].probe().unwrap();
    pair.fabric.bind(1);
    let again = pair.fabric.end(1, PairOptions::default());
    assert_ne!((again.qp.qpn, again.mr.rkey), (pair.b.qp.qpn, rkey));
    pair.send(&SendWork::write(1, addr, rkey).sge(pair.a.sge(0, 8)));
    pair.fabric.pass(Duration::from_secs(10));
    assert_eq!(pair.sent()[0].status, RETRY_EXC);
}

#[test]
fn a_closed_program_leaves_nothing_behind() {
    let mut pair = in_flight(3);
    let b = pair.b.clone();
    pair.fabric[1].close(b.context).unwrap();
    let vm = &mut pair.fabric[1];
    for directory in [b.qp.directory, b.send_cq.directory, b.recv_cq.directory] {
        directory.free(&mut vm.ram);
    }
    pair.fabric.pump();
    let counts = pair.fabric[1].device.snapshot().counts;
    assert_eq!(counts, Default::default());
    pair.fabric.pass(Duration::from_secs(10));
    assert!(pair.sent().iter().any(|done| done.status == RETRY_EXC));
}

#[test]
fn objects_are_destroyed_in_order() {
    let mut pair = in_flight(100);
    let b = pair.b.clone();
    let vm = &mut pair.fabric[1];
    assert_eq!(vm.destroy_pd(b.pd), Err(BUSY));
    vm.destroy_qp(b.qp).unwrap();
    vm.destroy_cq(b.send_cq).unwrap();
    vm.destroy_cq(b.recv_cq).unwrap();
    vm.deregister(b.mr).unwrap();
    vm.destroy_pd(b.pd).unwrap();
    vm.close(b.context).unwrap();
    assert_eq!(vm.device.snapshot().counts, Default::default());
    assert_eq!(vm.device.snapshot().contexts, 0);
}

#[test]
fn a_cq_in_use_is_refused_and_not_touched_again() {
    let mut pair = Pair::new();
    let b = pair.b.clone();
    pair.receive(1, 0, 64);
    pair.receive(2, 0, 64);
    assert_eq!(pair.fabric[1].destroy_cq(b.recv_cq), Err(BUSY));
    pair.send(&SendWork::send(1).sge(pair.a.sge(0, 8)));
    pair.fabric.pass(Duration::from_secs(10));
    pair.fabric[1].destroy_qp(b.qp).unwrap();
}

#[test]
fn a_shared_queue_in_use_is_refused_and_not_touched_again() {
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    let vm = &mut fabric[guest];
    let context = vm.open().unwrap();
    let pd = vm.create_pd(context).unwrap();
    let cq = vm.create_cq(context, 16).unwrap();
    let srq = vm.create_srq(pd, 16, 1).unwrap();
    let qp = vm
        .create_qp(pd, (&cq, &cq), Some(&srq), QpShape::RC)
        .unwrap();
    assert_eq!(vm.destroy_srq(srq), Err(BUSY));
    vm.destroy_qp(qp).unwrap();
    vm.close(context).unwrap();
    fabric.pump();
    let counts = fabric[guest].device.snapshot().counts;
    assert_eq!(counts, Default::default());
}

#[test]
fn registrations_can_go_while_they_are_used() {
    let mut pair = in_flight(1);
    let b = pair.b.clone();
    pair.fabric[1].deregister(b.mr).unwrap();
    pair.fabric.pass(Duration::from_secs(1));
    assert!(pair.sent().iter().any(|done| done.status != 0));
    let pages = b.buffer.pages.clone();
    pair.fabric[1].ram.free(pages);
    pair.fabric.pass(Duration::from_secs(1));
}

#[test]
fn control_before_the_shared_region_is_refused() {
    let mut fabric = Fabric::new();
    let config = vrdma_pvrdma::DeviceConfig::new(Fabric::identity(1));
    let guest = fabric.add_bare(config).unwrap();
    let vm = &mut fabric[guest];
    vm.set_bus_master(true);
    assert_ne!(
        vm.write_checked(Register::Control, Control::Activate as u32),
        0
    );
    assert_ne!(vm.write_checked(Register::Request, 0), 0);
    assert_ne!(vm.unquiesce(), 0);
}

/// Without bus mastering: no access to memory, no interrupts. When it is on again, work goes on.
#[test]
fn without_bus_mastering_nothing_moves() {
    let mut pair = Pair::new();
    pair.fabric[1].set_bus_master(false);
    let before = pair.bytes_of_b(0, 64);
    let (addr, rkey) = pair.b.remote(0);
    let request = SendWork::write(1, addr, rkey).sge(pair.a.sge(64, 64));
    pair.send(&request);
    assert_eq!(pair.bytes_of_b(0, 64), before);
    assert_eq!(pair.sent(), []);
    pair.fabric[1].set_bus_master(true);
    pair.fabric.pass(Duration::from_secs(1));
    assert_eq!(pair.sent()[0].status, 0);
    assert_eq!(pair.bytes_of_b(0, 64), pair.bytes_of_a(64, 64));
}

#[test]
fn handles_and_keys_are_not_reused_at_once() {
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    let vm = &mut fabric[guest];
    let context = vm.open().unwrap();
    let pd = vm.create_pd(context).unwrap();
    let cq = vm.create_cq(context, 16).unwrap();
    let first = vm.create_qp(pd, (&cq, &cq), None, QpShape::RC).unwrap();
    let numbers = (first.handle, first.qpn);
    vm.destroy_qp(first).unwrap();
    let second = vm.create_qp(pd, (&cq, &cq), None, QpShape::RC).unwrap();
    assert_ne!((second.handle, second.qpn), numbers);
    let buffer = vm.buffer(4096);
    let first = vm.register(pd, &buffer, rights::ALL).unwrap();
    let rkey = first.rkey;
    vm.deregister(first).unwrap();
    assert_ne!(vm.register(pd, &buffer, rights::ALL).unwrap().rkey, rkey);
    assert_eq!(Context::KERNEL.page, 0);
    assert_eq!(qp_state::RESET, 0);
}
