//! Messages that completions enclose.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::area::Area;
use crate::client::{CompletionQueue, Piece};
use crate::daemon::{CompletionRing, CqPlan, RingError};
use crate::layout::{Buffer, Completion, ENCLOSING_AREA, EnclosedHeader};

/// A ring with room for messages, and its other end.
fn enclosing(entries: u32) -> (CompletionRing, CompletionQueue, Arc<Area>) {
    let plan = CqPlan::new(entries, true).unwrap();
    let (area, fd) = Area::create("test", plan.bytes as usize).unwrap();
    let theirs = Arc::new(Area::map(fd.as_fd(), plan.bytes as usize).unwrap());
    let queue = CompletionQueue::new(Arc::clone(&theirs), plan.ring).unwrap();
    (
        CompletionRing::new(Arc::new(area), plan.ring),
        queue,
        theirs,
    )
}

/// Writes an entry with a message for two buffers.
fn write_enclosed(ring: &mut CompletionRing, wr_id: u64, bytes: &[u8]) -> Completion {
    let mut entry = Completion {
        wr_id,
        ..Completion::default()
    };
    let half = bytes.len() / 2;
    let buffers = [half, bytes.len() - half].map(|length| Buffer {
        addr: wr_id,
        length: length as u32,
        lkey: wr_id as u32,
    });
    ring.enclose(&mut entry, buffers.into_iter(), bytes)
        .unwrap();
    ring.write(&entry).unwrap();
    entry
}

/// Polls one entry: its number, and the bytes for each buffer.
fn poll_enclosed(queue: &mut CompletionQueue) -> Option<(u64, Vec<Vec<u8>>)> {
    let mut parts = Vec::new();
    let entry = queue.poll(|_, message| {
        if message.claim() {
            parts = message.pieces().map(|piece| part(&piece)).collect();
        }
    })?;
    Some((entry.wr_id, parts))
}

fn part(piece: &Piece<'_>) -> Vec<u8> {
    let mut bytes = vec![0; piece.buffer.length as usize];
    // SAFETY: `bytes` has as many bytes as the buffer.
    unsafe { piece.put(bytes.as_mut_ptr()) };
    bytes
}

#[test]
fn a_message_comes_with_its_entry_wherever_the_data_area_wraps() {
    let (mut ring, mut queue, _) = enclosing(4);
    let length = |number: u64| 1 + number as usize * 611 % 4000;
    let content = |number: u64| vec![number as u8; length(number)];
    for number in 0..200 {
        write_enclosed(&mut ring, number, &content(number));
        ring.publish();
        let (wr_id, parts) = poll_enclosed(&mut queue).unwrap();
        assert_eq!((wr_id, parts.concat()), (number, content(number)));
        assert_eq!(parts[0].len(), length(number) / 2);
        assert!(ring.enclosing_room().unwrap() >= ENCLOSING_AREA / 2);
    }
}

#[test]
fn a_message_without_room_is_refused_until_older_ones_are_polled() {
    let (mut ring, mut queue, _) = enclosing(64);
    let bytes = [7; 4096];
    let mut written = 0;
    while ring.enclosing_room().unwrap() > 4096 + 128 {
        write_enclosed(&mut ring, written, &bytes);
        written += 1;
    }
    let mut entry = Completion::default();
    let none = std::iter::empty();
    let refused = ring.enclose(&mut entry, none.clone(), &[0; 8000]);
    assert_eq!((refused, entry.enclosed_bytes), (Err(RingError::Full), 0));
    ring.publish();
    poll_enclosed(&mut queue).unwrap();
    poll_enclosed(&mut queue).unwrap();
    assert!(ring.enclosing_room().unwrap() >= 8064);
    ring.enclose(&mut entry, none, &[0; 8000]).unwrap();
}

#[test]
fn a_message_is_put_in_place_by_one_end_only() {
    let (mut ring, mut queue, _) = enclosing(4);
    write_enclosed(&mut ring, 1, b"one.");
    write_enclosed(&mut ring, 2, b"two.");
    ring.publish();
    let mut taken = Vec::new();
    let mut take = |ring: &mut CompletionRing, lkey| {
        let is_meant = |buffer: &Buffer| buffer.lkey == lkey;
        ring.take_enclosed(is_meant, |buffers, bytes| {
            taken.push((buffers.len(), bytes.to_vec()));
        });
    };
    take(&mut ring, 3);
    take(&mut ring, 2);
    assert_eq!(poll_enclosed(&mut queue).unwrap().1.concat(), b"one.");
    assert_eq!(poll_enclosed(&mut queue), Some((2, Vec::new())));
    take(&mut ring, 1);
    assert_eq!(taken, [(2, b"two.".to_vec())]);
}

#[test]
fn messages_move_to_another_ring_with_their_entries() {
    let (mut ring, mut queue, _) = enclosing(4);
    write_enclosed(&mut ring, 1, b"gone");
    write_enclosed(&mut ring, 2, b"with");
    ring.publish();
    poll_enclosed(&mut queue).unwrap();
    let (mut fresh, mut queue, _) = enclosing(8);
    ring.unload(&mut fresh).unwrap();
    let (wr_id, parts) = poll_enclosed(&mut queue).unwrap();
    assert_eq!((wr_id, parts.concat()), (2, b"with".to_vec()));
}

#[test]
fn messages_of_a_daemon_that_ended_are_not_overwritten() {
    let (mut ring, mut queue, area) = enclosing(4);
    write_enclosed(&mut ring, 1, b"told");
    let plan = CqPlan::new(4, true).unwrap();
    let mut next = CompletionRing::resume(area, plan.ring, 1).unwrap();
    assert_eq!(next.enclosing_room(), Ok(0));
    let mut left = 0;
    next.take_enclosed(|buffer| buffer.lkey == 2, |_, _| left += 1);
    assert_eq!(poll_enclosed(&mut queue).unwrap().1.concat(), b"told");
    assert_eq!((next.enclosing_room(), left), (Ok(ENCLOSING_AREA), 0));
}

/// The library can change anything in its rings.
#[test]
fn entries_and_messages_that_make_no_sense_are_passed_over() {
    let (mut ring, _queue, area) = enclosing(4);
    let entry = write_enclosed(&mut ring, 1, b"one.");
    let plan = CqPlan::new(4, true).unwrap().ring;
    let mut taken = 0;
    let mut take = |ring: &mut CompletionRing| ring.take_enclosed(|_| true, |_, _| taken += 1);
    for (at, bytes) in [
        (1, 64),
        (!63, 64),
        (plan.data_bytes, 64),
        (0, u32::MAX),
        (0, 1),
    ] {
        let wrong = Completion {
            enclosed_at: at,
            enclosed_bytes: bytes,
            ..entry
        };
        area.put(plan.slots_at as usize, &wrong);
        take(&mut ring);
    }
    area.put(plan.slots_at as usize, &entry);
    let header = EnclosedHeader {
        buffers: u32::MAX,
        ..EnclosedHeader::default()
    };
    area.put(plan.data_at as usize, &header);
    take(&mut ring);
    assert_eq!(taken, 1, "as many buffers as fit");
}
