//! Moving bytes: into private memory, out of it, and from guest to guest with one copy.

use std::sync::atomic::Ordering::Release;
use std::sync::atomic::fence;

use crate::cursor::Cursor;
use crate::map::Window;
use crate::partly::Part;
use crate::stores::{TAIL, move_bytes, move_non_temporal_tail_last, move_tail_last};
use crate::word;
use crate::{ClientRegion, CopyFault, Fault, Memory, PAGE, Region, Right, Spot, View};

/// Bytes of the word that an atomic changes.
const WORD: u64 = 8;

impl Memory for View<'_> {
    type Region = Region;

    // Most callers know the length, so that inlining turns the move into a few instructions.
    #[inline(always)]
    fn read(&self, region: &Region, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        match self.whole(region, offset, out.len() as u64, Right::Read) {
            Some(window) => read_piece(&window, out),
            None => self.read_pieces(region, offset, out),
        }
    }

    fn read_parts(
        &self,
        region: &Region,
        offset: u64,
        parts: &mut [&mut [u8]],
    ) -> Result<(), Fault> {
        if let Region::Client(client) = region {
            return client.read_parts(offset, parts);
        }
        let mut at = offset;
        for part in parts {
            Memory::read(self, region, at, part)?;
            at = at.checked_add(part.len() as u64).ok_or(Fault::Gone)?;
        }
        Ok(())
    }

    // Inlined like `read`.
    #[inline(always)]
    fn write(&self, region: &Region, offset: u64, data: &[u8]) -> Result<(), Fault> {
        match self.whole(region, offset, data.len() as u64, Right::Write) {
            Some(window) => write_piece(&window, data),
            None => self.write_pieces(region, offset, data),
        }
    }

    #[inline]
    fn copy(
        &self,
        to: Spot<'_, Region>,
        source: &Self,
        from: Spot<'_, Region>,
        length: u64,
    ) -> Result<(), CopyFault> {
        if self.overlaps(to, source, from, length) {
            return self.copy_overlapping(to.region, to.offset, from.offset, length);
        }
        let readable = source.whole(from.region, from.offset, length, Right::Read);
        let writable = self.whole(to.region, to.offset, length, Right::Write);
        match (readable, writable) {
            (Some(from), Some(to)) => copy_piece(&to, &from, length as usize),
            _ => self.copy_pieces(to, source, from, length),
        }
    }

    fn copy_non_temporal(
        &self,
        to: Spot<'_, Region>,
        source: &Self,
        from: Spot<'_, Region>,
        length: u64,
    ) -> Result<(), CopyFault> {
        let readable = source.whole(from.region, from.offset, length, Right::Read);
        let writable = self.whole(to.region, to.offset, length, Right::Write);
        match (readable, writable) {
            (Some(readable), Some(writable)) if !self.overlaps(to, source, from, length) => {
                copy_piece_non_temporal(&writable, &readable, length as usize)
            }
            _ => self.copy(to, source, from, length),
        }
    }

    fn is_filled_by_owner(&self, region: &Region) -> bool {
        matches!(region, Region::Client(client) if client.is_filled_by_owner())
    }

    fn fetch_update(
        &self,
        region: &Region,
        offset: u64,
        update: &dyn Fn(u64) -> u64,
    ) -> Result<u64, Fault> {
        match region {
            Region::Client(client) => client.update(offset, update),
            Region::File(file) => word::update_at(file.window(offset, WORD, Right::Write)?, update),
            Region::Partly(_) => {
                let Part { region, offset, .. } = region.part(offset, WORD);
                self.fetch_update(&region, offset, update)
            }
            region => {
                let (bus, _) = region.run(offset, 1).ok_or(Fault::Gone)?;
                self.update_u64(bus, update)
            }
        }
    }
}

/// Accesses that lie in one piece of host memory, as nearly all short ones do, are done at once. Others go piece by
/// piece; so do accesses that fault, which finds out how far they get.
impl View<'_> {
    /// Returns the window of an access that lies in one piece and is allowed.
    // Inlined like `read`: what it returns stays in registers.
    #[inline(always)]
    fn whole<'w>(
        &'w self,
        region: &'w Region,
        offset: u64,
        length: u64,
        right: Right,
    ) -> Option<Window<'w>> {
        let window = match region {
            Region::File(file) => file.window(offset, length, right).ok()?,
            Region::Partly(partly) => partly.window(offset, length, right).ok()?,
            region => {
                let (bus, _) = region
                    .run(offset, length)
                    .filter(|(_, run)| *run == length)?;
                self.window(bus, length, right).ok()?
            }
        };
        (window.length() as u64 == length).then_some(window)
    }

    fn read_pieces(&self, region: &Region, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        if let Region::Client(client) = region {
            return client.read_raw(offset, out.as_mut_ptr(), out.len());
        }
        if region.has_parts() {
            return self.read_from_parts(region, offset, out);
        }
        let mut source = Cursor::new(self, region, offset, out.len() as u64, Right::Read);
        let mut rest = out;
        while !rest.is_empty() {
            let window = source.window()?;
            let (piece, behind) = rest.split_at_mut(window.length().min(rest.len()));
            read_piece(&window, piece)?;
            source.advance(piece.len());
            rest = behind;
        }
        Ok(())
    }

    fn write_pieces(&self, region: &Region, offset: u64, data: &[u8]) -> Result<(), Fault> {
        if let Region::Client(client) = region {
            return client.write_raw(offset, data.as_ptr(), data.len());
        }
        if region.has_parts() {
            return self.write_to_parts(region, offset, data);
        }
        let mut to = Cursor::new(self, region, offset, data.len() as u64, Right::Write);
        let mut rest = data;
        while !rest.is_empty() {
            let window = to.window()?;
            let (piece, behind) = rest.split_at(step(window.length(), to.left()));
            write_piece(&window, piece)?;
            to.advance(piece.len());
            rest = behind;
        }
        Ok(())
    }

    fn copy_pieces(
        &self,
        to: Spot<'_, Region>,
        source: &Self,
        from: Spot<'_, Region>,
        length: u64,
    ) -> Result<(), CopyFault> {
        if to.region.has_parts() || from.region.has_parts() {
            return self.copy_parts(to, source, from, length);
        }
        match (to.region, from.region) {
            (Region::Client(client), Region::Client(other)) => {
                return client.copy_from(to.offset, other, from.offset, length);
            }
            (Region::Client(client), _) => {
                return to_client(client, to.offset, source, from, length);
            }
            (_, Region::Client(client)) => return self.fill_from(to, client, from.offset, length),
            _ => {}
        }
        let mut from = Cursor::new(source, from.region, from.offset, length, Right::Read);
        let mut to = Cursor::new(self, to.region, to.offset, length, Right::Write);
        while to.left() > 0 {
            let readable = from.window().map_err(CopyFault::source)?;
            let writable = to.window().map_err(CopyFault::destination)?;
            let count = step(readable.length().min(writable.length()), to.left());
            copy_piece(&writable, &readable, count)?;
            from.advance(count);
            to.advance(count);
        }
        Ok(())
    }
}

/// Copies between plain memory and a client's: the kernel copies straight between the two.
impl View<'_> {
    fn fill_from(
        &self,
        to: Spot<'_, Region>,
        client: &ClientRegion,
        mut offset: u64,
        length: u64,
    ) -> Result<(), CopyFault> {
        let mut to = Cursor::new(self, to.region, to.offset, length, Right::Write);
        while to.left() > 0 {
            let window = to.window().map_err(CopyFault::destination)?;
            let count = step(window.length(), to.left());
            fence(Release);
            let read = window.write_raw(count, |to| {
                let read = client.read_raw(offset, to, count);
                read.inspect_err(|_| touch(to, count))
            });
            read.map_err(CopyFault::destination)?
                .map_err(CopyFault::source)?;
            to.advance(count);
            offset = offset.saturating_add(count as u64);
        }
        Ok(())
    }
}

fn to_client(
    client: &ClientRegion,
    mut offset: u64,
    source: &View<'_>,
    from: Spot<'_, Region>,
    length: u64,
) -> Result<(), CopyFault> {
    let mut from = Cursor::new(source, from.region, from.offset, length, Right::Read);
    while from.left() > 0 {
        let window = from.window().map_err(CopyFault::source)?;
        let count = window.length();
        let written = window.read_raw(count, |from| {
            let written = client.write_raw(offset, from, count);
            written.inspect_err(|_| touch(from, count))
        });
        written
            .map_err(CopyFault::source)?
            .map_err(CopyFault::destination)?;
        from.advance(count);
        offset = offset.saturating_add(count as u64);
    }
    Ok(())
}

/// Reads every page of a stretch that is mapped here, after the kernel could not copy to or from it: if this side has
/// shrunk, it is now marked as lost, and the fault is not the other side's.
fn touch(start: *const u8, length: usize) {
    for at in (0..length)
        .step_by(PAGE as usize)
        .chain(length.checked_sub(1))
    {
        // SAFETY: callers have it from a window, which is good for reads of its length meanwhile.
        unsafe { start.add(at).read_volatile() };
    }
}

#[inline]
fn read_piece(from: &Window<'_>, out: &mut [u8]) -> Result<(), Fault> {
    from.read_raw(out.len(), |from| {
        // SAFETY: `read_raw` vouches for `from`; `out` is ours and as long.
        unsafe { move_bytes(from, out.as_mut_ptr(), out.len()) }
    })
}

#[inline]
fn write_piece(to: &Window<'_>, data: &[u8]) -> Result<(), Fault> {
    to.write_raw(data.len(), |to| {
        // SAFETY: `write_raw` vouches for `to`; `data` is ours and as long.
        unsafe { move_tail_last(data.as_ptr(), to, data.len()) }
    })
}

#[inline]
fn copy_piece(to: &Window<'_>, from: &Window<'_>, length: usize) -> Result<(), CopyFault> {
    // Memory that this process has never touched is in no cache of its cores, unless its owner has just used it.
    if to.populate(length) {
        return copy_piece_non_temporal(to, from, length);
    }
    let read = to.write_raw(length, |to| {
        // SAFETY: `write_raw` vouches for `to` and `read_raw` for `from`.
        from.read_raw(length, |from| unsafe { move_tail_last(from, to, length) })
    });
    read.map_err(CopyFault::destination)?
        .map_err(CopyFault::source)
}

/// The same as `copy_piece`, with non-temporal stores.
fn copy_piece_non_temporal(
    to: &Window<'_>,
    from: &Window<'_>,
    length: usize,
) -> Result<(), CopyFault> {
    let read = to.write_raw(length, |to| {
        // SAFETY: `write_raw` vouches for `to` and `read_raw` for `from`.
        from.read_raw(length, |from| unsafe {
            move_non_temporal_tail_last(from, to, length)
        })
    });
    read.map_err(CopyFault::destination)?
        .map_err(CopyFault::source)
}

impl View<'_> {
    /// Whether a copy reads bytes that it writes. Only considers one region of one space: other aliases (two
    /// registrations of one buffer, pages that repeat) are the guest's own doing, and what they receive is as
    /// unspecified as on an adapter.
    fn overlaps(
        &self,
        to: Spot<'_, Region>,
        source: &Self,
        from: Spot<'_, Region>,
        length: u64,
    ) -> bool {
        let shared = self.shares_space(source) && to.region.is(from.region);
        // A range that wraps makes the plain copy fault; its offsets must not be added.
        let wraps = to.offset.max(from.offset).checked_add(length).is_none();
        shared && !wraps && to.offset.abs_diff(from.offset) < length
    }

    /// Moves through a private page, backwards when the destination is ahead, so that no byte is overwritten before it
    /// was read.
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
            Memory::read(self, region, from + at, bytes).map_err(CopyFault::source)?;
            Memory::write(self, region, to + at, bytes).map_err(CopyFault::destination)?;
            done += count;
        }
        Ok(())
    }
}

/// Returns the bytes to move next: all that both sides have in one piece, but never the tail with the rest.
fn step(piece: usize, left: u64) -> usize {
    match left.checked_sub(TAIL) {
        Some(head) if head > 0 => (piece as u64).min(head) as usize,
        _ => piece.min(left as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::step;

    #[test]
    fn the_tail_of_a_write_goes_last_and_alone() {
        assert_eq!(step(5000, 5000), 4992);
        assert_eq!(step(100, 5000), 100);
        assert_eq!(step(8, 8), 8);
        assert_eq!(step(3, 8), 3);
        assert_eq!(step(9, 9), 1);
    }
}
