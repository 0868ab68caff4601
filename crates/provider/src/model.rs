//! Every order of two sides' steps, by loom: no ring of a doorbell is lost, and no copy begins after a grant was
//! taken back.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use rustix::event::{EventfdFlags, eventfd};

/// The words of a page that the models use: queues 0 to 63 of doorbells, the first grant of a page of grants.
#[derive(Clone, Debug)]
pub(crate) struct Area(Arc<Words>);

#[derive(Debug, Default)]
struct Words {
    short: [AtomicU32; 2],
    long: [AtomicU64; 2],
}

impl Area {
    pub(crate) fn create(_name: &str, _length: usize) -> io::Result<(Self, OwnedFd)> {
        let stands_for_memory = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok((Self(Arc::new(Words::default())), stands_for_memory))
    }

    /// Models share an area by cloning it.
    pub(crate) fn map(_fd: BorrowedFd<'_>, _length: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn u32(&self, offset: usize) -> &AtomicU32 {
        &self.0.short[offset / 4]
    }

    pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
        &self.0.long[offset / 64 - 1]
    }
}

#[cfg(test)]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::thread;

    use super::*;
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

    /// Loom fails a model in which both touch the cell at once, or one without having seen the other.
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
}
