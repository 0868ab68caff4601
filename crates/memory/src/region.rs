//! The memory that one registration names: the whole bus, a list of pages, or a client's memory.

use std::sync::Arc;

use crate::partly::Part;
use crate::{ClientRegion, FileRegion, PageList, PartlyMapped};

/// Backing of a memory region.
#[derive(Clone, Debug)]
pub enum Region {
    /// The bus itself; offsets are bus addresses (a DMA MR, which only kernels get).
    Bus,
    /// Pages in the order of the registration.
    Pages(Arc<PageList>),
    /// Memory of a client process.
    Client(ClientRegion),
    /// A file that a client has mapped.
    File(FileRegion),
    /// Memory of a client process whose middle is a file.
    Partly(PartlyMapped),
}

impl Region {
    /// Returns the bus address of the byte at `offset`, and how many bytes from there, at most `length`, are adjacent
    /// on the bus. `None` beyond the end, and for memory that is not on a bus.
    #[inline]
    pub(crate) fn run(&self, offset: u64, length: u64) -> Option<(u64, u64)> {
        match self {
            Self::Bus => Some((offset, length)),
            Self::Pages(list) => list.run(offset, length),
            Self::Client(_) | Self::File(_) | Self::Partly(_) => None,
        }
    }

    /// Whether equal offsets in both regions mean the same bytes.
    #[inline]
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bus, Self::Bus) => true,
            (Self::Pages(a), Self::Pages(b)) => Arc::ptr_eq(a, b),
            (Self::Client(a), Self::Client(b)) => a.is(b),
            (Self::File(a), Self::File(b)) => a.is(b),
            (Self::Partly(a), Self::Partly(b)) => a.is(b),
            _ => false,
        }
    }

    pub(crate) fn has_parts(&self) -> bool {
        matches!(self, Self::Partly(_))
    }

    /// Returns the part that has the byte at `offset` and up to `length` bytes from there, all reached in one way:
    /// mostly the region itself.
    pub(crate) fn part(&self, offset: u64, length: u64) -> Part {
        match self {
            Self::Partly(partly) => partly.part(offset, length),
            region => Part {
                region: region.clone(),
                offset,
                length,
            },
        }
    }
}
