//! Grants to reach a peer's memory without the daemon: words that both ends share.
//!
//! ```text
//!   client (initiator)                     daemon
//!     busy = 1                               valid = 0        the region goes, or a queue pair changes
//!     valid is my generation? ── no ─► busy = 0, post it      busy? ── yes ─► not yet
//!     copy
//!     busy = 0
//! ```
//!
//! At least one of the two sees the other's store, so no copy begins after a grant was taken back, and the daemon, when
//! it takes a grant back, sees the copy that is under way. A page holds the grants of one client, which may scribble on
//! it: it then deceives itself, or delays the end of a region.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Release, SeqCst};

use crate::atomics::{Area, AtomicU32, one_order};

/// Most grants of one client at the same time: each costs the client a descriptor.
pub const GRANTS: u32 = 128;

/// Bytes of a grant in the page: one cache line.
const STRIDE: usize = 64;
const BUSY: usize = 4;

/// Bytes of a page.
const BYTES: usize = GRANTS as usize * STRIDE;

/// The page of grants of one client.
#[derive(Clone, Debug)]
pub struct Page(Arc<Area>);

impl Page {
    /// Makes a page, and its descriptor for the client.
    pub fn create() -> io::Result<(Self, OwnedFd)> {
        let (area, fd) = Area::create("vrdma-grants", BYTES)?;
        Ok((Self(Arc::new(area)), fd))
    }

    /// Maps the page at the client's end.
    pub fn map(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(Arc::new(Area::map(fd, BYTES)?)))
    }

    fn valid(&self, index: u32) -> &AtomicU32 {
        self.0.u32((index % GRANTS) as usize * STRIDE)
    }

    fn busy(&self, index: u32) -> &AtomicU32 {
        self.0.u32((index % GRANTS) as usize * STRIDE + BUSY)
    }

    /// Begins a copy under a grant, in the client; false if the grant was taken back. One copy per grant at a time.
    pub fn enter(&self, index: u32, generation: u32) -> bool {
        self.busy(index).store(1, SeqCst);
        one_order();
        let entered = self.valid(index).load(SeqCst) == generation;
        if !entered {
            self.exit(index);
        }
        entered
    }

    /// Ends the copy.
    pub fn exit(&self, index: u32) {
        self.busy(index).store(0, Release);
    }

    /// Gives a grant, in the daemon; `generation` is not 0 and differs from earlier ones of this index.
    pub fn give(&self, index: u32, generation: u32) {
        self.valid(index).store(generation, SeqCst);
    }

    /// Takes a grant back, in the daemon.
    pub fn take_back(&self, index: u32) {
        self.valid(index).store(0, SeqCst);
        one_order();
    }

    /// Whether the client says that a copy is under way.
    pub fn is_busy(&self, index: u32) -> bool {
        self.busy(index).load(SeqCst) != 0
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_grant_ends_for_one_generation_and_a_copy_under_way_is_seen() {
        let (daemon, fd) = Page::create().unwrap();
        let client = Page::map(fd.as_fd()).unwrap();
        assert!(!client.enter(3, 7));
        daemon.give(3, 7);
        assert!(client.enter(3, 7) && daemon.is_busy(3));
        daemon.take_back(3);
        assert!(daemon.is_busy(3), "it goes on");
        client.exit(3);
        assert!(!daemon.is_busy(3) && !client.enter(3, 7));
        daemon.give(3, 8);
        assert!(!client.enter(3, 7) && client.enter(3, 8));
    }

    /// Once the daemon has seen that nobody copies, nobody does.
    #[test]
    fn no_copy_slips_through() {
        let (daemon, fd) = Page::create().unwrap();
        let client = Page::map(fd.as_fd()).unwrap();
        let memory = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for generation in 1..20_000 {
                    if client.enter(0, generation) {
                        memory.store(generation, SeqCst);
                        client.exit(0);
                    }
                }
            });
            for generation in 1..20_000 {
                daemon.give(0, generation);
                daemon.take_back(0);
                while daemon.is_busy(0) {
                    std::thread::yield_now();
                }
                let then = memory.load(SeqCst);
                // Generations only grow, so an old grant lets nobody in.
                assert!(then <= generation);
                assert_eq!(memory.load(SeqCst), then);
            }
        });
    }
}
