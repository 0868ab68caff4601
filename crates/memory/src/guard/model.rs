//! Model of a handler and threads that change slots, in every order of steps, by loom: `slot` as it ships, with loom's
//! atomics.
//!
//! A handler looks for the range of an access that it has interrupted. That range does not change. Another slot, of
//! which the handler reads each word once, may change from one range to another meanwhile, and must never look like a
//! range that holds the address.

/// Loom's counterpart of the guard's `words`.
mod words {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, fence};
}

#[path = "slot.rs"]
mod slot;

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize};
use loom::thread;

use slot::Slot;

type Range = (usize, usize);

fn slot() -> Slot {
    let (start, end) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Slot::of(start, end, AtomicBool::new(false))
}

/// Runs a slot that changes its range while a handler looks in it for an address that is in neither range.
fn nobody_has(address: usize, before: Range, after: Range) {
    loom::model(move || {
        let changing = Arc::new(slot());
        changing.publish(before.0, before.1);
        let asked = Arc::clone(&changing);
        let handler = thread::spawn(move || asked.range_around(address));
        changing.withdraw();
        changing.publish(after.0, after.1);
        assert_eq!(handler.join().unwrap(), None);
    });
}

#[test]
fn a_range_is_never_put_together_of_two() {
    nobody_has(5, (0, 4), (6, 8));
    nobody_has(5, (6, 8), (0, 4));
}

/// The kernel orders the unmapping of one range and the mapping of another one in its place.
#[test]
fn addresses_that_another_range_had_are_not_taken_for_it() {
    loom::model(|| {
        let (changing, kernel) = (Arc::new(slot()), Arc::new(AtomicUsize::new(0)));
        changing.publish(0, 8);
        let (asked, mapped) = (Arc::clone(&changing), Arc::clone(&kernel));
        let handler = thread::spawn(move || {
            // The access is to a mapping that begins where the earlier one began.
            let is_mapped = mapped.load(Acquire) == 1;
            is_mapped.then(|| asked.range_around(2))
        });
        changing.withdraw();
        kernel.fetch_add(1, AcqRel);
        // The other half, which ends where the earlier mapping ended.
        changing.publish(4, 8);
        assert_eq!(handler.join().unwrap().flatten(), None);
    });
}

/// A thread that reads zeros where the file had something else finds the mark afterwards.
#[test]
fn zeros_are_never_taken_for_the_files() {
    loom::model(|| {
        let (range, byte) = (Arc::new(slot()), Arc::new(AtomicU8::new(7)));
        range.publish(0, 8);
        let (faulting, hole) = (Arc::clone(&range), Arc::clone(&byte));
        let handler = thread::spawn(move || {
            assert_eq!(faulting.range_around(3), Some((0, 8)), "it lives");
            faulting.lose();
            // The kernel maps the zeros after what was stored before.
            hole.store(0, Release);
        });
        let found = byte.load(Relaxed);
        assert!(found == 7 || range.is_lost());
        handler.join().unwrap();
    });
}

/// The next range of a slot that was lost is not lost.
#[test]
fn the_next_range_of_a_slot_begins_whole() {
    loom::model(|| {
        let (reused, kernel) = (Arc::new(slot()), Arc::new(AtomicUsize::new(0)));
        reused.publish(0, 4);
        reused.lose();
        let (theirs, mapped) = (Arc::clone(&reused), Arc::clone(&kernel));
        let user = thread::spawn(move || {
            // The owner passes the mapping on to this thread.
            let has_it = mapped.load(Acquire) == 1;
            !has_it || !theirs.is_lost()
        });
        reused.withdraw();
        reused.publish(4, 8);
        kernel.store(1, Release);
        assert!(user.join().unwrap());
    });
}
