//! A stream that QEMU writes into a file (`mapped-ram`): the places of each block's pages in it.
//!
//! ```text
//!   ... │ name, length │ offsets ║ bitmap ░░ pages of the block ░░░░░░ ║ name, length │ offsets ║ ... ║ all else
//!                                    `── QEMU writes them again and again, at these places ──'
//! ```
//!
//! Pages of blocks that are placed are read from the guest's memory, not here. Those of other blocks (firmware, video
//! memory) are kept until a part of the memory ends, and put into it like the pages of a stream without a file. The
//! bitmap comes last and marks the pages that are in the file: a page that was written and is not marked was left out
//! later, since it had become zeros.

use std::collections::BTreeMap;
use std::ops::Range;

use super::fault::text;
use super::memory::PAYLOAD;
use super::{Fault, PAGE_BYTES, Page, Sink};

/// `MappedRamHeader`: version, bytes of a page, offset of the bitmap, offset of the pages.
pub(super) const OFFSETS_BYTES: usize = 28;

/// `MAPPED_RAM_HDR_VERSION`.
const VERSION: u32 = 1;

/// Most blocks of a guest: its memory, firmware, tables, and video memory of some cards.
const BLOCKS_MAX: usize = 1024;

/// Most bytes of other blocks' pages that wait for the end of a part, which QEMU makes each 50 ms.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// What is at an offset of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FilePart {
    Pages {
        block: usize,
        offset: u64,
    },
    Bitmap {
        block: usize,
        byte: usize,
    },
    /// Bytes of the stream.
    Rest,
}

/// A block in the file.
#[derive(Debug)]
struct FileBlock {
    name: Vec<u8>,
    /// Its index among the placed blocks, if it is placed.
    placed: Option<usize>,
    /// From the bitmap up to the pages.
    bitmap: Range<u64>,
    pages: Range<u64>,
    /// A bit for each page that was placed, as in the bitmap.
    written: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct MappedFile {
    blocks: Vec<FileBlock>,
    /// Pages of other blocks, by block and offset.
    kept: BTreeMap<(usize, u64), Vec<u8>>,
}

impl MappedFile {
    /// Adds a block, of which the stream has just told the offsets.
    pub(super) fn add(
        &mut self,
        name: &[u8],
        placed: Option<usize>,
        bytes: u64,
        offsets: &[u8],
    ) -> Result<(), Fault> {
        let fault = || Fault::Offsets(text(name));
        let version = offsets.first_chunk().map(|it| u32::from_be_bytes(*it));
        let long = |at: usize| {
            let bytes = offsets.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map(|it| u64::from_be_bytes(*it)).ok_or_else(fault)
        };
        let (page_bytes, bitmap, pages) = (long(4)?, long(12)?, long(20)?);
        let reached = self.blocks.last().map_or(0, |block| block.pages.end);
        let end = pages.checked_add(bytes).ok_or_else(fault)?;
        let bitmap_bytes = bytes.div_ceil(PAGE_BYTES).div_ceil(8);
        let is_in_order = bitmap >= reached
            && bitmap
                .checked_add(bitmap_bytes)
                .is_some_and(|it| it <= pages);
        let is_known = version == Some(VERSION) && page_bytes == PAGE_BYTES;
        if !is_in_order || !is_known || self.blocks.len() == BLOCKS_MAX {
            return Err(fault());
        }
        let written = placed.map_or(0, |_| bitmap_bytes);
        self.blocks.push(FileBlock {
            name: name.to_vec(),
            placed,
            bitmap: bitmap..pages,
            pages: pages..end,
            written: vec![0; usize::try_from(written).map_err(|_| fault())?],
        });
        Ok(())
    }

    pub(super) fn part_at(&self, at: u64, bytes: usize) -> Result<FilePart, Fault> {
        let end = at.checked_add(bytes as u64);
        for (index, block) in self.blocks.iter().enumerate() {
            let (range, is_pages) = match at {
                at if block.pages.contains(&at) => (&block.pages, true),
                at if block.bitmap.contains(&at) => (&block.bitmap, false),
                _ => continue,
            };
            let offset = at - range.start;
            if end.is_none_or(|end| end > range.end) {
                return Err(Fault::OutOfBlock {
                    block: text(&block.name),
                    offset,
                });
            }
            return Ok(match is_pages {
                true => FilePart::Pages {
                    block: index,
                    offset,
                },
                false => FilePart::Bitmap {
                    block: index,
                    byte: usize::try_from(offset).unwrap_or(usize::MAX),
                },
            });
        }
        Ok(FilePart::Rest)
    }

    /// Takes pages that were written, of a block of this file.
    pub(super) fn write(
        &mut self,
        index: usize,
        offset: u64,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let page_bytes = PAGE_BYTES as usize;
        if !offset.is_multiple_of(PAGE_BYTES) || !bytes.len().is_multiple_of(page_bytes) {
            return Err(Fault::PartOfPage(offset));
        }
        let block = &mut self.blocks[index];
        for (page, bytes) in bytes.chunks(page_bytes).enumerate() {
            let offset = offset + page as u64 * PAGE_BYTES;
            match block.placed {
                Some(placed) => {
                    let number = (offset / PAGE_BYTES) as usize;
                    block.written[number / 8] |= 1 << (number % 8);
                    sink.page(Page {
                        block: placed,
                        offset,
                        is_zero: false,
                    });
                }
                None => {
                    self.kept.insert((index, offset), bytes.to_vec());
                }
            }
        }
        match self.kept.len() * page_bytes > KEPT_BYTES_MAX {
            true => Err(Fault::OtherPages),
            false => Ok(()),
        }
    }

    pub(super) fn check_bitmap(
        &self,
        index: usize,
        byte: usize,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let block = &self.blocks[index];
        let written = block.written.get(byte..).unwrap_or_default();
        let is_left_out = |(written, in_file): (&u8, &u8)| written & !in_file != 0;
        match written.iter().zip(bytes).any(is_left_out) {
            true => Err(Fault::LeftOut(text(&block.name))),
            false => Ok(()),
        }
    }

    /// Ends a part of the memory: pages that were kept are forwarded before its end.
    pub(super) fn end_part(&mut self, sink: &mut impl Sink) {
        for ((index, offset), bytes) in std::mem::take(&mut self.kept) {
            let name = &self.blocks[index].name;
            sink.forward(&(offset | PAYLOAD).to_be_bytes());
            sink.forward(&[name.len() as u8]);
            sink.forward(name);
            sink.forward(&bytes);
        }
    }
}
