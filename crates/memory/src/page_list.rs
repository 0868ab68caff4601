//! Page lists: the pages that a driver's page directory named when it was read.
//!
//! ```text
//!   directory page ──► 512 tables ──► 512 data pages each
//!   page i: directory entry (i >> 9) & 0x1ff, table entry i & 0x1ff
//! ```
//!
//! A directory is walked once, in pieces if it is long, into a private list; the guest may change it afterwards without
//! effect. A list says where pages were, not that they still are there: every access through it is checked against the
//! current maps. Pages may repeat.

use std::fmt;

use crate::{PAGE, Right, View};

#[cfg(test)]
mod tests;

/// Entries in one directory or table page.
const ENTRIES: usize = 512;

/// Bytes of an entry, which is a bus address.
const ENTRY_BYTES: usize = 8;

/// Pages that one directory can name (1 GiB): bounds a list to 2 MiB.
pub const MAX_PAGES: u32 = (ENTRIES * ENTRIES) as u32;

/// Most pages looked at in a search for adjacent ones: 2 MiB, far more than makes copies faster, and a bound on
/// repeated searches when maps are scattered.
const MAX_RUN: usize = 512;

/// The level of the walk that an entry belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The directory page itself.
    Directory,
    /// A table page.
    Table,
    /// A data page.
    Page,
}

/// What is wrong with an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageFlaw {
    /// The address is zero, the mark of an unused entry.
    Zero,
    /// Some of the low 12 bits are set.
    Unaligned,
    /// The page is not mapped, or not with the right that is needed.
    Unmapped,
}

/// Why a page directory was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// The number of pages is zero, or more than [`MAX_PAGES`].
    #[error("a page directory names 1 to {MAX_PAGES} pages, not {0}")]
    Count(u32),
    /// One address of the walk cannot be used.
    #[error("{level:?} {index} of a page directory is at {address:#x}: {flaw:?}")]
    Entry {
        /// What the address stands for.
        level: Level,
        /// Number of the entry at its level, from 0.
        index: u32,
        /// The address.
        address: u64,
        /// What is wrong with it.
        flaw: PageFlaw,
    },
}

/// Pages in the order of a registration, and the byte of the first page at which it begins.
pub struct PageList {
    /// Bus address of the directory.
    directory: u64,
    pages: Box<[u64]>,
    first_byte: u64,
}

impl fmt::Debug for PageList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PageList({} pages from byte {})",
            self.pages.len(),
            self.first_byte
        )
    }
}

impl PageList {
    /// Walks the directory at bus address `directory` for `count` pages, all of which must be mapped with `right` now.
    pub fn resolve(
        view: &View<'_>,
        directory: u64,
        count: u32,
        right: Right,
    ) -> Result<Self, PageError> {
        let mut walk = PageWalk::begin(view, directory, count, right)?;
        while !walk.go_on(view, ENTRIES)? {}
        Ok(walk.finish())
    }

    /// Makes the list of pages that the directory named when it was read before. All must be mapped with `right` now.
    pub fn listed(
        view: &View<'_>,
        directory: u64,
        pages: Vec<u64>,
        right: Right,
    ) -> Result<Self, PageError> {
        let count = u32::try_from(pages.len()).unwrap_or(u32::MAX);
        if !(1..=MAX_PAGES).contains(&count) {
            return Err(PageError::Count(count));
        }
        for (index, &page) in pages.iter().enumerate() {
            check_page(view, Level::Page, index, page, right)?;
        }
        Ok(Self {
            directory,
            pages: pages.into_boxed_slice(),
            first_byte: 0,
        })
    }

    /// Makes the region begin at this byte of the first page (a registration's start is rarely aligned). Only the low
    /// 12 bits count, so a virtual address will do.
    pub fn starting_at(self, address: u64) -> Self {
        Self {
            first_byte: address % PAGE,
            ..self
        }
    }

    /// Makes a list of no pages, whose bytes are nowhere.
    pub fn nowhere() -> Self {
        Self {
            directory: 0,
            pages: Box::default(),
            first_byte: 0,
        }
    }

    /// The bus address of the directory that it was read from.
    pub fn directory(&self) -> u64 {
        self.directory
    }

    /// The byte of the first page at which the region begins.
    pub fn first_byte(&self) -> u64 {
        self.first_byte
    }

    /// Number of pages.
    pub fn count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Bytes from the first byte of the region to the end of the last page.
    pub fn length(&self) -> u64 {
        self.pages.len() as u64 * PAGE - self.first_byte
    }

    /// Bus addresses of all pages.
    pub fn pages(&self) -> &[u64] {
        &self.pages
    }

    /// Bus address of page `index`.
    #[inline]
    pub fn page(&self, index: u32) -> Option<u64> {
        self.pages.get(index as usize).copied()
    }

    /// Bus address of the byte at `offset` of the region.
    pub fn bus(&self, offset: u64) -> Option<u64> {
        self.run(offset, 1).map(|(bus, _)| bus)
    }

    /// Returns the bus address of the byte at `offset`, and how many bytes from there, at most `length`, are adjacent
    /// on the bus.
    #[inline]
    pub(crate) fn run(&self, offset: u64, length: u64) -> Option<(u64, u64)> {
        let position = self.first_byte.checked_add(offset)?;
        let index = usize::try_from(position / PAGE).ok()?;
        let within = position % PAGE;
        let first = *self.pages.get(index)?;
        let run = match length <= PAGE - within {
            true => length,
            false => length.min(self.adjacent(index, length.saturating_add(within)) - within),
        };
        Some((first + within, run))
    }

    /// Returns how many bytes from the start of page `index` are adjacent on the bus: at least `wanted` if there are as
    /// many.
    fn adjacent(&self, index: usize, wanted: u64) -> u64 {
        let most = wanted.div_ceil(PAGE).min(MAX_RUN as u64) as usize;
        let pairs = self.pages[index..].windows(2).take(most - 1);
        let more = pairs
            .take_while(|pair| pair[0].wrapping_add(PAGE) == pair[1])
            .count();
        (more as u64 + 1) * PAGE
    }
}

/// A walk over a long page directory in pieces: 2^18 pages take a millisecond.
///
/// Entries stay as they were read; a page is looked up in the maps at the time when its table is read.
pub struct PageWalk {
    directory: u64,
    tables: Box<[u64]>,
    pages: Vec<u64>,
    count: usize,
    right: Right,
}

impl PageWalk {
    /// Reads the directory page at bus address `directory`, for `count` pages, all of which must be mapped with
    /// `right`.
    pub fn begin(
        view: &View<'_>,
        directory: u64,
        count: u32,
        right: Right,
    ) -> Result<Self, PageError> {
        if !(1..=MAX_PAGES).contains(&count) {
            return Err(PageError::Count(count));
        }
        let count = count as usize;
        let tables = Entries::read(
            view,
            Level::Directory,
            0,
            directory,
            count.div_ceil(ENTRIES),
        )?;
        Ok(Self {
            directory,
            tables: tables.iter().collect(),
            pages: Vec::with_capacity(count),
            count,
            right,
        })
    }

    /// Reads at most `tables` more tables, of up to 512 pages each. Returns true once all are read.
    pub fn go_on(&mut self, view: &View<'_>, tables: usize) -> Result<bool, PageError> {
        let first = self.pages.len().div_ceil(ENTRIES);
        let some = self.tables.iter().enumerate().skip(first).take(tables);
        for (index, &table) in some {
            let used = ENTRIES.min(self.count - self.pages.len());
            let entries = Entries::read(view, Level::Table, index, table, used)?;
            for page in entries.iter() {
                check_page(view, Level::Page, self.pages.len(), page, self.right)?;
                self.pages.push(page);
            }
        }
        Ok(self.pages.len() == self.count)
    }

    /// Returns the pages read so far: all of them, after [`go_on`](Self::go_on) has returned true.
    pub fn finish(self) -> PageList {
        PageList {
            directory: self.directory,
            pages: self.pages.into_boxed_slice(),
            first_byte: 0,
        }
    }
}

impl fmt::Debug for PageWalk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageWalk({} of {} pages)", self.pages.len(), self.count)
    }
}

fn check_page(
    view: &View<'_>,
    level: Level,
    index: usize,
    address: u64,
    right: Right,
) -> Result<(), PageError> {
    let flaw = if address == 0 {
        PageFlaw::Zero
    } else if !address.is_multiple_of(PAGE) {
        PageFlaw::Unaligned
    } else if view.check(address, PAGE, right).is_err() {
        PageFlaw::Unmapped
    } else {
        return Ok(());
    };
    Err(PageError::Entry {
        level,
        index: index as u32,
        address,
        flaw,
    })
}

/// A private copy of the first entries of a directory or table page. Most lists are short, and a driver has thousands
/// of them, each in pages of its own: copying the rest of such a page is not worth it.
struct Entries {
    bytes: [u8; PAGE as usize],
    used: usize,
}

impl Entries {
    /// Reads `used` entries, which are no more than a page has.
    fn read(
        view: &View<'_>,
        level: Level,
        index: usize,
        address: u64,
        used: usize,
    ) -> Result<Self, PageError> {
        check_page(view, level, index, address, Right::Read)?;
        let mut entries = Self {
            bytes: [0; PAGE as usize],
            used,
        };
        let read = view.read(address, &mut entries.bytes[..used * ENTRY_BYTES]);
        read.map_err(|_| PageError::Entry {
            level,
            index: index as u32,
            address,
            flaw: PageFlaw::Unmapped,
        })?;
        Ok(entries)
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        let (words, _) = self.bytes.as_chunks();
        words[..self.used].iter().copied().map(u64::from_le_bytes)
    }
}
