//! A registered stretch of a file that a client has mapped shared: we map it too.

use std::os::fd::AsFd;
use std::sync::Arc;

use crate::map::{Map, Protection, Right, Window};
use crate::mapping::{MapError, Mapping};
use crate::{Fault, PAGE};

/// Bytes of a file, reached as plain memory. One pointer: every unit on its way holds regions.
#[derive(Clone)]
pub struct FileRegion(Arc<Placed>);

struct Placed {
    map: Map,
    /// Where offset 0 is in the map.
    start: u64,
}

impl std::fmt::Debug for FileRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileRegion")
            .field("bytes", &self.0.map.size)
            .field("start", &self.0.start)
            .finish()
    }
}

impl FileRegion {
    /// Maps `length` bytes of `fd` from `offset`, both in whole pages; offset 0 of the region is `start` bytes into
    /// these. The file may be written only if `writable`.
    pub fn new(
        fd: impl AsFd,
        offset: u64,
        length: u64,
        start: u64,
        writable: bool,
    ) -> Result<Self, MapError> {
        if length == 0 {
            return Err(MapError::Empty);
        }
        if !(offset | length).is_multiple_of(PAGE) {
            return Err(MapError::Unaligned);
        }
        offset.checked_add(length).ok_or(MapError::Wraps)?;
        let protection = Protection {
            read: true,
            write: writable,
        };
        let mapping = Mapping::new(fd.as_fd(), offset, length, protection)?;
        let map = Map {
            iova: 0,
            size: length,
            protection,
            mapping,
            dirty: None,
            backing: None,
        };
        Ok(Self(Arc::new(Placed { map, start })))
    }

    /// Returns the `length` bytes from `start` on, which lie in this region, by the same mapping.
    pub fn part(&self, start: u64, length: u64) -> Result<Self, MapError> {
        let Placed { map, start: lead } = &*self.0;
        let from = lead.checked_add(start).ok_or(MapError::Wraps)?;
        let end = from.checked_add(length).ok_or(MapError::Wraps)?;
        if length == 0 {
            return Err(MapError::Empty);
        }
        if end > map.size {
            return Err(MapError::FileTooShort { length: map.size });
        }
        let map = Map {
            iova: 0,
            size: length,
            protection: map.protection,
            mapping: map.mapping.from(from as usize),
            dirty: None,
            backing: None,
        };
        Ok(Self(Arc::new(Placed { map, start: 0 })))
    }

    /// Whether nobody else has this region: then no copy reads or writes it any more.
    pub fn is_alone(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the bytes from `offset` up to `length` or the end of the map.
    #[inline]
    pub(crate) fn window(
        &self,
        offset: u64,
        length: u64,
        right: Right,
    ) -> Result<Window<'_>, Fault> {
        let Placed { map, start } = &*self.0;
        let at = start.checked_add(offset).ok_or(Fault::Gone)?;
        let usable = map.contains(at) && map.protection.allows(right) && !map.mapping.is_lost();
        usable.then(|| map.window(at, length)).ok_or(Fault::Gone)
    }
}
