//! Devices that are saved and go on working, and devices that go back to a snapshot.

use std::time::Duration;

use vrdma_driver::work::SendWork;
use vrdma_driver::{Pair, SavedRam};
use vrdma_pvrdma::Context;
use vrdma_pvrdma::abi::event::EventCode;

const FLUSH: u32 = 5;
const RETRY_EXC: u32 = 12;
const LENGTH: u32 = 5000;

/// The two files of a snapshot.
struct Snapshot {
    ram: SavedRam,
    context: Vec<u8>,
}

/// Saves a guest as `vrdma adapter save` does: the device is frozen while its context is made.
fn save(pair: &mut Pair, guest: usize) -> Snapshot {
    let now = pair.fabric[guest].now();
    let vm = &mut pair.fabric[guest];
    let records = vm.device.freeze();
    let context = Context {
        mac: vm.mac(),
        records,
        pages: Vec::new(),
    };
    let ram = vm.save_ram();
    vm.device.thaw(now);
    Snapshot {
        ram,
        context: context.encode(),
    }
}

fn restore(pair: &mut Pair, guest: usize, from: &Snapshot, end_connections: bool) {
    let context = Context::decode(&from.context).unwrap();
    let vm = &mut pair.fabric[guest];
    vm.go_back(&from.ram, &context).unwrap();
    if end_connections {
        vm.device.end_connections();
    }
    let now = vm.now();
    vm.device.thaw(now);
}

/// Sends a message from `a`, with a receive for it; true if it arrived intact.
fn message(pair: &mut Pair, id: u64) -> bool {
    let (from, to) = (id * u64::from(LENGTH), id * u64::from(LENGTH));
    pair.receive(id, to, LENGTH);
    pair.send(&SendWork::send(id).sge(pair.a.sge(from, LENGTH)));
    pair.fabric.pass(Duration::from_secs(1));
    let sent: Vec<_> = pair.sent().iter().map(|it| (it.id, it.status)).collect();
    let received: Vec<_> = (pair.received().iter())
        .map(|it| (it.id, it.status))
        .collect();
    let is_same = pair.bytes_of_a(from, LENGTH as usize) == pair.bytes_of_b(to, LENGTH as usize);
    is_same && sent == [(id, 0)] && received == [(id, 0)]
}

/// A pair saved while a message of `a` is under way: units are lost until `a` is saved.
fn saved_in_the_middle() -> (Pair, Snapshot) {
    let mut pair = Pair::new();
    assert!(message(&mut pair, 0));
    pair.fabric.lose(|_| true);
    pair.receive(1, u64::from(LENGTH), LENGTH);
    pair.send(&SendWork::send(1).sge(pair.a.sge(u64::from(LENGTH), LENGTH)));
    let snapshot = save(&mut pair, 0);
    pair.fabric.lose(|_| false);
    (pair, snapshot)
}

#[test]
fn a_device_that_was_saved_works_on() {
    let (mut pair, _) = saved_in_the_middle();
    pair.fabric.pass(Duration::from_secs(1));
    let received: Vec<_> = pair.received().iter().map(|it| it.id).collect();
    assert_eq!((received, pair.sent().len()), (vec![1], 1));
    for id in 2..5 {
        assert!(message(&mut pair, id));
    }
}

#[test]
fn a_device_that_goes_back_alone_has_no_connections_left() {
    let (mut pair, snapshot) = saved_in_the_middle();
    pair.fabric.pass(Duration::from_secs(1));
    let (_, _) = (pair.sent(), pair.received());
    for id in 2..5 {
        assert!(message(&mut pair, id));
    }
    pair.fabric[0].take_events();
    let before = pair.bytes_of_b(0, 12 * LENGTH as usize);
    restore(&mut pair, 0, &snapshot, true);
    pair.fabric.pass(Duration::from_secs(1));
    let events = pair.fabric[0].take_events();
    assert_eq!(events, [(EventCode::QpFatal, pair.a.qp.handle)]);
    let sent: Vec<_> = pair.sent().iter().map(|it| (it.id, it.status)).collect();
    assert_eq!(sent, [(1, FLUSH)]);
    assert_eq!(pair.bytes_of_b(0, before.len()), before, "nothing came");
    assert!(pair.received().is_empty());
    // The other end notices when it sends.
    let (guest, qp) = (pair.b.guest, pair.b.qp.clone());
    let work = SendWork::send(9).sge(pair.b.sge(0, 8));
    pair.fabric[guest].post_send(&qp, &work).unwrap();
    pair.fabric.pass(Duration::from_secs(60));
    let sent = pair.fabric[guest].drain_cq(&pair.b.send_cq);
    let sent: Vec<_> = sent.iter().map(|it| (it.id, it.status)).collect();
    assert_eq!(sent, [(9, RETRY_EXC)]);
}

#[test]
fn devices_that_go_back_together_keep_their_connections() {
    let (mut pair, a) = saved_in_the_middle();
    // Saved at the same moment: both ends agree on the messages under way.
    let b = save(&mut pair, 1);
    pair.fabric.pass(Duration::from_secs(1));
    let (_, _) = (pair.sent(), pair.received());
    for id in 2..5 {
        assert!(message(&mut pair, id));
    }
    restore(&mut pair, 0, &a, false);
    restore(&mut pair, 1, &b, false);
    pair.fabric.pass(Duration::from_secs(1));
    let received: Vec<_> = pair.received().iter().map(|it| it.id).collect();
    assert_eq!((received, pair.sent().len()), (vec![1], 1));
    for id in 2..6 {
        assert!(message(&mut pair, id));
    }
}
