//! The section "ram": a list of blocks, then pages, zeros and the ends of its parts.
//!
//! ```text
//!   offset | flags ─ [name of the block, unless it is that of the page before] ─ [payload]
//! ```

use super::fault::text;
use super::header::Kind;
use super::mapped::{FilePart, MappedFile, OFFSETS_BYTES};
use super::{Block, Fault, PAGE_BYTES, Page, Sink, State};

// Flags of a page (migration/ram.c); the offset is in the bits above.
const ZERO: u64 = 0x02;
const LIST: u64 = 0x04;
pub(super) const PAYLOAD: u64 = 0x08;
const END: u64 = 0x10;
const SAME_BLOCK: u64 = 0x20;
const DELTA: u64 = 0x40;
const FLAGS: u64 = PAGE_BYTES - 1;

/// `ENCODING_FLAG_XBZRLE`.
const DELTA_ENCODING: u8 = 1;

/// Bytes of a page's header without what depends on its flags.
const PLAIN_BYTES: usize = 8;

/// A block as the stream names it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum NamedBlock {
    /// A block that is placed, by its index.
    Ours(usize),
    /// Another block, by its name.
    Other(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Memory {
    placed: Vec<Block>,
    /// The block of the previous page.
    current: Option<NamedBlock>,
    /// Bytes of blocks that are still to be listed.
    unlisted: u64,
    is_post_copy: bool,
    /// The places of pages, if the stream is written into a file.
    file: Option<MappedFile>,
}

impl Memory {
    pub(super) fn new(placed: Vec<Block>) -> Self {
        Self {
            placed,
            current: None,
            unlisted: 0,
            is_post_copy: false,
            file: None,
        }
    }

    pub(super) fn of_file(placed: Vec<Block>) -> Self {
        Self {
            file: Some(MappedFile::default()),
            ..Self::new(placed)
        }
    }

    /// Tells what is at an offset of the file.
    pub(super) fn part_at(&self, at: u64, bytes: usize) -> Result<FilePart, Fault> {
        let file = self.file.as_ref();
        file.map_or(Ok(FilePart::Rest), |file| file.part_at(at, bytes))
    }

    /// Takes pages that were written at a block's place in the file.
    pub(super) fn write(
        &mut self,
        block: usize,
        offset: u64,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(), Fault> {
        let file = self.file.as_mut();
        file.map_or(Ok(()), |file| file.write(block, offset, bytes, sink))
    }

    /// Checks a part of a block's bitmap.
    pub(super) fn check_bitmap(
        &self,
        block: usize,
        byte: usize,
        bytes: &[u8],
    ) -> Result<(), Fault> {
        let file = self.file.as_ref();
        file.map_or(Ok(()), |file| file.check_bitmap(block, byte, bytes))
    }

    /// Notes that post-copy is announced, which makes the list of blocks longer.
    pub(super) fn expect_post_copy(&mut self) {
        self.is_post_copy = true;
    }

    pub(super) fn page_header_bytes(held: &[u8]) -> Result<usize, Fault> {
        let Some(word) = held.first_chunk().map(|word| u64::from_be_bytes(*word)) else {
            return Ok(PLAIN_BYTES);
        };
        let flags = word & FLAGS;
        let behind = match flags & !SAME_BLOCK {
            LIST | END if flags & SAME_BLOCK == 0 => return Ok(PLAIN_BYTES),
            ZERO => 1,
            PAYLOAD => 0,
            DELTA => 3,
            _ => return Err(Fault::PageFlags(flags)),
        };
        let name = match (flags & SAME_BLOCK, held.get(PLAIN_BYTES)) {
            (0, Some(length)) => 1 + usize::from(*length),
            (0, None) => return Ok(PLAIN_BYTES + 1),
            _ => 0,
        };
        Ok(PLAIN_BYTES + name + behind)
    }

    pub(super) fn page(
        &mut self,
        held: &[u8],
        is_last: bool,
        sink: &mut impl Sink,
    ) -> Result<State, Fault> {
        let word = held.first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
        let (offset, flags) = (word & !FLAGS, word & FLAGS);
        match flags {
            END => {
                if let Some(file) = &mut self.file {
                    file.end_part(sink);
                }
                sink.forward(held);
                return Ok(match is_last {
                    true => State::Through,
                    false => State::At(Kind::Section),
                });
            }
            LIST => {
                sink.forward(held);
                self.unlisted = offset;
                return Ok(self.next_block());
            }
            _ => {}
        }
        let behind = self.find(flags, held)?;
        let left = payload(flags, behind)?;
        let is_ours = self.place(offset, flags, behind, sink)?;
        if !is_ours {
            self.forward(word, behind, sink);
        }
        Ok(State::pass(left, !is_ours, Kind::Page))
    }

    /// Notes the page's block and returns the bytes behind its name.
    fn find<'a>(&mut self, flags: u64, held: &'a [u8]) -> Result<&'a [u8], Fault> {
        let rest = held.get(PLAIN_BYTES..).unwrap_or_default();
        if flags & SAME_BLOCK != 0 {
            return match self.current {
                Some(_) => Ok(rest),
                None => Err(Fault::NoBlock),
            };
        }
        let (name, behind) = named(rest);
        self.current = Some(match self.index(name) {
            Some(index) => NamedBlock::Ours(index),
            None => NamedBlock::Other(name.to_vec()),
        });
        Ok(behind)
    }

    fn index(&self, name: &[u8]) -> Option<usize> {
        self.placed.iter().position(|block| block.name == name)
    }

    /// Places the page if it is of a placed block; whether it thereby leaves the stream.
    fn place(
        &self,
        offset: u64,
        flags: u64,
        behind: &[u8],
        sink: &mut impl Sink,
    ) -> Result<bool, Fault> {
        let Some(NamedBlock::Ours(index)) = self.current else {
            return Ok(false);
        };
        let Some(block) = self.placed.get(index) else {
            return Err(Fault::NoBlock);
        };
        if offset
            .checked_add(PAGE_BYTES)
            .is_none_or(|end| end > block.bytes)
        {
            return Err(Fault::OutOfBlock {
                block: text(&block.name),
                offset,
            });
        }
        let is_zero = flags & ZERO != 0;
        match behind.first() {
            Some(&fill) if is_zero && fill != 0 => return Err(Fault::Fill(fill)),
            _ => {}
        }
        sink.page(Page {
            block: index,
            offset,
            is_zero,
        });
        Ok(true)
    }

    /// Forwards a page. It names its block, since the page before it may have left the stream.
    fn forward(&self, word: u64, behind: &[u8], sink: &mut impl Sink) {
        let Some(NamedBlock::Other(name)) = &self.current else {
            return;
        };
        sink.forward(&(word & !SAME_BLOCK).to_be_bytes());
        sink.forward(&[name.len() as u8]);
        sink.forward(name);
        sink.forward(behind);
    }

    pub(super) fn block_header_bytes(&self, held: &[u8]) -> usize {
        let Some(length) = held.first() else {
            return 1;
        };
        let (name, _) = named(held);
        let whole = name.len() == usize::from(*length);
        // Post-copy adds the page size of blocks with larger pages.
        let is_large = |index: usize| self.placed[index].page_bytes != PAGE_BYTES;
        let has_size = self.is_post_copy && whole && self.index(name).is_some_and(is_large);
        let size = if has_size { 8 } else { 0 };
        let offsets = self.file.as_ref().map_or(0, |_| OFFSETS_BYTES);
        1 + usize::from(*length) + 8 + size + offsets
    }

    pub(super) fn block(&mut self, held: &[u8], sink: &mut impl Sink) -> Result<State, Fault> {
        let (name, behind) = named(held);
        let bytes = behind.first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
        if let Some(block) = self.index(name).and_then(|index| self.placed.get(index))
            && block.bytes != bytes
        {
            return Err(Fault::BlockLength {
                block: text(name),
                bytes,
                expected: block.bytes,
            });
        }
        self.unlisted = self.unlisted.checked_sub(bytes).ok_or(Fault::Blocks)?;
        if bytes == 0 {
            return Err(Fault::Blocks);
        }
        let mut kept = held;
        let placed = self.index(name);
        if let Some(file) = &mut self.file {
            let (ahead, offsets) = held.split_at(held.len().saturating_sub(OFFSETS_BYTES));
            file.add(name, placed, bytes, offsets)?;
            kept = ahead;
        }
        sink.forward(kept);
        Ok(self.next_block())
    }

    fn next_block(&self) -> State {
        State::At(match self.unlisted {
            0 => Kind::Page,
            _ => Kind::Block,
        })
    }
}

/// Splits bytes into a name, behind its length, and the rest.
fn named(held: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = held.split_first().unwrap_or((&0, &[]));
    rest.split_at(rest.len().min(usize::from(*length)))
}

/// Bytes of payload behind a page's header.
fn payload(flags: u64, behind: &[u8]) -> Result<u64, Fault> {
    match flags & !SAME_BLOCK {
        PAYLOAD => Ok(PAGE_BYTES),
        DELTA => {
            let [encoding, high, low] = *behind.first_chunk().unwrap_or(&[0; 3]);
            let bytes = u16::from_be_bytes([high, low]);
            let is_known = encoding == DELTA_ENCODING && u64::from(bytes) <= PAGE_BYTES;
            match is_known {
                true => Ok(bytes.into()),
                false => Err(Fault::Encoded(bytes.into())),
            }
        }
        _ => Ok(0),
    }
}
