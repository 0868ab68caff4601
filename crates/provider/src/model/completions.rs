//! Completion queues: entries are taken whole, with the message that they enclose; no entry waits for a client that was
//! never woken; and either side puts a message in place, but never both.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use super::{Area, LINE};
use crate::client::CompletionQueue;
use crate::daemon::{CompletionRing, RingError};
use crate::layout::{
    Buffer, COMPLETION_BYTES, Completion, ENCLOSED_MAX, ENCLOSING_AREA, armed, cq_header,
};
use crate::message::QueueGeometry;

const fn queue_of(slots: u32) -> QueueGeometry {
    let entries_at = cq_header::BYTES as u32;
    QueueGeometry {
        header: 0,
        slots_at: entries_at,
        slots,
        stride: COMPLETION_BYTES,
        data_at: entries_at + slots * COMPLETION_BYTES,
        data_bytes: ENCLOSING_AREA + ENCLOSED_MAX,
    }
}

fn both(ring: QueueGeometry) -> (CompletionRing, CompletionQueue) {
    let length = (ring.data_at + ring.data_bytes) as usize;
    let area = Arc::new(Area::of_lines(length.div_ceil(LINE)));
    let queue = CompletionQueue::new(Arc::clone(&area), ring).unwrap();
    (CompletionRing::new(area, ring), queue)
}

fn entry(number: u64) -> Completion {
    Completion {
        wr_id: number,
        ..Completion::default()
    }
}

/// Writes an entry with a message of one byte, if there is room.
fn complete(ring: &mut CompletionRing, number: u64) -> Result<(), RingError> {
    let buffer = Buffer {
        addr: number,
        length: 1,
        lkey: 0,
    };
    let mut entry = entry(number);
    if ring.enclosing_room()? >= ENCLOSED_MAX {
        let message = [number as u8];
        ring.enclose(&mut entry, [buffer].into_iter(), &message)?;
    }
    ring.write(&entry)
}

/// Takes an entry with its message, which is the number of the entry.
fn take(queue: &mut CompletionQueue) -> Option<u64> {
    let taken = queue.poll(|entry, enclosed| {
        let mut message = [0];
        for piece in enclosed.pieces() {
            // SAFETY: there is room for the byte.
            unsafe { piece.put(message.as_mut_ptr()) };
        }
        assert_eq!(u64::from(message[0]), entry.wr_id);
    });
    taken.map(|entry| entry.wr_id)
}

#[test]
fn entries_are_taken_whole_with_their_messages() {
    loom::model(|| {
        let (mut ring, mut queue) = both(queue_of(1));
        let client = thread::spawn(move || {
            let taken: Vec<_> = (0..2).filter_map(|_| take(&mut queue)).collect();
            (queue, taken)
        });
        let mut written = 0;
        for number in 1..=2 {
            if complete(&mut ring, number).is_ok() {
                ring.publish();
                written += 1;
            }
        }
        let (mut queue, mut taken) = client.join().unwrap();
        taken.extend(take(&mut queue));
        let all: Vec<_> = (1..=written).collect();
        assert_eq!(taken, all);
    });
}

/// The client arms and looks once more; the daemon publishes and looks at the arming.
#[test]
fn who_armed_finds_the_entry_or_is_notified() {
    for (what, urgent) in [(armed::ANY, false), (armed::SOLICITED, true)] {
        loom::model(move || {
            let (mut ring, mut queue) = both(queue_of(1));
            let client = thread::spawn(move || {
                queue.arm(what);
                queue.poll(|_, _| {}).is_some()
            });
            ring.write(&entry(1)).unwrap();
            ring.publish();
            let notified = ring.take_armed(urgent);
            let found = client.join().unwrap();
            assert!(found || notified, "it sleeps for ever");
        });
    }
}

/// The daemon puts messages in place before a region goes, the client when it takes the entry.
#[test]
fn a_message_is_put_in_place_by_one_of_them() {
    loom::model(|| {
        let (mut ring, mut queue) = both(queue_of(1));
        complete(&mut ring, 1).unwrap();
        ring.publish();
        let place = loom::sync::Arc::new(UnsafeCell::new(0));
        let theirs = place.clone();
        let client = thread::spawn(move || {
            let mut put = 0;
            queue.poll(|_, enclosed| {
                if enclosed.claim() {
                    theirs.with_mut(|_| put += 1);
                }
            });
            put
        });
        let mut put = 0;
        ring.take_enclosed(|_| true, |_, _| place.with_mut(|_| put += 1));
        assert_eq!(put + client.join().unwrap(), 1);
    });
}
