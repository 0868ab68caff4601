//! Access to the bytes of one space.

use std::cell::Cell;
use std::ptr;

use parking_lot::RwLockReadGuard;

use crate::cursor::Cursor;
use crate::map::{Map, Window};
use crate::space::Maps;
use crate::{Fault, Memory, Region, Right};

#[cfg(test)]
mod tests;

/// The memory of one guest or client, held still: maps change only when no view is alive. Make one for a batch of work,
/// not for longer.
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

    #[inline]
    pub(crate) fn maps(&self) -> &[Map] {
        &self.maps.sorted
    }

    /// Whether `length` bytes at bus address `bus` could be accessed now.
    pub fn check(&self, bus: u64, length: u64, right: Right) -> Result<(), Fault> {
        let mut cursor = Cursor::new(self, &Region::Bus, bus, length, right);
        while cursor.left() > 0 {
            let length = cursor.window()?.length();
            cursor.advance(length);
        }
        Ok(())
    }

    /// Reads `out.len()` bytes at bus address `bus`. They may be torn when the guest writes them
    /// at the same time.
    #[inline]
    pub fn read(&self, bus: u64, out: &mut [u8]) -> Result<(), Fault> {
        Memory::read(self, &Region::Bus, bus, out)
    }

    /// Writes `data` at bus address `bus`; the last bytes become visible last.
    #[inline]
    pub fn write(&self, bus: u64, data: &[u8]) -> Result<(), Fault> {
        Memory::write(self, &Region::Bus, bus, data)
    }

    /// Whether both are views of one space.
    #[inline]
    pub(crate) fn shares_space(&self, other: &Self) -> bool {
        ptr::eq(&*self.maps, &*other.maps)
    }

    /// Returns the bytes at `bus` up to `length` or the end of their map.
    #[inline]
    pub(crate) fn window(&self, bus: u64, length: u64, right: Right) -> Result<Window<'_>, Fault> {
        let map = self
            .find(bus)
            .filter(|map| map.protection.allows(right))
            .ok_or(Fault::Gone)?;
        if !self.maps.bus_master || map.mapping.is_lost() {
            return Err(Fault::Gone);
        }
        Ok(map.window(bus, length))
    }

    #[inline]
    pub(crate) fn find(&self, bus: u64) -> Option<&Map> {
        let last = self.maps().get(self.last.get());
        last.filter(|map| map.contains(bus))
            .or_else(|| self.search(bus))
    }

    fn search(&self, bus: u64) -> Option<&Map> {
        let index = self.maps.search(bus);
        self.last.set(index);
        self.maps().get(index).filter(|map| map.contains(bus))
    }
}
