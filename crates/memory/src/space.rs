//! The DMA maps of one guest or client.

use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use parking_lot::RwLock;

use crate::backing::Backing;
use crate::dirty::{Bitmap, DirtyLog};
use crate::map::{Map, Protection};
use crate::mapping::{MapError, Mapping};
use crate::{PAGE, View};

#[cfg(test)]
mod tests;

/// Most maps of one space. QEMU makes a few dozen; the bound keeps a client from filling the kernel's table of our
/// mappings (65530 by default), and a client that exceeds it gets an error.
pub const MAX_MAPS: usize = 512;

/// Most bytes mapped in one space: beyond the largest guests in use. It bounds the dirty log to 128 MiB.
pub const MAX_BYTES: u64 = 4 << 40;

/// Why memory was not unmapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnmapError {
    /// The range covers a part of a map; nothing was changed.
    #[error("a DMA map can only be unmapped as a whole, and the one at {iova:#x} is not covered")]
    Splits {
        /// Start of that map.
        iova: u64,
    },
}

/// All memory that one guest or client lets us touch.
///
/// Lock order: the lock of a space is innermost; nothing else is locked while it is held. A change waits until every
/// [`View`] is gone, so a thread must drop its own before it makes one.
pub struct Space {
    maps: RwLock<Maps>,
    generation: AtomicU64,
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").finish_non_exhaustive()
    }
}

pub(crate) struct Maps {
    /// Maps, ascending by `iova`, without overlaps.
    pub(crate) sorted: Vec<Map>,
    pub(crate) bus_master: bool,
    logging: bool,
}

impl Default for Space {
    fn default() -> Self {
        Self::new()
    }
}

/// Maps that were removed. Drop them where nothing waits: the kernel takes milliseconds for each gigabyte that was in
/// use.
pub struct Unmapped(Vec<Map>);

impl Unmapped {
    /// Bytes of all removed maps.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|map| map.size).sum()
    }
}

impl fmt::Debug for Unmapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unmapped({} bytes)", self.bytes())
    }
}

impl Space {
    /// Makes a space with nothing mapped and bus mastering on: a PCI function turns it off when it is reset.
    pub fn new() -> Self {
        let maps = Maps {
            sorted: Vec::new(),
            bus_master: true,
            logging: false,
        };
        Self {
            maps: RwLock::new(maps),
            generation: AtomicU64::new(0),
        }
    }

    /// Lets the device reach `size` bytes of `fd` from `offset` at bus address `iova`. The descriptor is kept as long
    /// as the map.
    pub fn map(
        &self,
        iova: u64,
        size: u64,
        protection: Protection,
        fd: OwnedFd,
        offset: u64,
    ) -> Result<(), MapError> {
        check_shape(iova, size, protection, offset)?;
        // Refused early, so that a full or overlapping space costs no mmap; `insert` asks again.
        self.maps.read_recursive().room(iova, size)?;
        let mapping = Mapping::new(fd.as_fd(), offset, size, protection)?;
        self.maps.write().insert(Map {
            iova,
            size,
            protection,
            mapping,
            dirty: None,
            backing: Some(Backing { file: fd, offset }),
        })
    }

    /// Removes every map inside the range; a range without maps is no error (as in VFIO). When this returns, nobody
    /// accesses the removed maps any more.
    pub fn unmap(&self, iova: u64, size: u64) -> Result<Unmapped, UnmapError> {
        let removed = self.maps.write().remove(iova, iova.saturating_add(size))?;
        Ok(self.forget(removed))
    }

    /// Removes every map.
    pub fn unmap_all(&self) -> Unmapped {
        let removed = std::mem::take(&mut self.maps.write().sorted);
        self.forget(removed)
    }

    fn forget(&self, removed: Vec<Map>) -> Unmapped {
        if !removed.is_empty() {
            self.generation.fetch_add(1, AcqRel);
        }
        Unmapped(removed)
    }

    /// Sets PCI's bus master enable: while it is off, every access faults. When this returns after turning it off, no
    /// access is going on.
    pub fn set_bus_master(&self, on: bool) {
        self.maps.write().bus_master = on;
    }

    /// A number that changes whenever something was unmapped: addresses checked before may be gone.
    pub fn generation(&self) -> u64 {
        self.generation.load(Acquire)
    }

    /// Returns where there is memory, ascending: one range of bus addresses for each map.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let maps = self.maps.read_recursive();
        maps.sorted.iter().map(|map| map.iova..map.end()).collect()
    }

    /// Returns access to the bytes; a thread may hold several views of one space.
    pub fn view(&self) -> View<'_> {
        // Recursive, because a copy inside one guest takes two views in one thread, and a waiting
        // writer between them would block the second forever.
        View::new(self.maps.read_recursive())
    }

    /// The log of written pages.
    pub fn dirty_log(&self) -> DirtyLog<'_> {
        DirtyLog::new(self)
    }

    pub(crate) fn set_logging(&self, on: bool) {
        let mut maps = self.maps.write();
        maps.logging = on;
        for map in &mut maps.sorted {
            map.dirty = on.then(|| Bitmap::new(map.pages()));
        }
    }
}

fn check_shape(iova: u64, size: u64, may: Protection, offset: u64) -> Result<(), MapError> {
    if size == 0 {
        Err(MapError::Empty)
    } else if !(iova | size | offset).is_multiple_of(PAGE) {
        Err(MapError::Unaligned)
    } else if iova.checked_add(size).is_none() || offset.checked_add(size).is_none() {
        Err(MapError::Wraps)
    } else if !may.read && !may.write {
        Err(MapError::NoAccess)
    } else {
        Ok(())
    }
}

impl Maps {
    /// Index of the first map that ends behind `bus`.
    pub(crate) fn search(&self, bus: u64) -> usize {
        self.sorted.partition_point(|map| map.end() <= bus)
    }

    /// Returns where a map of `size` bytes at `iova` belongs.
    fn room(&self, iova: u64, size: u64) -> Result<usize, MapError> {
        let index = self.search(iova);
        if let Some(next) = self
            .sorted
            .get(index)
            .filter(|next| next.iova < iova + size)
        {
            return Err(MapError::Overlaps { iova: next.iova });
        }
        if self.sorted.len() >= MAX_MAPS {
            return Err(MapError::TooMany);
        }
        let mapped: u64 = self.sorted.iter().map(|map| map.size).sum();
        if size > MAX_BYTES - mapped {
            return Err(MapError::TooLarge);
        }
        Ok(index)
    }

    fn insert(&mut self, mut map: Map) -> Result<(), MapError> {
        let index = self.room(map.iova, map.size)?;
        map.dirty = self.logging.then(|| Bitmap::new(map.pages()));
        self.sorted.insert(index, map);
        Ok(())
    }

    fn remove(&mut self, start: u64, end: u64) -> Result<Vec<Map>, UnmapError> {
        let first = self.search(start);
        let last = self.sorted.partition_point(|map| map.iova < end).max(first);
        let inside = &self.sorted[first..last];
        let split = inside
            .iter()
            .find(|map| map.iova < start || map.end() > end);
        if let Some(map) = split {
            return Err(UnmapError::Splits { iova: map.iova });
        }
        Ok(self.sorted.drain(first..last).collect())
    }
}
