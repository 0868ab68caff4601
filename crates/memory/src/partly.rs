//! A registered stretch of a client's memory whose middle, in whole pages, is a file that we map: the client's library
//! has moved these pages into a file.
//!
//! ```text
//!   region   |··· client ···|======== file ========|·· client ··|
//!                           mapped.start           mapped.end
//! ```

use std::ops::Range;
use std::sync::Arc;

use crate::map::{Right, Window};
use crate::{ClientRegion, CopyFault, Fault, FileRegion, Memory, Region, Spot, View};

/// A registered stretch in two ways: by address and by file. One pointer: every unit on its way holds regions.
#[derive(Clone, Debug)]
pub struct PartlyMapped(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    /// The whole stretch, by its addresses.
    client: ClientRegion,
    /// The file; its offset 0 is the first byte that is mapped.
    file: FileRegion,
    /// Offsets in the region that are in the file.
    mapped: Range<u64>,
}

/// Adjacent bytes in one region that is reached in one way.
pub(crate) struct Part {
    pub(crate) region: Region,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl PartlyMapped {
    /// Makes a region of `client`, whose bytes at `mapped` are those of the file.
    #[must_use]
    pub fn new(client: ClientRegion, file: FileRegion, mapped: Range<u64>) -> Self {
        Self(Arc::new(Parts {
            client,
            file,
            mapped,
        }))
    }

    /// The whole stretch, by its addresses.
    #[must_use]
    pub fn client(&self) -> &ClientRegion {
        &self.0.client
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The window of the file, for an access that begins in it.
    #[inline]
    pub(crate) fn window(
        &self,
        offset: u64,
        length: u64,
        right: Right,
    ) -> Result<Window<'_>, Fault> {
        let Parts { file, mapped, .. } = &*self.0;
        let at = offset.checked_sub(mapped.start).ok_or(Fault::Gone)?;
        let left = mapped.end.checked_sub(offset).ok_or(Fault::Gone)?;
        if left == 0 {
            return Err(Fault::Gone);
        }
        file.window(at, length.min(left), right)
    }

    /// Returns the part that has the byte at `offset`, up to `length` bytes of it.
    pub(crate) fn part(&self, offset: u64, length: u64) -> Part {
        let Parts {
            client,
            file,
            mapped,
        } = &*self.0;
        let up_to = |end: u64| length.min(end - offset);
        let by_address = |length| Part {
            region: Region::Client(client.clone()),
            offset,
            length,
        };
        if offset < mapped.start {
            by_address(up_to(mapped.start))
        } else if offset >= mapped.end {
            by_address(length)
        } else {
            Part {
                region: Region::File(file.clone()),
                offset: offset - mapped.start,
                length: up_to(mapped.end),
            }
        }
    }
}

/// Accesses to regions of several parts, one part after the other.
impl View<'_> {
    pub(crate) fn read_from_parts(
        &self,
        region: &Region,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Fault> {
        let (mut at, mut rest) = (offset, out);
        while !rest.is_empty() {
            let part = region.part(at, rest.len() as u64);
            let (piece, behind) = rest.split_at_mut(part.length as usize);
            Memory::read(self, &part.region, part.offset, piece)?;
            at = at.checked_add(part.length).ok_or(Fault::Gone)?;
            rest = behind;
        }
        Ok(())
    }

    pub(crate) fn write_to_parts(
        &self,
        region: &Region,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Fault> {
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() {
            let part = region.part(at, rest.len() as u64);
            let (piece, behind) = rest.split_at(part.length as usize);
            Memory::write(self, &part.region, part.offset, piece)?;
            at = at.checked_add(part.length).ok_or(Fault::Gone)?;
            rest = behind;
        }
        Ok(())
    }

    pub(crate) fn copy_parts(
        &self,
        to: Spot<'_, Region>,
        source: &Self,
        from: Spot<'_, Region>,
        length: u64,
    ) -> Result<(), CopyFault> {
        let mut done = 0;
        while done < length {
            let place = to
                .region
                .part(to.offset.saturating_add(done), length - done);
            let bytes = from
                .region
                .part(from.offset.saturating_add(done), place.length);
            let to = Spot::new(&place.region, place.offset);
            let from = Spot::new(&bytes.region, bytes.offset);
            Memory::copy(self, to, source, from, bytes.length)?;
            done += bytes.length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
