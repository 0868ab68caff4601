//! Access to the bytes of one space.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use parking_lot::RwLockReadGuard;

use crate::cursor::Cursor;
use crate::map::{Map, Window};
use crate::space::Maps;
use crate::{CopyFault, Fault, Memory, PAGE, Region, Right};

#[cfg(test)]
mod tests;

/// The last bytes of a write are stored on their own, after all others: programs poll the end of a
/// buffer to see that a message has arrived, and a plain memcpy may store its ends in any order.
const TAIL: u64 = 8;

/// Tries of an atomic update. Each failure means that somebody else changed the word meanwhile;
/// ordinary contention needs a few, and a guest that hammers its own word gets a fault instead of
/// our thread.
const MAX_TRIES: usize = 1024;

/// The memory of one guest or client, held still: maps come and go only when no view is alive.
/// Make one for a batch of work, not for longer.
pub struct View<'s> {
    maps: RwLockReadGuard<'s, Maps>,
    /// Index of the map that was hit last; most accesses hit it again.
    last: Cell<usize>,
}

impl<'s> View<'s> {
    pub(crate) fn new(maps: RwLockReadGuard<'s, Maps>) -> Self {
        Self {
            maps,
            last: Cell::new(0),
        }
    }

    pub(crate) fn maps(&self) -> &[Map] {
        &self.maps.sorted
    }

    /// Whether `length` bytes at bus address `bus` could be accessed now.
    pub fn check(&self, bus: u64, length: u64, right: Right) -> Result<(), Fault> {
        let mut cursor = Cursor::new(self, (&Region::Bus, bus), length, right);
        while cursor.left() > 0 {
            let length = cursor.window()?.length();
            cursor.advance(length);
        }
        Ok(())
    }

    /// Reads `out.len()` bytes at bus address `bus`. They may be torn when the guest writes them
    /// at the same time.
    pub fn read(&self, bus: u64, out: &mut [u8]) -> Result<(), Fault> {
        Memory::read(self, &Region::Bus, bus, out)
    }

    /// Writes `data` at bus address `bus`; the last bytes become visible last.
    pub fn write(&self, bus: u64, data: &[u8]) -> Result<(), Fault> {
        Memory::write(self, &Region::Bus, bus, data)
    }

    /// Reads the naturally aligned little-endian word at `bus`; what the guest wrote before it is
    /// visible afterwards.
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

    /// A naturally aligned word. Maps begin on page borders on both sides, so an aligned bus
    /// address is an aligned host address and an aligned word never crosses a map.
    fn word(&self, bus: u64, size: usize, right: Right) -> Result<Window<'_>, Fault> {
        if !bus.is_multiple_of(size as u64) {
            return Err(Fault);
        }
        self.window(bus, size as u64, right)
    }

    /// The bytes at `bus` up to `length` or the end of their map.
    pub(crate) fn window(&self, bus: u64, length: u64, right: Right) -> Result<Window<'_>, Fault> {
        let map = self
            .find(bus)
            .filter(|map| map.protection.allows(right))
            .ok_or(Fault)?;
        if !self.maps.bus_master || map.mapping.is_lost() {
            return Err(Fault);
        }
        Ok(map.window(bus, length))
    }

    fn find(&self, bus: u64) -> Option<&Map> {
        let last = self.maps().get(self.last.get());
        last.filter(|map| map.contains(bus))
            .or_else(|| self.search(bus))
    }

    fn search(&self, bus: u64) -> Option<&Map> {
        let index = self.maps.search(bus);
        self.last.set(index);
        self.maps().get(index).filter(|map| map.contains(bus))
    }

    /// Whether a copy reads bytes that it writes. Only asked of one region of one space: other
    /// aliases (two registrations of one buffer, pages that repeat) are the guest's own doing, and
    /// what they receive is as unspecified as on an adapter.
    fn overlaps(
        &self,
        to: (&Region, u64),
        source: &Self,
        from: (&Region, u64),
        length: u64,
    ) -> bool {
        let shared = ptr::eq(&*self.maps, &*source.maps) && to.0.is(from.0);
        // A range that wraps ends in a fault of the plain copy and is nothing to add offsets to.
        let wraps = to.1.max(from.1).checked_add(length).is_none();
        shared && !wraps && to.1.abs_diff(from.1) < length
    }

    /// Moves through a private page, from the end when the destination is ahead, so that no byte is
    /// overwritten before it was read.
    fn copy_overlapping(
        &self,
        region: &Region,
        to: u64,
        from: u64,
        length: u64,
    ) -> Result<(), CopyFault> {
        let mut page = [0; PAGE as usize];
        let mut done = 0;
        while done < length {
            let count = PAGE.min(length - done);
            let at = if to > from {
                length - done - count
            } else {
                done
            };
            let bytes = &mut page[..count as usize];
            Memory::read(self, region, from + at, bytes).map_err(|Fault| CopyFault::Source)?;
            Memory::write(self, region, to + at, bytes).map_err(|Fault| CopyFault::Destination)?;
            done += count;
        }
        Ok(())
    }
}

/// Bytes to move next: all that both sides have in one piece, but never the tail with the rest.
fn step(piece: usize, left: u64) -> usize {
    match left.checked_sub(TAIL) {
        Some(head) if head > 0 => (piece as u64).min(head) as usize,
        _ => piece.min(left as usize),
    }
}

/// Copies foreign bytes.
///
/// # Safety
/// `from` is readable and `to` writable for `length` bytes.
unsafe fn move_bytes(from: *const u8, to: *mut u8, length: usize) {
    // Everything stored so far becomes visible before what is stored now: see `TAIL`.
    fence(Release);
    // SAFETY: readable and writable as promised. The bytes belong to a guest that may write them
    // meanwhile, and no lock can stop it. That is tolerated because no reference to them is ever
    // formed and nothing is decided twice on what was read: a race tears the guest's own data and
    // nothing else. `copy` and not `copy_nonoverlapping`, since two regions may name one page.
    unsafe { ptr::copy(from, to, length) };
}

impl Memory for View<'_> {
    type Region = Region;

    fn read(&self, region: &Region, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let mut source = Cursor::new(self, (region, offset), out.len() as u64, Right::Read);
        let mut rest = out;
        while !rest.is_empty() {
            let window = source.window()?;
            let (piece, behind) = rest.split_at_mut(window.length().min(rest.len()));
            window.read_raw(piece.len(), |from| {
                // SAFETY: `read_raw` vouches for `from`; `piece` is ours and as long.
                unsafe { move_bytes(from, piece.as_mut_ptr(), piece.len()) }
            })?;
            source.advance(piece.len());
            rest = behind;
        }
        Ok(())
    }

    fn write(&self, region: &Region, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let mut to = Cursor::new(self, (region, offset), data.len() as u64, Right::Write);
        let mut rest = data;
        while !rest.is_empty() {
            let window = to.window()?;
            let (piece, behind) = rest.split_at(step(window.length(), to.left()));
            window.write_raw(piece.len(), |to| {
                // SAFETY: `write_raw` vouches for `to`; `piece` is ours and as long.
                unsafe { move_bytes(piece.as_ptr(), to, piece.len()) }
            })?;
            to.advance(piece.len());
            rest = behind;
        }
        Ok(())
    }

    fn copy(
        &self,
        to: (&Region, u64),
        source: &Self,
        from: (&Region, u64),
        length: u64,
    ) -> Result<(), CopyFault> {
        if self.overlaps(to, source, from, length) {
            return self.copy_overlapping(to.0, to.1, from.1, length);
        }
        let mut from = Cursor::new(source, from, length, Right::Read);
        let mut to = Cursor::new(self, to, length, Right::Write);
        while to.left() > 0 {
            let readable = from.window().map_err(|Fault| CopyFault::Source)?;
            let writable = to.window().map_err(|Fault| CopyFault::Destination)?;
            let count = step(readable.length().min(writable.length()), to.left());
            copy_piece(&writable, &readable, count)?;
            from.advance(count);
            to.advance(count);
        }
        Ok(())
    }

    fn fetch_update(
        &self,
        region: &Region,
        offset: u64,
        update: &dyn Fn(u64) -> u64,
    ) -> Result<u64, Fault> {
        let (bus, _) = region.run(offset, 1).ok_or(Fault)?;
        let window = self.word(bus, size_of::<u64>(), Right::Write)?;
        if !window.allows(Right::Read) {
            return Err(Fault);
        }
        window.write_raw(size_of::<u64>(), |at| {
            // SAFETY: `word` and `write_raw` give eight aligned, writable, mapped bytes; the map
            // is readable too.
            update_word(unsafe { AtomicU64::from_ptr(at.cast()) }, update)
        })?
    }
}

fn copy_piece(to: &Window<'_>, from: &Window<'_>, length: usize) -> Result<(), CopyFault> {
    let read = to.write_raw(length, |to| {
        // SAFETY: `write_raw` vouches for `to` and `read_raw` for `from`.
        from.read_raw(length, |from| unsafe { move_bytes(from, to, length) })
    });
    read.map_err(|Fault| CopyFault::Destination)?
        .map_err(|Fault| CopyFault::Source)
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
    Err(Fault)
}
