//! No ring of a doorbell is lost, and no copy begins after a grant was taken back.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::doorbell::{Listener, Ringer};
use crate::fast::Page;

fn woken(listener: &Listener) -> bool {
    rustix::io::read(listener.wake(), &mut [0; 8]).is_ok()
}

fn taken(listener: &Listener) -> Vec<u32> {
    let mut bits = Vec::new();
    listener.take(|bit| bits.push(bit));
    bits
}

#[test]
fn who_rings_a_sleeper_wakes_it() {
    loom::model(|| {
        let listener = Listener::new().unwrap();
        let ringer = Ringer::beside(&listener);
        let ringing = thread::spawn(move || ringer.ring(5));
        let sleeps = listener.sleep();
        let early = match sleeps {
            true => Vec::new(),
            false => {
                listener.awake();
                taken(&listener)
            }
        };
        ringing.join().unwrap();
        assert!(woken(&listener) || !sleeps, "it sleeps for ever");
        assert_eq!([early, taken(&listener)].concat(), [5]);
    });
}

#[test]
fn of_two_who_ring_at_once_both_are_heard() {
    loom::model(|| {
        let listener = Listener::new().unwrap();
        let [first, second] = [(); 2].map(|()| Ringer::beside(&listener));
        let ringing = [
            thread::spawn(move || first.ring(1)),
            thread::spawn(move || second.ring(2)),
        ];
        let early = taken(&listener);
        for ringing in ringing {
            ringing.join().unwrap();
        }
        let mut all = [early, taken(&listener)].concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

/// Loom fails a model in which both touch the cell at once, or one without having seen the other's access.
#[test]
fn nobody_copies_after_the_daemon_found_that_nobody_does() {
    loom::model(|| {
        let (daemon, _) = Page::create().unwrap();
        daemon.give(0, 7);
        let client = daemon.clone();
        let memory = Arc::new(UnsafeCell::new(()));
        let copied = memory.clone();
        let copying = thread::spawn(move || {
            if client.enter(0, 7) {
                copied.with_mut(|_| ());
                client.exit(0);
            }
        });
        daemon.take_back(0);
        while daemon.is_busy(0) {
            thread::yield_now();
        }
        memory.with_mut(|_| ());
        copying.join().unwrap();
    });
}
