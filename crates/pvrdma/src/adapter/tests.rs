//! The data path against a fake guest whose queue pair is connected to itself.

use std::time::Duration;

use crate::abi::doorbell::Doorbell;
use crate::abi::event::EventCode;
use crate::abi::qp::QpAttributes;
use crate::abi::register::Vector;
use crate::abi::work::opcode;
use crate::config::DeviceConfig;
use crate::testing::{Guest, Link, SENDS, config};

const SEND: u32 = 1 << 30;
const RECV: u32 = 1 << 31;
const ARM: u32 = 1 << 30;
const FLUSHED: u32 = 5;

fn mapped() -> Guest {
    Guest::activated(DeviceConfig {
        maps_doorbells: true,
        ..config()
    })
}

fn ring_send(guest: &mut Guest, link: &Link) {
    guest.ring(link.page, Doorbell::Qp, link.qp.handle | SEND);
}

fn to_error(guest: &mut Guest, link: &Link) {
    let attrs = QpAttributes {
        qp_state: 6.into(),
        ..QpAttributes::default()
    };
    assert_eq!(guest.modify(&link.qp, 1, attrs), 0);
}

#[test]
fn writes_complete_in_order_and_free_their_slots() {
    let mut guest = Guest::active();
    let mut link = guest.link(0, 64);
    for id in 0..u64::from(SENDS) {
        link.post(&guest, &link.write(id), 64);
    }
    ring_send(&mut guest, &link);
    guest.run();
    let expected: Vec<_> = (0..u64::from(SENDS)).map(|id| (id, 0)).collect();
    assert_eq!(link.drain(&guest), expected);
    assert_eq!(link.released(&guest), link.qp.sent);
}

#[test]
fn a_message_finds_the_receive_in_the_ring() {
    let mut guest = Guest::active();
    let mut link = guest.link(0, 64);
    link.post_recv(&guest, 7, 4096);
    link.post(&guest, &link.header(8, opcode::SEND), 100);
    ring_send(&mut guest, &link);
    guest.run();
    let received = link.poll(&guest).unwrap();
    assert_eq!((received.wr_id.get(), received.opcode.get()), (7, 128));
    assert_eq!(received.byte_len.get(), 100);
    assert_eq!(received.qp.get(), u64::from(link.qp.handle));
    assert_eq!(link.poll(&guest).unwrap().wr_id.get(), 8);
}

#[test]
fn an_illegal_opcode_completes_with_an_error_and_flushes_the_rest() {
    let mut guest = Guest::active();
    let mut link = guest.link(3, 64);
    link.post(&guest, &link.header(1, opcode::LOCAL_INV), 0);
    link.post(&guest, &link.write(2), 64);
    link.post_recv(&guest, 3, 64);
    ring_send(&mut guest, &link);
    guest.run();
    assert_eq!(link.drain(&guest), [(1, 2), (2, FLUSHED), (3, FLUSHED)]);
}

#[test]
fn what_is_posted_in_error_is_flushed() {
    let mut guest = Guest::active();
    let mut link = guest.link(0, 256);
    for id in 0..100 {
        link.post_recv(&guest, id, 64);
    }
    to_error(&mut guest, &link);
    guest.run();
    let flushed: Vec<_> = (0..100).map(|id| (id, FLUSHED)).collect();
    assert_eq!(link.drain(&guest), flushed);
    link.post_recv(&guest, 200, 64);
    link.post(&guest, &link.write(201), 64);
    guest.ring(0, Doorbell::Qp, link.qp.handle | RECV);
    guest.run();
    let mut late = link.drain(&guest);
    late.sort_unstable();
    assert_eq!(late, [(200, FLUSHED), (201, FLUSHED)]);
}

#[test]
fn a_bogus_producer_index_fails_the_queue_pair() {
    for bogus in [1 << 20, u32::MAX, 2 * SENDS] {
        let mut guest = Guest::active();
        let link = guest.link(0, 64);
        guest.put(link.qp.pages[0], &bogus);
        ring_send(&mut guest, &link);
        guest.run();
        assert_eq!(
            guest.events(),
            [(EventCode::QpFatal as u32, link.qp.handle)]
        );
        assert_eq!(guest.device.snapshot().violations.queues, 1);
    }
}

#[test]
fn a_full_completion_queue_is_never_overwritten() {
    let mut guest = Guest::active();
    let mut link = guest.link(0, 4);
    for id in 0..8 {
        link.post(&guest, &link.write(id), 64);
    }
    ring_send(&mut guest, &link);
    guest.run();
    assert_eq!(link.drain(&guest), [(0, 0), (1, 0), (2, 0), (3, 0)]);
    let events = guest.events();
    assert!(
        events.contains(&(EventCode::CqErr as u32, link.cq.handle)),
        "{events:?}"
    );
}

#[test]
fn an_armed_queue_notifies_once() {
    let mut guest = Guest::active();
    let mut link = guest.link(0, 64);
    guest.device.take_interrupts();
    guest.ring(0, Doorbell::Cq, link.cq.handle | ARM);
    for id in 0..3 {
        link.post(&guest, &link.write(id), 64);
    }
    ring_send(&mut guest, &link);
    guest.run();
    assert_eq!(guest.device.take_interrupts(), Vector::Completion.bit());
    assert_eq!(guest.notifications(), [link.cq.handle]);
}

#[test]
fn programs_ring_only_for_their_own() {
    let mut guest = Guest::active();
    let mut link = guest.link(1, 64);
    guest.run();
    link.post(&guest, &link.write(1), 64);
    for page in [2, 7, 8, 1 << 20] {
        guest.ring(page, Doorbell::Qp, link.qp.handle | SEND);
        guest.ring(page, Doorbell::Cq, link.cq.handle | ARM);
    }
    guest.ring(1, Doorbell::Qp, 0x00ff_ffff | SEND);
    guest.run();
    assert_eq!(link.drain(&guest), []);
    guest.ring(0, Doorbell::Qp, link.qp.handle | SEND);
    guest.run();
    assert_eq!(link.drain(&guest), [(1, 0)]);
}

#[test]
fn a_mapped_doorbell_serves_the_queue_pairs_it_overwrote() {
    let mut guest = mapped();
    let (mut link, other) = (guest.link(1, 64), 4);
    link.post(&guest, &link.write(1), 64);
    // The word in the page now names another queue pair.
    guest.store_doorbell(1, Doorbell::Qp, other | SEND);
    guest.run();
    assert_eq!(link.drain(&guest), [(1, 0)]);
}

#[test]
fn an_arming_that_a_poll_overwrote_is_not_lost() {
    let mut guest = mapped();
    let mut link = guest.link(1, 64);
    guest.device.take_interrupts();
    guest.store_doorbell(1, Doorbell::Cq, link.cq.handle | 1 << 31);
    guest.run();
    link.post(&guest, &link.write(1), 64);
    guest.store_doorbell(1, Doorbell::Qp, link.qp.handle | SEND);
    guest.run();
    while let Some(deadline) = guest
        .device
        .next_deadline()
        .filter(|_| guest.now.0 < 1 << 30)
    {
        guest.now = deadline.max(guest.now + Duration::from_nanos(1));
        guest.run();
    }
    assert_eq!(guest.notifications(), [link.cq.handle]);
}

#[test]
fn a_reset_queue_pair_ignores_doorbells_and_starts_anew() {
    let mut guest = Guest::active();
    let mut link = guest.link(0, 64);
    link.post(&guest, &link.write(1), 64);
    link.post_recv(&guest, 2, 64);
    ring_send(&mut guest, &link);
    guest.run();
    assert_eq!(link.drain(&guest), [(1, 0)]);
    let reset = QpAttributes::default();
    assert_eq!(guest.modify(&link.qp, 1, reset), 0);
    guest.put(link.qp.pages[0] + 8, &u32::MAX);
    guest.ring(0, Doorbell::Qp, link.qp.handle | RECV | SEND);
    guest.run();
    assert_eq!(guest.events(), []);
    guest.put(link.qp.pages[0], &[0_u32; 4]);
    (link.qp.sent, link.qp.received) = (0, 0);
    guest.connect(&link.qp, link.qp.qpn);
    link.post(&guest, &link.write(3), 64);
    ring_send(&mut guest, &link);
    guest.run();
    assert_eq!(link.drain(&guest), [(3, 0)]);
}

#[test]
fn a_destroyed_queue_pair_completes_nothing() {
    let mut guest = Guest::active();
    let mut link = guest.link(0, 64);
    link.post(&guest, &link.header(1, opcode::SEND), 64);
    ring_send(&mut guest, &link);
    guest.destroy_qp(link.qp.handle);
    guest.run();
    assert_eq!(link.drain(&guest), []);
    assert_eq!(guest.device.snapshot().counts.qps, 0);
    assert!(!guest.device.activity().runnable);
}

#[test]
fn vanished_rings_fail_the_queue_pair_only() {
    let mut guest = Guest::active();
    let mut link = guest.link(0, 64);
    link.post(&guest, &link.write(1), 64);
    guest.protect(link.qp.pages[0]);
    ring_send(&mut guest, &link);
    guest.run();
    assert_eq!(
        guest.events(),
        [(EventCode::QpFatal as u32, link.qp.handle)]
    );
    assert_eq!(link.drain(&guest), []);
}
