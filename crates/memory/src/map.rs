//! One DMA map, and the only functions that touch its bytes.

use crate::backing::Backing;
use crate::dirty::Bitmap;
use crate::mapping::Mapping;
use crate::{Fault, PAGE};

/// Accesses that the guest allows to a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Protection {
    /// The device may read.
    pub read: bool,
    /// The device may write.
    pub write: bool,
}

impl Protection {
    /// Read and write.
    pub const BOTH: Self = Self {
        read: true,
        write: true,
    };
    /// Read only.
    pub const READ: Self = Self {
        read: true,
        write: false,
    };

    /// Whether an access is allowed.
    #[inline]
    pub const fn allows(self, right: Right) -> bool {
        match right {
            Right::Read => self.read,
            Right::Write => self.write,
        }
    }
}

/// The right that an access needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// The right to read.
    Read,
    /// The right to write.
    Write,
}

/// A map of `size` bytes from bus address `iova`.
pub(crate) struct Map {
    pub(crate) iova: u64,
    pub(crate) size: u64,
    pub(crate) protection: Protection,
    pub(crate) mapping: Mapping,
    pub(crate) dirty: Option<Bitmap>,
    /// The file, if it is a guest's map.
    pub(crate) backing: Option<Backing>,
}

impl Map {
    /// First address behind the map; `Space::map` keeps it from wrapping.
    pub(crate) fn end(&self) -> u64 {
        self.iova + self.size
    }

    #[inline]
    pub(crate) fn contains(&self, bus: u64) -> bool {
        bus.wrapping_sub(self.iova) < self.size
    }

    pub(crate) fn pages(&self) -> usize {
        (self.size / PAGE) as usize
    }

    /// Returns the bytes from `bus`, which is inside, up to `length` or the end of the map.
    #[inline]
    pub(crate) fn window(&self, bus: u64, length: u64) -> Window<'_> {
        let at = bus - self.iova;
        let length = length.min(self.size - at) as usize;
        Window {
            map: self,
            at: at as usize,
            length,
        }
    }

    #[inline]
    fn intact(&self) -> Result<(), Fault> {
        if self.mapping.is_lost() {
            Err(Fault::Gone)
        } else {
            Ok(())
        }
    }
}

/// A stretch inside one map, with the right to it already checked.
#[derive(Clone, Copy)]
pub(crate) struct Window<'v> {
    map: &'v Map,
    at: usize,
    length: usize,
}

impl Window<'_> {
    #[inline]
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn allows(&self, right: Right) -> bool {
        self.map.protection.allows(right)
    }

    /// Whether the window is a naturally aligned word of eight bytes: maps begin on page borders.
    pub(crate) fn is_word(&self) -> bool {
        self.length == size_of::<u64>() && self.at.is_multiple_of(size_of::<u64>())
    }

    /// Leaves out the first `length` bytes.
    pub(crate) fn skip(&mut self, length: usize) {
        assert!(length <= self.length, "nobody skips more than was moved");
        self.at += length;
        self.length -= length;
    }

    /// Prepares a long access to `length` bytes. Returns whether this process touches some of them for the first time.
    #[inline]
    pub(crate) fn populate(&self, length: usize) -> bool {
        self.map.mapping.populate(self.at, length)
    }

    /// Calls `act` with the address of the first of `length` bytes, which are good for reads of any kind during the
    /// call. The bytes read count only if the answer is `Ok`.
    #[inline]
    pub(crate) fn read_raw<T>(
        &self,
        length: usize,
        act: impl FnOnce(*const u8) -> T,
    ) -> Result<T, Fault> {
        assert!(length <= self.length, "reads stay inside the window");
        self.map.mapping.populate(self.at, length);
        let answer = act(self.map.mapping.address(self.at));
        self.map.intact()?;
        Ok(answer)
    }

    /// Calls `act` with the address of the first of `length` bytes, which are good for writes of any kind during the
    /// call. All writes into a guest go through here, so that the dirty log misses none.
    ///
    /// Marking comes after the write: a log taken in between then shows the page again next time,
    /// while marking first would let the page be sent without the bytes and never again.
    #[inline]
    pub(crate) fn write_raw<T>(
        &self,
        length: usize,
        act: impl FnOnce(*mut u8) -> T,
    ) -> Result<T, Fault> {
        assert!(length <= self.length, "writes stay inside the window");
        assert!(
            self.map.protection.write,
            "windows for writing are made of writable maps"
        );
        self.map.mapping.populate(self.at, length);
        let answer = act(self.map.mapping.address(self.at));
        if let Some(dirty) = &self.map.dirty {
            dirty.mark(self.at, length);
        }
        self.map.intact()?;
        Ok(answer)
    }
}
