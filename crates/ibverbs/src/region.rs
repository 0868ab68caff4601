//! Registered memory as this process knows it: which bytes a key names, and whether they are there.

use std::collections::BTreeMap;

use parking_lot::RwLock;
use vrdma_provider::client::Enclosed;

use crate::errno::{Errno, Result};

/// Registered memory by lkey.
pub(crate) type Regions = RwLock<BTreeMap<u32, Region>>;

/// A registered region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// First byte in this process.
    pub(crate) address: u64,
    pub(crate) length: u64,
    /// Address of the first byte in work requests.
    pub(crate) iova: u64,
    pub(crate) pd: u32,
    /// Whether work requests may write it.
    pub(crate) is_writable: bool,
}

impl Region {
    /// Returns the address in this process of a range that a work request names, if all of it is in the region.
    pub(crate) fn locate(&self, addr: u64, length: u32) -> Option<u64> {
        let offset = addr.checked_sub(self.iova)?;
        let end = offset.checked_add(length.into())?;
        (end <= self.length).then(|| self.address.wrapping_add(offset))
    }
}

/// Puts a message that came with a completion in place. A region that is not registered any more is left alone: the
/// daemon has filled it before. Registered memory is taken to be there, as for posted requests; none of it goes away
/// during the write, since its key is taken out of `regions` first.
pub(crate) fn put_in_place(regions: &Regions, message: &Enclosed<'_>) {
    let regions = regions.read();
    let place = |lkey, addr, length| regions.get(&lkey)?.locate(addr, length);
    if !message.claim() {
        return;
    }
    for piece in message.pieces() {
        let buffer = piece.buffer;
        if let Some(address) = place(buffer.lkey, buffer.addr, buffer.length) {
            // SAFETY: registered memory of the program, which the daemon has found writable, for as many bytes.
            unsafe { piece.put(address as *mut u8) };
        }
    }
}

/// Makes all pages of the range present, and writable if `write`, as an adapter's driver does by pinning it; fails if
/// it is not so mapped. Touches no contents.
pub(crate) fn populate(address: u64, length: u64, write: bool) -> Result<()> {
    let page = page_size();
    let start = address & !(page - 1);
    let end = address
        .checked_add(length)
        .and_then(|end| end.checked_next_multiple_of(page));
    let bytes = end.ok_or(Errno(libc::EFAULT))? - start;
    let advice = if write {
        libc::MADV_POPULATE_WRITE
    } else {
        libc::MADV_POPULATE_READ
    };
    // SAFETY: faults pages in, which any access would; changes no contents. The kernel checks the range.
    if unsafe { libc::madvise(start as *mut _, bytes as usize, advice) } == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error().raw_os_error() {
        // The kernel is older than 5.14, or it is memory of a device: the list of mappings tells.
        Some(libc::EINVAL) => mapped(start, start + bytes, write),
        _ => Err(Errno(libc::EFAULT)),
    }
}

pub(crate) fn page_size() -> u64 {
    // SAFETY: reads a constant of the system.
    (unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) as u64
}

fn mapped(start: u64, end: u64, write: bool) -> Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    if covered(&maps, start, end, write) {
        Ok(())
    } else {
        Err(Errno(libc::EFAULT))
    }
}

/// Whether mappings (lines of `/proc/self/maps`, ascending) cover the range without a hole.
fn covered(maps: &str, start: u64, end: u64, write: bool) -> bool {
    let mut reached = start;
    for line in maps.lines() {
        let Some((from, to, writable)) = mapping(line) else {
            return false;
        };
        if from <= reached && reached < to && (writable || !write) {
            reached = to;
        }
    }
    reached >= end
}

/// Parses a line: first byte, end, whether it is writable.
fn mapping(line: &str) -> Option<(u64, u64, bool)> {
    let (range, rest) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((
        number(from)?,
        number(to)?,
        rest.as_bytes().get(1) == Some(&b'w'),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_located_only_when_all_of_it_is_inside() {
        let region = Region {
            address: 0x7000,
            length: 16,
            iova: 0x10,
            pd: 0,
            is_writable: true,
        };
        assert_eq!(region.locate(0x10, 16), Some(0x7000));
        assert_eq!(region.locate(0x1f, 1), Some(0x700f));
        assert_eq!(region.locate(0x1f, 2), None);
        assert_eq!(region.locate(0xf, 1), None);
        assert_eq!(region.locate(u64::MAX, u32::MAX), None);
    }

    #[test]
    fn read_only_memory_is_not_registered_for_writing() {
        let text = std::hint::black_box("read-only data of the program");
        let address = text.as_ptr() as u64;
        assert!(populate(address, 8, false).is_ok());
        assert_eq!(populate(address, 8, true), Err(Errno(libc::EFAULT)));
        assert_eq!(populate(0x1000, 8, false), Err(Errno(libc::EFAULT)));
        assert_eq!(populate(u64::MAX - 8, 16, false), Err(Errno(libc::EFAULT)));
    }

    #[test]
    fn a_hole_or_a_read_only_part_is_seen_in_the_list_of_mappings() {
        let maps = "1000-2000 rw-p 0 0 0\n2000-3000 r--p 0 0 0\n4000-5000 rw-p 0 0 0\n";
        assert!(covered(maps, 0x1000, 0x3000, false));
        assert!(!covered(maps, 0x1000, 0x3000, true));
        assert!(covered(maps, 0x4000, 0x5000, true));
        assert!(!covered(maps, 0x2000, 0x5000, false));
    }
}
