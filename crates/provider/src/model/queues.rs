//! Send and receive queues: what is fetched is whole, and no slot or piece of the data area is written while the daemon
//! may read it.

use std::sync::Arc;

use loom::thread;

use super::Area;
use crate::client::{Full, ReceiveQueue, SendQueue};
use crate::daemon::WorkRing;
use crate::layout::{Buffer, RecvHeader, SendHeader, queue_header, recv_stride, send_stride};
use crate::message::QueueGeometry;

/// A header of three lines, one slot of two, and room for the payload of one request.
const SENDS: QueueGeometry = QueueGeometry {
    header: 0,
    slots_at: queue_header::BYTES as u32,
    slots: 1,
    stride: send_stride(0),
    data_at: queue_header::BYTES as u32 + send_stride(0),
    data_bytes: 64,
};

fn area(ring: &QueueGeometry) -> Arc<Area> {
    let length = ring.data_at + ring.data_bytes;
    Arc::new(Area::of_lines(length.div_ceil(64) as usize))
}

fn request(number: u64) -> SendHeader {
    SendHeader {
        wr_id: number,
        ..SendHeader::default()
    }
}

/// Fetches the next request, if there is one: its number, and its payload by value.
fn fetch(ring: &mut WorkRing, area: &Area) -> Option<(u64, u8)> {
    let header: SendHeader = ring.fetch().unwrap()?.header();
    let mut payload = [0];
    if header.data_length > 0 {
        area.read((SENDS.data_at + header.data_offset) as usize, &mut payload);
    }
    ring.release();
    ring.show_released();
    Some((header.wr_id, payload[0]))
}

/// Posts two requests, one after the other, and returns how many of them found room.
fn post_two(queue: &mut SendQueue, mut push: impl FnMut(&mut SendQueue, u64) -> bool) -> u64 {
    let mut posted = 0;
    for number in 1..=2 {
        if push(queue, number) {
            queue.publish();
            posted += 1;
        }
    }
    posted
}

/// Returns what the daemon fetches while the client posts, and afterwards.
fn fetched_of(push: fn(&mut SendQueue, u64) -> bool) -> (u64, Vec<(u64, u8)>) {
    let area = area(&SENDS);
    let mut queue = SendQueue::new(Arc::clone(&area), SENDS).unwrap();
    let mut ring = WorkRing::new(Arc::clone(&area), SENDS);
    let client = thread::spawn(move || post_two(&mut queue, push));
    let mut fetched: Vec<_> = (0..2).filter_map(|_| fetch(&mut ring, &area)).collect();
    let posted = client.join().unwrap();
    fetched.extend(fetch(&mut ring, &area));
    fetched.extend(fetch(&mut ring, &area));
    (posted, fetched)
}

#[test]
fn requests_are_fetched_whole_and_once() {
    loom::model(|| {
        let (posted, fetched) =
            fetched_of(|queue, number| queue.push(&request(number), &[]).is_ok());
        let all: Vec<_> = (1..=posted).map(|number| (number, 0)).collect();
        assert_eq!(fetched, all);
    });
}

#[test]
fn payload_by_value_is_that_of_its_request() {
    loom::model(|| {
        let (posted, fetched) = fetched_of(|queue, number| {
            let payload = [number as u8 * 11];
            let buffer = Buffer {
                addr: payload.as_ptr() as u64,
                length: 1,
                lkey: 0,
            };
            // SAFETY: the payload lives as long as the call.
            let pushed: Result<(), Full> =
                unsafe { queue.push_copied(&request(number), &[buffer]) };
            pushed.is_ok()
        });
        let all: Vec<_> = (1..=posted).map(|it| (it, it as u8 * 11)).collect();
        assert_eq!(fetched, all);
    });
}

/// One slot of half a line.
const RECEIVES: QueueGeometry = QueueGeometry {
    header: 0,
    slots_at: queue_header::BYTES as u32,
    slots: 1,
    stride: recv_stride(0),
    data_at: queue_header::BYTES as u32 + recv_stride(0),
    data_bytes: 0,
};

fn fetch_receive(ring: &mut WorkRing) -> Option<u64> {
    let header: RecvHeader = ring.fetch().unwrap()?.header();
    ring.release();
    ring.show_released();
    Some(header.wr_id)
}

#[test]
fn receives_are_fetched_whole_and_once() {
    loom::model(|| {
        let area = area(&RECEIVES);
        let mut queue = ReceiveQueue::new(Arc::clone(&area), RECEIVES).unwrap();
        let mut ring = WorkRing::new(area, RECEIVES);
        let client = thread::spawn(move || {
            let pushed = (1..=2).filter(|number| {
                let pushed = queue.push(*number, &[]).is_ok();
                assert!(!queue.publish(), "nobody asks for rings");
                pushed
            });
            pushed.count() as u64
        });
        let mut fetched: Vec<_> = (0..2).filter_map(|_| fetch_receive(&mut ring)).collect();
        let pushed = client.join().unwrap();
        fetched.extend((0..2).filter_map(|_| fetch_receive(&mut ring)));
        assert_eq!(fetched, (1..=pushed).collect::<Vec<_>>());
    });
}

/// Without polling: the daemon looks once more after it asked for rings, and the client rings if it was asked.
#[test]
fn a_receive_is_seen_or_rung_for() {
    loom::model(|| {
        let area = area(&RECEIVES);
        let mut queue = ReceiveQueue::new(Arc::clone(&area), RECEIVES).unwrap();
        let mut ring = WorkRing::new(area, RECEIVES);
        let client = thread::spawn(move || {
            queue.push(7, &[]).unwrap();
            queue.publish()
        });
        ring.demand_ring(true);
        let seen = ring.refresh().unwrap() > 0;
        let rings = client.join().unwrap();
        assert!(seen || rings, "it waits for ever");
        assert_eq!(fetch_receive(&mut ring), Some(7));
    });
}
