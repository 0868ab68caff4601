//! Page lists: what a driver's page directory said when it was read.
//!
//! ```text
//!   directory page ──► 512 tables ──► 512 data pages each
//!   page i: directory entry (i >> 9) & 0x1ff, table entry i & 0x1ff
//! ```
//!
//! A directory is walked once, in pieces if it is long, into a private list; the guest may change it
//! afterwards without effect. A list says where pages were, not that they still are: every access through it is
//! checked against the maps of the day. Pages may repeat.

use std::fmt;

use crate::{PAGE, Right, View};

#[cfg(test)]
mod tests;

/// Entries in one directory or table page.
const ENTRIES: usize = 512;

/// Each is a bus address.
const ENTRY_BYTES: usize = 8;

/// Pages that one directory can name (1 GiB): bounds a list to 2 MiB.
pub const MAX_PAGES: u32 = (ENTRIES * ENTRIES) as u32;

/// Pages looked at when searching for adjacent ones: 2 MiB, far beyond where longer copies become
/// faster, and a bound on what scattered maps can make us search again.
const MAX_RUN: usize = 512;

/// Which level of the walk an entry stands for.
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
    /// Zero, the mark of an unused entry.
    Zero,
    /// Low 12 bits set.
    Unaligned,
    /// Not mapped, or not with the right that is needed.
    Unmapped,
}

/// Why a page directory was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// No pages, or more than [`MAX_PAGES`].
    #[error("a page directory names 1 to {MAX_PAGES} pages, not {0}")]
    Count(u32),
    /// One address of the walk cannot be used.
    #[error("{level:?} {index} of a page directory is at {address:#x}: {flaw:?}")]
    Entry {
        /// What the address stands for.
        level: Level,
        /// Which of its level, from 0.
        index: u32,
        /// The address.
        address: u64,
        /// What is wrong with it.
        flaw: PageFlaw,
    },
}

/// Pages in the order of a registration, and where in the first one it begins.
pub struct PageList {
    /// Where it was read from.
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
    /// Walks the directory at bus address `directory` for `count` pages, all of which must be
    /// mapped with `right` now.
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

    /// The list of pages that the directory named when it was read before. All must be mapped with `right` now.
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

    /// Lets the region begin at this byte of the first page (a registration's start is rarely
    /// aligned). Only the low 12 bits count, so a virtual address will do.
    pub fn starting_at(self, address: u64) -> Self {
        Self {
            first_byte: address % PAGE,
            ..self
        }
    }

    /// A list of no pages, whose bytes are nowhere.
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

    /// How many pages.
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

    /// Bus address of the byte at `offset` and how many bytes from there, at most `length`, are
    /// adjacent on the bus.
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

    /// Bytes from the start of page `index`, at least `wanted` if there are as many, that are
    /// adjacent on the bus.
    fn adjacent(&self, index: usize, wanted: u64) -> u64 {
        let most = wanted.div_ceil(PAGE).min(MAX_RUN as u64) as usize;
        let pairs = self.pages[index..].windows(2).take(most - 1);
        let more = pairs
            .take_while(|pair| pair[0].wrapping_add(PAGE) == pair[1])
            .count();
        (more as u64 + 1) * PAGE
    }
}

/// A walk over a page directory in pieces, for those that are long: 2^18 pages take a millisecond.
///
/// What was read stays as it was read; a page is looked up in the maps of the time at which its table is
/// read.
pub struct PageWalk {
    directory: u64,
    tables: Box<[u64]>,
    pages: Vec<u64>,
    count: usize,
    right: Right,
}

impl PageWalk {
    /// Reads the directory page at bus address `directory`, for `count` pages which all must be mapped
    /// with `right`.
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

    /// Reads at most so many tables more, of up to 512 pages each; true once it has read all.
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

    /// The pages read so far: all, after [`go_on`](Self::go_on) has said so.
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

/// A private copy of the first entries of a directory or table page. Most lists are short, and a driver has thousands of
/// them, each in pages of its own: the rest of such a page is not worth the copy.
struct Entries {
    bytes: [u8; PAGE as usize],
    used: usize,
}

impl Entries {
    /// As many as `used` says, which is no more than a page has.
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
