//! Words that we and a guest change concurrently.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use crate::map::Window;
use crate::{Fault, Right, View};

/// Most tries of an atomic update. A try fails if somebody else changed the word meanwhile; ordinary contention needs a
/// few, and a guest that hammers its own word gets a fault instead of our thread.
const MAX_TRIES: usize = 1024;

impl View<'_> {
    /// Reads the naturally aligned little-endian word at `bus`; what the guest wrote before it is
    /// visible afterwards.
    #[inline]
    pub fn load_u32_acquire(&self, bus: u64) -> Result<u32, Fault> {
        let window = self.word(bus, size_of::<u32>(), Right::Read)?;
        // SAFETY: `word` and `read_raw` give four aligned, readable, mapped bytes; relaxed loads
        // of this size are sound on read-only memory too, which is why the fence stands apart.
        let load = |at: *const u8| unsafe { AtomicU32::from_ptr(at as *mut u32) }.load(Relaxed);
        let value = window.read_raw(size_of::<u32>(), load)?;
        fence(Acquire);
        Ok(u32::from_le(value))
    }

    /// As [`load_u32_acquire`](Self::load_u32_acquire), for 64 bits.
    pub fn load_u64_acquire(&self, bus: u64) -> Result<u64, Fault> {
        let window = self.word(bus, size_of::<u64>(), Right::Read)?;
        // SAFETY: as for 32 bits, with eight bytes.
        let load = |at: *const u8| unsafe { AtomicU64::from_ptr(at as *mut u64) }.load(Relaxed);
        let value = window.read_raw(size_of::<u64>(), load)?;
        fence(Acquire);
        Ok(u64::from_le(value))
    }

    /// Writes the naturally aligned little-endian word at `bus`; a guest that sees it also sees
    /// all that was written before.
    #[inline]
    pub fn store_u32_release(&self, bus: u64, value: u32) -> Result<(), Fault> {
        let window = self.word(bus, size_of::<u32>(), Right::Write)?;
        window.write_raw(size_of::<u32>(), |at| {
            // SAFETY: `word` and `write_raw` give four aligned, writable, mapped bytes.
            unsafe { AtomicU32::from_ptr(at.cast()) }.store(value.to_le(), Release);
        })
    }

    /// As [`store_u32_release`](Self::store_u32_release), for 64 bits.
    pub fn store_u64_release(&self, bus: u64, value: u64) -> Result<(), Fault> {
        let window = self.word(bus, size_of::<u64>(), Right::Write)?;
        window.write_raw(size_of::<u64>(), |at| {
            // SAFETY: `word` and `write_raw` give eight aligned, writable, mapped bytes.
            unsafe { AtomicU64::from_ptr(at.cast()) }.store(value.to_le(), Release);
        })
    }

    /// Replaces the naturally aligned little-endian word at `bus` by `update(old)`, atomically
    /// against everybody, and returns the old one.
    pub(crate) fn update_u64(&self, bus: u64, update: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
        update_at(self.word(bus, size_of::<u64>(), Right::Write)?, update)
    }

    /// Returns the window of a naturally aligned word. Maps begin on page borders on both sides, so an aligned bus
    /// address is an aligned host address and an aligned word never crosses a map.
    #[inline]
    fn word(&self, bus: u64, size: usize, right: Right) -> Result<Window<'_>, Fault> {
        if !bus.is_multiple_of(size as u64) {
            return Err(Fault::Gone);
        }
        self.window(bus, size as u64, right)
    }
}

/// Replaces the word at the start of a writable window; see `update_u64`.
pub(crate) fn update_at(window: Window<'_>, update: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
    if !window.allows(Right::Read) || !window.is_word() {
        return Err(Fault::Gone);
    }
    window.write_raw(size_of::<u64>(), |at| {
        // SAFETY: eight aligned bytes (`is_word`), writable and mapped (`write_raw`); the map is
        // readable too.
        update_word(unsafe { AtomicU64::from_ptr(at.cast()) }, update)
    })?
}

fn update_word(word: &AtomicU64, update: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
    let mut old = word.load(Acquire);
    for _ in 0..MAX_TRIES {
        let new = update(u64::from_le(old)).to_le();
        match word.compare_exchange(old, new, AcqRel, Acquire) {
            Ok(old) => return Ok(u64::from_le(old)),
            Err(now) => old = now,
        }
    }
    Err(Fault::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_never_rests_is_given_up() {
        let word = AtomicU64::new(0);
        let answer = update_word(&word, &|old| {
            word.fetch_add(1, Relaxed);
            old
        });
        assert_eq!(answer, Err(Fault::Gone));
    }
}
