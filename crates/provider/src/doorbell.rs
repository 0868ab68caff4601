//! The doorbell page: the queues that were posted to, and whether the daemon sleeps.
//!
//! The layout is in the crate's documentation. A ringer sets its bit first and looks at `sleeping` last; the daemon
//! sets `sleeping` first and looks at the bits last. The four steps have one order, so at least one of the two sees the
//! other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release, SeqCst};

use rustix::event::{EventfdFlags, eventfd};

use crate::QUEUES_MAX;
use crate::atomics::{Area, one_order};

const SLEEPING: usize = 0;
const SUMMARY: usize = 64;
const WORDS: usize = 128;
const BITS: u32 = u64::BITS;

/// Bytes of the page.
pub const PAGE_BYTES: usize = 4096;

const _: () = assert!(QUEUES_MAX == BITS * BITS);

/// The client's end.
#[derive(Debug)]
pub struct Ringer {
    page: Area,
    wake: OwnedFd,
}

impl Ringer {
    /// Makes the client's end from the page and eventfd of the hello's reply.
    pub fn new(page: BorrowedFd<'_>, wake: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            page: Area::map(page, PAGE_BYTES)?,
            wake,
        })
    }

    /// Makes the client's end to a listener whose page is a model's.
    #[cfg(all(test, loom))]
    pub(crate) fn beside(listener: &Listener) -> Self {
        Self {
            page: listener.page.clone(),
            wake: listener.wake.try_clone().expect("there are descriptors"),
        }
    }

    /// Tells the daemon that queue `bit` was posted to; the daemon then sees what was stored before.
    #[inline]
    pub fn ring(&self, bit: u32) {
        let bit = bit % QUEUES_MAX;
        let word = bit / BITS;
        let old = self
            .page
            .u64(WORDS + word as usize * 8)
            .fetch_or(1 << (bit % BITS), AcqRel);
        // If the word had bits, its summary is set by the ringer of the first bit, or the daemon is about to take this
        // bit, too.
        if old == 0 {
            self.page.u64(SUMMARY).fetch_or(1 << word, SeqCst);
        }
        self.wake_sleeper();
    }

    #[inline]
    fn wake_sleeper(&self) {
        one_order();
        let sleeping = self.page.u32(SLEEPING);
        if sleeping.load(SeqCst) != 0 && sleeping.swap(0, AcqRel) != 0 {
            // A full counter, the only failure, means that a wake-up is pending.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }
}

/// The daemon's end.
#[derive(Debug)]
pub struct Listener {
    page: Area,
    page_fd: OwnedFd,
    wake: OwnedFd,
}

impl Listener {
    /// Makes a page and an eventfd.
    pub fn new() -> io::Result<Self> {
        let (page, page_fd) = Area::create("vrdma-doorbells", PAGE_BYTES)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self {
            page,
            page_fd,
            wake,
        })
    }

    /// Goes on with the page and eventfd of an earlier daemon. It may have ended between taking the summary and a word:
    /// ringers of such a word do not set the summary again, so all words are looked at once.
    pub fn resume(page_fd: OwnedFd, wake: OwnedFd) -> io::Result<Self> {
        let page = Area::map(page_fd.as_fd(), PAGE_BYTES)?;
        page.u64(SUMMARY).store(u64::MAX, Release);
        Ok(Self {
            page,
            page_fd,
            wake,
        })
    }

    /// The page, for the client.
    pub fn page(&self) -> BorrowedFd<'_> {
        self.page_fd.as_fd()
    }

    /// The eventfd, for the client and for the daemon's poll set: edge-triggered, so that nobody must read it.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes the bits set since the last call and passes each to `rung`; true if there was any. A client that writes
    /// nonsense sets bits of queues that do not exist.
    pub fn take(&self, mut rung: impl FnMut(u32)) -> bool {
        if !self.has_rung() {
            return false;
        }
        let mut words = self.page.u64(SUMMARY).swap(0, AcqRel);
        while words != 0 {
            let word = words.trailing_zeros();
            words &= words - 1;
            let mut bits = self.page.u64(WORDS + word as usize * 8).swap(0, AcqRel);
            while bits != 0 {
                rung(word * BITS + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
        true
    }

    /// Whether there are bits to take.
    #[inline]
    pub fn has_rung(&self) -> bool {
        self.page.u64(SUMMARY).load(Relaxed) != 0
    }

    /// Announces that the daemon is going to sleep; false if there are bits to take first. Call it for every client,
    /// then sleep only if all calls returned true.
    pub fn sleep(&self) -> bool {
        self.page.u32(SLEEPING).store(1, SeqCst);
        one_order();
        self.page.u64(SUMMARY).load(SeqCst) == 0
    }

    /// Announces that the daemon is awake: no ringer has to wake it.
    pub fn awake(&self) {
        self.page.u32(SLEEPING).store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Listener, Ringer) {
        let listener = Listener::new().unwrap();
        let wake = listener.wake().try_clone_to_owned().unwrap();
        let ringer = Ringer::new(listener.page(), wake).unwrap();
        (listener, ringer)
    }

    fn taken(listener: &Listener) -> Vec<u32> {
        let mut bits = Vec::new();
        listener.take(|bit| bits.push(bit));
        bits
    }

    #[test]
    fn a_listener_that_ended_while_it_took_bits_loses_none() {
        let (listener, ringer) = pair();
        ringer.ring(64);
        listener.page.u64(SUMMARY).store(0, Release);
        let page = listener.page().try_clone_to_owned().unwrap();
        let wake = listener.wake().try_clone_to_owned().unwrap();
        let next = Listener::resume(page, wake).unwrap();
        ringer.ring(65);
        assert_eq!(taken(&next), [64, 65]);
        assert_eq!(taken(&next), [0; 0]);
        ringer.ring(64);
        assert_eq!(taken(&next), [64]);
    }

    #[test]
    fn each_queue_rung_is_heard_once() {
        let (listener, ringer) = pair();
        for bit in [4095, 0, 63, 64, 64] {
            ringer.ring(bit);
        }
        assert_eq!(taken(&listener), [0, 63, 64, 4095]);
        assert_eq!(taken(&listener), [0; 0]);
        ringer.ring(64);
        assert_eq!(taken(&listener), [64]);
    }

    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let (listener, ringer) = pair();
        let mut count = [0; 8];
        ringer.ring(1);
        assert!(rustix::io::read(listener.wake(), &mut count).is_err());
        assert!(!listener.sleep(), "there is a bit to take");
        taken(&listener);
        assert!(listener.sleep());
        ringer.ring(2);
        ringer.ring(3);
        assert_eq!(rustix::io::read(listener.wake(), &mut count), Ok(8));
        assert_eq!(u64::from_ne_bytes(count), 1);
    }
}
