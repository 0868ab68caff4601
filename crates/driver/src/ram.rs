//! Guest memory: a memfd that the device maps by DMA and the guest's CPU always sees.
//!
//! ```text
//!   device ──► Space (bus mastering, unmapping) ──┐
//!                                                 ├──► memfd
//!   guest's CPU ──► Space of its own ─────────────┘
//!              └──► doorbell pages of BAR 2, when they are mapped
//! ```
//!
//! Pages are taken in scattered order, so that nothing works only because pages happen to be contiguous. A freed page
//! is poisoned and never taken again: [`Ram::check_freed`] finds a device that still writes to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vrdma_memory::{PAGE, Protection, SharedPages, Space, View};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bus address of the first page: above 4 GiB, so that truncated addresses miss.
pub const RAM_BASE: u64 = 1 << 32;

/// Address at which the guest's CPU sees BAR 2.
pub const DOORBELL_BASE: u64 = 1 << 40;

/// Odd factor that spreads consecutive pages over the whole memory (the golden ratio of 2^32).
const SCATTER: u64 = 0x9e37_79b1;

const POISON: u8 = 0x5a;

/// Memory of one guest.
pub struct Ram {
    pages: SharedPages,
    cpu: Space,
    count: u64,
    taken: u64,
    freed: Vec<u64>,
}

impl Ram {
    /// Makes a memory of `count` pages, a power of two; they cost nothing until they are written.
    pub fn new(count: u64) -> io::Result<Self> {
        assert!(count.is_power_of_two(), "the scattering needs it");
        let pages = SharedPages::new(count as usize)?;
        let cpu = Space::new();
        let fd = pages.fd().try_clone_to_owned()?;
        cpu.map(RAM_BASE, count * PAGE, Protection::BOTH, fd, 0)
            .map_err(io::Error::other)?;
        Ok(Self {
            pages,
            cpu,
            count,
            taken: 0,
            freed: Vec::new(),
        })
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.count * PAGE
    }

    /// The memfd, for a device to map.
    pub fn fd(&self) -> io::Result<OwnedFd> {
        self.pages.fd().try_clone_to_owned()
    }

    /// Lets the CPU store into doorbell pages.
    pub fn map_doorbells(&self, fd: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
        let fd = fd.as_fd().try_clone_to_owned()?;
        self.cpu
            .map(DOORBELL_BASE, bytes, Protection::BOTH, fd, 0)
            .map_err(io::Error::other)
    }

    /// The CPU's view; one view serves many accesses.
    pub fn view(&self) -> View<'_> {
        self.cpu.view()
    }

    /// Takes a zeroed page.
    ///
    /// # Panics
    /// If none is left: the test needs a larger guest.
    pub fn take(&mut self) -> u64 {
        assert!(self.taken < self.count, "the guest's memory is used up");
        let page = self.page(self.taken);
        self.taken += 1;
        page
    }

    /// The page taken as number `turn`.
    fn page(&self, turn: u64) -> u64 {
        RAM_BASE + (turn * SCATTER) % self.count * PAGE
    }

    /// Every page that was ever taken.
    pub(crate) fn all_taken(&self) -> impl Iterator<Item = u64> {
        (0..self.taken).map(|turn| self.page(turn))
    }

    /// Continues to take pages where `other`, a memory of the same size that was copied, has stopped.
    pub(crate) fn follow(&mut self, other: &Self) {
        self.taken = other.taken;
        self.freed.clone_from(&other.freed);
    }

    /// Takes zeroed pages.
    pub fn take_many(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.take()).collect()
    }

    /// Frees pages. No one may write to them from now on.
    pub fn free(&mut self, pages: impl IntoIterator<Item = u64>) {
        for page in pages {
            self.write_bytes(page, &[POISON; PAGE as usize]);
            self.freed.push(page);
        }
    }

    /// The first freed page that was written to.
    pub fn check_freed(&self) -> Option<u64> {
        let mut bytes = [0; PAGE as usize];
        let spoilt = |page: &&u64| {
            self.read_bytes(**page, &mut bytes);
            bytes != [POISON; PAGE as usize]
        };
        self.freed.iter().find(spoilt).copied()
    }

    /// Reads a structure.
    pub fn read<T: FromBytes + IntoBytes>(&self, at: u64) -> T {
        let mut value = T::new_zeroed();
        self.read_bytes(at, value.as_mut_bytes());
        value
    }

    /// Writes a structure.
    pub fn write<T: IntoBytes + Immutable>(&self, at: u64, value: &T) {
        self.write_bytes(at, value.as_bytes());
    }

    /// Reads bytes.
    pub fn read_bytes(&self, at: u64, out: &mut [u8]) {
        let read = self.view().read(at, out);
        read.expect("a guest reads its own memory only");
    }

    /// Writes bytes.
    pub fn write_bytes(&self, at: u64, data: &[u8]) {
        let written = self.view().write(at, data);
        written.expect("a guest writes its own memory only");
    }

    /// Loads a word with acquire order.
    pub fn load(&self, at: u64) -> u32 {
        let loaded = self.view().load_u32_acquire(at);
        loaded.expect("a guest reads its own memory only")
    }

    /// Stores a word with release order.
    pub fn store(&self, at: u64, value: u32) {
        let stored = self.view().store_u32_release(at, value);
        stored.expect("a guest writes its own memory only");
    }
}
