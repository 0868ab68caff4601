//! QEMU's migration stream, as the source writes it: tells what is to be forwarded, and which pages are to be placed.
//!
//! ```text
//!   header ─ configuration ─ commands ─ "ram" begins ─ "ram" goes on ... ─ "ram" ends ─┐
//!                                │                                                     ├─► all else as it comes
//!                                └─ post-copy begins (discards, a package) ────────────┘
//! ```
//!
//! Pages of blocks that are placed leave the stream, header and payload; all else stays in it, so that the destination
//! reads a stream that happens to have few pages. Only one header is held, so memory is bounded whatever comes. The
//! format is that of QEMU 4 to 11 (docs/devel/migration, observed at 11.1.3): one stream, with or without section
//! footers.
//!
//! The source may write its stream into a file instead, where each page has a fixed place (`mapped`): all else is then
//! read as the stream above.
//!
//! The reader does not know where pages are, how they get there, nor what a device's state means: no length tells where
//! a state ends, so nothing behind the memory's end is parsed.

mod capabilities;
mod fault;
mod header;
mod mapped;
mod memory;
#[cfg(test)]
mod tests;

pub use fault::Fault;

use capabilities::Capabilities;
use header::{Header, Kind};
use mapped::FilePart;
use memory::Memory;

/// A guest's block of memory that is placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its name in the stream.
    pub name: Vec<u8>,
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes of the host's pages that it consists of.
    pub page_bytes: u64,
}

/// A page of a placed block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Index of the block.
    pub block: usize,
    /// Offset in the block.
    pub offset: u64,
    /// Whether it is all zeros.
    pub is_zero: bool,
}

/// Bytes of a page in the stream.
pub const PAGE_BYTES: u64 = 4096;

/// Receives the outputs of the stream, in order.
pub trait Sink {
    /// Takes bytes for the destination's QEMU.
    fn forward(&mut self, bytes: &[u8]);
    /// Takes a page to be placed.
    fn page(&mut self, page: Page);
}

/// A point that the stream has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Post-copy was announced. The destination discards all its memory when it reads that, which must be done before
    /// anything is placed.
    Advised,
    /// No more pages are placed.
    Through,
}

/// The result of feeding a piece of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fed {
    /// Bytes that were taken: all, unless there is a mark.
    pub taken: usize,
    /// The mark behind the bytes that were taken.
    pub mark: Option<Mark>,
}

/// The position in the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// At a header, of which some bytes may be held.
    At(Kind),
    /// In bytes that are not parsed.
    In {
        left: u64,
        is_forwarded: bool,
        then: Kind,
    },
    /// Behind the announcement of post-copy.
    Advised,
    /// Behind all that is parsed.
    Through,
}

/// A reader of the stream.
#[derive(Debug)]
pub struct Stream {
    state: State,
    /// Bytes of the header that is not complete.
    held: Vec<u8>,
    memory: Memory,
    capabilities: Capabilities,
    /// The number of the memory's section.
    section: Option<u32>,
    /// Whether the part of the memory that is being read is the last one.
    is_last: bool,
}

impl Stream {
    /// A reader at the stream's beginning, with the blocks that are placed.
    #[must_use]
    pub fn new(placed: Vec<Block>) -> Self {
        Self::of(Memory::new(placed), Capabilities::default())
    }

    /// A reader of a stream that is written into a file (the capability `mapped-ram`), see [`Stream::write`].
    #[must_use]
    pub fn of_file(placed: Vec<Block>) -> Self {
        Self::of(Memory::of_file(placed), Capabilities::of_file())
    }

    fn of(memory: Memory, capabilities: Capabilities) -> Self {
        Self {
            state: State::At(Kind::Magic),
            held: Vec::new(),
            memory,
            capabilities,
            section: None,
            is_last: false,
        }
    }

    /// Whether everything from here on is forwarded.
    #[must_use]
    pub fn is_through(&self) -> bool {
        self.state == State::Through
    }

    /// Takes a piece, up to its end or to the next mark.
    ///
    /// # Errors
    /// When it is no such stream, or has what cannot be placed. The reader must not be used after that.
    pub fn feed(&mut self, piece: &[u8], sink: &mut impl Sink) -> Result<Fed, Fault> {
        let mut rest = piece;
        while !rest.is_empty() {
            let before = self.state;
            rest = match before {
                State::At(kind) => self.gather(kind, rest, sink)?,
                State::In {
                    left,
                    is_forwarded,
                    then,
                } => {
                    let (now, later) = rest.split_at(rest.len().min(clamp(left)));
                    if is_forwarded {
                        sink.forward(now);
                    }
                    self.state = State::pass(left - now.len() as u64, is_forwarded, then);
                    later
                }
                State::Advised => {
                    self.state = State::At(Kind::Section);
                    rest
                }
                State::Through => {
                    sink.forward(rest);
                    &[]
                }
            };
            if let Some(mark) = self.mark(before) {
                return Ok(Fed {
                    taken: piece.len() - rest.len(),
                    mark: Some(mark),
                });
            }
        }
        Ok(Fed {
            taken: piece.len(),
            mark: None,
        })
    }

    /// Takes bytes that were written into the file at an offset. Bytes that do not belong to a page continue the
    /// previous ones, at any offset: QEMU skips the places of pages.
    ///
    /// # Errors
    /// As [`Stream::feed`].
    pub fn write(&mut self, at: u64, bytes: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match self.memory.part_at(at, bytes.len())? {
            FilePart::Pages { block, offset } => self.memory.write(block, offset, bytes, sink),
            FilePart::Bitmap { block, byte } => self.memory.check_bitmap(block, byte, bytes),
            FilePart::Rest => self.feed_all(bytes, sink),
        }
    }

    fn feed_all(&mut self, mut rest: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        while !rest.is_empty() {
            let fed = self.feed(rest, sink)?;
            if fed.mark == Some(Mark::Advised) {
                return Err(Fault::PostCopyOfFile);
            }
            rest = &rest[fed.taken..];
        }
        Ok(())
    }

    /// The mark that was just reached.
    fn mark(&self, before: State) -> Option<Mark> {
        match self.state {
            State::Advised => Some(Mark::Advised),
            State::Through if before != State::Through => Some(Mark::Through),
            _ => None,
        }
    }

    fn gather<'a>(
        &mut self,
        kind: Kind,
        rest: &'a [u8],
        sink: &mut impl Sink,
    ) -> Result<&'a [u8], Fault> {
        let wanted = self.wanted(kind)?;
        let missing = wanted.saturating_sub(self.held.len());
        let (now, later) = rest.split_at(rest.len().min(missing));
        self.held.extend_from_slice(now);
        // The bytes held may tell that the header is longer.
        if self.held.len() == self.wanted(kind)? {
            let held = std::mem::take(&mut self.held);
            self.state = self.complete(kind, &held, sink)?;
            if self.state == State::At(Kind::Section) && kind == Kind::Detail {
                // This is no detail, but the next section.
                self.held = held;
                return Ok(later);
            }
            self.held = held;
            self.held.clear();
        }
        Ok(later)
    }

    /// Length of the header, as far as the bytes held tell.
    fn wanted(&self, kind: Kind) -> Result<usize, Fault> {
        match kind {
            Kind::Page => Memory::page_header_bytes(&self.held),
            Kind::Block => Ok(self.memory.block_header_bytes(&self.held)),
            _ => header::bytes(kind, &self.held),
        }
    }

    /// Handles a complete header and returns the state behind it.
    fn complete(&mut self, kind: Kind, held: &[u8], sink: &mut impl Sink) -> Result<State, Fault> {
        match kind {
            Kind::Page => return self.memory.page(held, self.is_last, sink),
            Kind::Block => return self.memory.block(held, sink),
            _ => {}
        }
        let header = Header::parse(kind, held)?;
        match header {
            Header::NoDetail => return Ok(State::At(Kind::Section)),
            Header::Capabilities { count } => return self.capabilities.begin(held, count, sink),
            Header::Capability { name, left } => return self.capabilities.name(name, left, sink),
            _ => {}
        }
        if header.is_end_of_ours() {
            sink.forward(held);
            return Ok(State::Through);
        }
        let next = self.after(header)?;
        sink.forward(held);
        Ok(next)
    }

    fn after(&mut self, header: Header<'_>) -> Result<State, Fault> {
        Ok(match header {
            Header::Beginning | Header::Footer => State::At(Kind::Section),
            Header::Configuration { bytes } | Header::Detail { bytes } => {
                State::pass(bytes, true, Kind::Detail)
            }
            Header::Command { bytes, is_advice } => {
                // Without a body, the announcement is about other things than memory.
                if is_advice && bytes > 0 {
                    self.memory.expect_post_copy();
                    State::At(Kind::Advice { bytes })
                } else {
                    State::pass(bytes.into(), true, Kind::Section)
                }
            }
            Header::Advice => State::Advised,
            Header::Begin { section, name } => {
                if name != b"ram" {
                    return Err(Fault::unknown_section(name));
                }
                if self.section.replace(section).is_some() {
                    return Err(Fault::TwoMemories);
                }
                self.is_last = false;
                State::At(Kind::Page)
            }
            Header::Part { section, is_last } => {
                if self.section != Some(section) {
                    return Err(Fault::UnknownNumber(section));
                }
                self.is_last = is_last;
                State::At(Kind::Page)
            }
            Header::NoDetail
            | Header::Capabilities { .. }
            | Header::Capability { .. }
            | Header::End
            | Header::PostCopy => State::Through,
        })
    }
}

impl State {
    /// The state for passing over bytes, if any, and then reading a header.
    fn pass(left: u64, is_forwarded: bool, then: Kind) -> Self {
        match left {
            0 => Self::At(then),
            left => Self::In {
                left,
                is_forwarded,
                then,
            },
        }
    }
}

fn clamp(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
