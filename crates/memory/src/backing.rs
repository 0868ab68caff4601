//! The file behind a guest's map, which tells which of the map's pages are there.
//!
//! In post-copy the file has holes, and QEMU fills one when it is touched through QEMU's own mapping. Through our
//! mapping a hole reads as zeros, and a write puts a page into it, so that the page that was to arrive is refused.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::{PAGE, View};

/// A stretch of a file in memory. Nothing reads or writes through this descriptor, so its position is of no meaning.
pub(crate) struct Backing {
    pub(crate) file: OwnedFd,
    /// File offset of the map's first byte.
    pub(crate) offset: u64,
}

impl Backing {
    /// Whether the file has the page at byte `at` of the map, in memory or swapped out. Huge pages are always reported
    /// as there.
    fn has_page(&self, at: u64) -> bool {
        let page = (self.offset + at) / PAGE * PAGE;
        match seek(self.file.as_fd(), SeekFrom::Data(page)) {
            Ok(data) => data == page,
            // There is no data at or after the page.
            Err(Errno::NXIO) => false,
            // The file system cannot report holes, and is assumed to have none.
            Err(_) => true,
        }
    }
}

impl View<'_> {
    /// Whether the page at bus address `bus` is there: if not, nobody has written to it, or QEMU has still to fill it.
    /// A client's page is assumed to be there.
    pub fn has_page(&self, bus: u64) -> bool {
        let Some(map) = self.find(bus) else {
            return false;
        };
        let backing = map.backing.as_ref();
        backing.is_none_or(|backing| backing.has_page(bus - map.iova))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::{PAGE, Protection, SharedPages, Space};

    #[test]
    fn only_pages_that_were_touched_are_there() {
        let pages = SharedPages::new(8).unwrap();
        let file = pages.fd().try_clone_to_owned().unwrap();
        let space = Space::new();
        space
            .map(16 * PAGE, 6 * PAGE, Protection::BOTH, file, 2 * PAGE)
            .unwrap();
        let view = space.view();
        let there = || [15, 16, 17, 18, 21, 22].map(|page| view.has_page(page * PAGE + 1));
        assert_eq!(there(), [false; 6]);
        view.write(17 * PAGE + 100, &[1]).unwrap();
        view.write(21 * PAGE, &[1]).unwrap();
        assert_eq!(there(), [false, false, true, false, true, false]);
    }
}
