//! Rules 64 to 70: full rings, vanished memory, stopping, shares, noise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tracing::span;
use vrdma_driver::object::{QpShape, qp_state};
use vrdma_driver::work::SendWork;
use vrdma_driver::{Fabric, Pair, PairOptions};
use vrdma_memory::{PAGE, Protection};
use vrdma_pvrdma::DeviceState;
use vrdma_pvrdma::abi::command::{HEADER_BYTES, REQUEST_BYTES, RESPONSE_BYTES};
use vrdma_pvrdma::abi::event::EventCode;
use vrdma_wire::Gid;

use super::single::Single;

fn write(pair: &mut Pair, id: u64) {
    let (addr, rkey) = pair.b.remote(0);
    let request = SendWork::write(id, addr, rkey).sge(pair.a.sge(0, 64));
    pair.send(&request);
}

#[test]
fn rule_64_notifications_wait_for_room() {
    const QUEUES: u64 = 2000;
    let mut pair = Pair::on(
        |config| config.maps_doorbells = false,
        PairOptions::default(),
    );
    let a = pair.a.clone();
    pair.fabric[0].interrupts.blocked = true;
    let b = pair.b.clone();
    let gids = [pair.fabric[0].gid(), pair.fabric[1].gid()];
    let shape = QpShape {
        send_wr: 1,
        recv_wr: 1,
        ..QpShape::RC
    };
    let (addr, rkey) = b.remote(0);
    for id in 0..QUEUES {
        let cq = pair.fabric[0].create_cq(a.context, 1).unwrap();
        let ours = pair.fabric[0]
            .create_qp(a.pd, (&cq, &cq), None, shape)
            .unwrap();
        let theirs = pair.fabric[1]
            .create_qp(b.pd, (&b.send_cq, &b.recv_cq), None, shape)
            .unwrap();
        let connect = |qpn, gid| vrdma_driver::object::Connection::to(qpn, gid);
        pair.fabric[0]
            .connect(&ours, &connect(theirs.qpn, gids[1]))
            .unwrap();
        pair.fabric[1]
            .connect(&theirs, &connect(ours.qpn, gids[0]))
            .unwrap();
        pair.fabric[0].arm(&cq);
        let request = SendWork::write(id, addr, rkey).sge(a.sge(0, 8));
        pair.fabric[0].post_send(&ours, &request).unwrap();
    }
    pair.fabric.pump();
    pair.fabric[0].interrupts.blocked = false;
    let mut notified = Vec::new();
    for _ in 0..20 {
        pair.fabric.pass(Duration::from_millis(1));
        notified.extend(pair.fabric[0].take_notified());
    }
    notified.sort_unstable();
    notified.dedup();
    assert_eq!(notified.len() as u64, QUEUES, "none was lost");
}

#[test]
fn rule_64_events_wait_for_room() {
    const QUEUES: usize = 700;
    let mut fabric = Fabric::new();
    let guest = fabric.add();
    let end = fabric.end(guest, PairOptions::default());
    fabric[guest].interrupts.blocked = true;
    let srqs: Vec<_> = (0..QUEUES)
        .map(|_| {
            let srq = fabric[guest].create_srq(end.pd, 4, 1).unwrap();
            fabric[guest].set_srq_limit(&srq, 4).unwrap();
            srq.handle
        })
        .collect();
    fabric[guest].interrupts.blocked = false;
    let mut events = Vec::new();
    for _ in 0..20 {
        fabric.pass(Duration::from_millis(1));
        events.extend(fabric[guest].take_events());
    }
    let expected: Vec<_> = srqs
        .iter()
        .map(|srq| (EventCode::SrqLimitReached, *srq))
        .collect();
    assert_eq!(events, expected);
}

#[test]
fn rule_65_registered_memory_that_is_unmapped_faults() {
    let mut pair = Pair::new();
    let page = pair.b.buffer.pages[0];
    pair.fabric[1].isolate(page, Protection::BOTH).unwrap();
    write(&mut pair, 1);
    assert_eq!(pair.sent()[0].status, 0);
    pair.fabric[1].unmap(page, PAGE);
    write(&mut pair, 2);
    pair.fabric.pass(Duration::from_secs(10));
    assert_ne!(pair.sent()[0].status, 0);
}

#[test]
fn rule_65_own_memory_that_is_unmapped_faults() {
    let mut pair = Pair::new();
    let page = pair.a.buffer.pages[0];
    pair.fabric[0].isolate(page, Protection::BOTH).unwrap();
    pair.fabric[0].unmap(page, PAGE);
    write(&mut pair, 1);
    pair.fabric.pass(Duration::from_secs(10));
    assert_ne!(pair.sent()[0].status, 0);
    let attrs = pair.fabric[1].query_qp(&pair.b.qp.clone()).unwrap();
    assert!([qp_state::RTS, qp_state::ERR].contains(&attrs.qp_state.get()));
}

#[test]
fn rule_65_a_queue_pair_without_its_rings_is_dead() {
    let mut pair = Pair::new();
    let a = pair.a.clone();
    let state = a.qp.directory.pages[0];
    pair.fabric[0].isolate(state, Protection::BOTH).unwrap();
    pair.fabric[0].unmap(state, PAGE);
    write(&mut pair, 1);
    let events = pair.fabric[0].take_events();
    assert_eq!(events, [(EventCode::QpFatal, a.qp.handle)]);
}

#[test]
fn rule_65_a_cq_without_its_ring_is_dead() {
    let mut pair = Pair::new();
    let a = pair.a.clone();
    let entries = a.send_cq.directory.pages[1];
    pair.fabric[0].isolate(entries, Protection::BOTH).unwrap();
    pair.fabric[0].unmap(entries, PAGE);
    write(&mut pair, 1);
    let events = pair.fabric[0].take_events();
    assert!(
        events.contains(&(EventCode::CqErr, a.send_cq.handle)),
        "{events:?}"
    );
}

#[test]
fn rule_65_a_device_without_its_rings_stops() {
    let mut single = Single::new();
    let vm = single.vm();
    let page = vm.driver().event_pages.pages[1];
    vm.isolate(page, Protection::BOTH).unwrap();
    vm.unmap(page, PAGE);
    assert_eq!(vm.device.snapshot().state, DeviceState::Failed);
    vm.forget_driver();
    vm.isolate(page, Protection::BOTH).unwrap();
    vm.probe().unwrap();
    vm.open().unwrap();
}

#[test]
fn rule_66_stopping_stops_memory_accesses_and_interrupts() {
    let stops: [fn(&mut vrdma_driver::Guest); 3] = [
        |vm| vm.set_bus_master(false),
        |vm| vm.remove(),
        |vm| {
            vm.device.reset();
            vm.forget_driver();
        },
    ];
    for (row, stop) in stops.into_iter().enumerate() {
        let mut pair = Pair::new();
        let (a, b) = (pair.a.clone(), pair.b.clone());
        pair.fabric[1].arm(&b.recv_cq);
        for id in 0..8 {
            pair.receive(id, 0, 64);
            let request = SendWork::send(id).sge(a.sge(0, 64));
            pair.fabric[0].post_send(&a.qp, &request).unwrap();
        }
        for turn in 0..4 {
            pair.fabric.step(turn % 2);
        }
        pair.fabric[1].handle_interrupts();
        let fired = pair.fabric[1].interrupts.fired[2];
        stop(&mut pair.fabric[1]);
        let pages = [
            &b.buffer.pages,
            &b.recv_cq.directory.pages,
            &b.qp.directory.pages,
        ];
        let pages: Vec<_> = pages.into_iter().flatten().copied().collect();
        let ram = |pair: &Pair| {
            let mut bytes = vec![0; pages.len() * PAGE as usize];
            for (page, chunk) in pages.iter().zip(bytes.chunks_mut(PAGE as usize)) {
                pair.fabric[1].ram.read_bytes(*page, chunk);
            }
            bytes
        };
        let before = ram(&pair);
        pair.fabric.pass(Duration::from_secs(10));
        assert!(ram(&pair) == before, "row {row}");
        assert_eq!(pair.fabric[1].device.take_interrupts(), 0, "row {row}");
        assert_eq!(pair.fabric[1].interrupts.fired[2], fired, "row {row}");
    }
}

#[test]
fn rule_67_one_unit_is_bounded() {
    let mut pair = Pair::on(|config| config.unit_bytes = 8192, PairOptions::default());
    let longest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&longest);
    pair.fabric.lose(move |unit| {
        let length = match unit {
            vrdma_driver::Unit::Request(request) => request.payload.length(),
            vrdma_driver::Unit::Response(response) => match &response.body {
                vrdma_verbs::unit::ResponseBody::Read(data) => {
                    data.iter().map(|stretch| u64::from(stretch.length)).sum()
                }
                _ => return false,
            },
        };
        seen.fetch_max(length as usize, Ordering::Relaxed);
        false
    });
    let (addr, rkey) = pair.b.remote(0);
    for request in [
        SendWork::write(1, addr, rkey),
        SendWork::read(2, addr, rkey),
    ] {
        pair.send(&request.sge(pair.a.sge(0, 60_000)));
    }
    assert_eq!(
        pair.sent()
            .iter()
            .map(|done| done.status)
            .collect::<Vec<_>>(),
        [0, 0]
    );
    assert_eq!(longest.load(Ordering::Relaxed), 8192);
}

#[test]
fn rule_68_what_is_for_nobody_is_dropped_and_counted() {
    let mut pair = Pair::datagrams();
    pair.receive(7, 0, 4096);
    let gid = pair.fabric[1].gid();
    // The last QPN is for multicast GIDs only: the carrier drops the datagram.
    let qpns = [2, pair.b.qp.qpn + 1, 0xff_fffe, 0xff_ffff];
    for qpn in qpns {
        let to = vrdma_driver::work::datagram(pair.a.pd, gid, qpn, Pair::QKEY);
        pair.send(&SendWork::send(1).part(&to).sge(pair.a.sge(0, 8)));
    }
    assert_eq!(pair.received(), []);
    assert_eq!(pair.fabric[1].take_events(), []);
    assert_eq!(
        pair.fabric[1].device.snapshot().counters.drops.unknown_qp,
        3
    );
    pair.fabric[1].unbind_gid(0, gid).unwrap();
    pair.fabric[1]
        .bind_gid(0, Gid::from_ipv4([9, 9, 9, 9].into()))
        .unwrap();
    let to = vrdma_driver::work::datagram(pair.a.pd, gid, pair.b.qp.qpn, Pair::QKEY);
    pair.send(&SendWork::send(1).part(&to).sge(pair.a.sge(0, 8)));
    assert_eq!(pair.received(), []);
}

/// A subscriber that counts log lines.
struct Lines(Arc<AtomicUsize>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[test]
fn rule_69_a_guest_cannot_flood_the_log() {
    let lines = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Lines(Arc::clone(&lines)), || {
        let mut single = Single::trapped();
        let page = single.context.page;
        for _ in 0..10_000 {
            let vm = single.vm();
            assert_ne!(vm.execute_raw(&[0xff; REQUEST_BYTES]), 0);
            vm.write_doorbell(page, vrdma_pvrdma::abi::doorbell::Doorbell::Qp, u32::MAX);
            vm.write_register(vrdma_pvrdma::abi::register::Register::Control, 77);
        }
        let vm = single.vm();
        for _ in 0..1000 {
            vm.write_region_address(7);
            vm.write_register(vrdma_pvrdma::abi::register::Register::Control, 0);
        }
    });
    let lines = lines.load(Ordering::Relaxed);
    assert!((1..1000).contains(&lines), "{lines} lines");
}

/// An address of another adapter, bound again and again.
#[test]
fn rule_69_addresses_that_cannot_be_had_do_not_flood_the_log() {
    let lines = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Lines(Arc::clone(&lines)), || {
        let mut pair = Pair::new();
        let taken = pair.fabric[1].gid();
        for _ in 0..10_000 {
            pair.fabric[0].bind_gid(1, taken).unwrap();
            pair.fabric.turn();
            pair.fabric[0].unbind_gid(1, taken).unwrap();
        }
    });
    let lines = lines.load(Ordering::Relaxed);
    assert!((1..1000).contains(&lines), "{lines} lines");
}

#[test]
fn rule_70_every_byte_for_the_guest_is_written() {
    let mut pair = Pair::new();
    let a = pair.a.clone();
    for page in &a.send_cq.directory.pages[1..] {
        pair.fabric[0]
            .ram
            .write_bytes(*page, &[0xff; PAGE as usize]);
    }
    write(&mut pair, 1);
    let mut entry = [0; 64];
    pair.fabric[0]
        .ram
        .read_bytes(a.send_cq.directory.pages[1], &mut entry);
    let written = [0..4, 8..12, 16..24];
    for (at, byte) in entry.iter().enumerate() {
        let meant = written.iter().any(|range| range.contains(&at)) || (24..28).contains(&at);
        assert!(meant || at == 50 || *byte == 0, "byte {at} is {byte:#x}");
    }
    let slot = pair.fabric[0].driver().response_slot;
    pair.fabric[0]
        .ram
        .write_bytes(slot, &[0xff; RESPONSE_BYTES]);
    pair.fabric[0].create_pd(a.context).unwrap();
    let mut response = [0; 24];
    pair.fabric[0].ram.read_bytes(slot, &mut response);
    assert_eq!(response[13..16], [0; 3]);
    assert_eq!(response[HEADER_BYTES + 4..24], [0; 4]);
}
