//! QEMU's migration stream, as the source writes it: what is to be forwarded, and which pages are to be placed.
//!
//! ```text
//!   header ─ configuration ─ commands ─ "ram" begins ─ "ram" goes on ... ─ "ram" ends ─┐
//!                                │                                                     ├─► all else as it comes
//!                                └─ post-copy begins (discards, a package) ────────────┘
//! ```
//!
//! Pages of blocks that are placed leave the stream, header and payload; all else stays in it, so that the destination reads
//! a stream that happens to have few pages. Nothing is held but one header, so memory is bounded whatever comes. The format
//! is that of QEMU 4 to 11 (docs/devel/migration, observed at 11.1.3): one stream, with sections' footers or without.
//!
//! The source may write its stream into a file instead, where pages have places of their own (`mapped`): then all else is read
//! as the stream above.
//!
//! It does not know where pages are, how they get there, nor what a device's state means: no length tells where that ends,
//! so nothing behind the memory's end is looked at.

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
use mapped::Spot;
use memory::Memory;

/// A guest's block of memory that is placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// As QEMU calls it in the stream.
    pub name: Vec<u8>,
    /// Its length in bytes.
    pub bytes: u64,
    /// Bytes of the pages that it is made of on the host.
    pub page_bytes: u64,
}

/// A page of a placed block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Which of the blocks.
    pub block: usize,
    /// Where in it.
    pub offset: u64,
    /// Whether it is all zeros.
    pub is_zero: bool,
}

/// Bytes of a page in the stream.
pub const PAGE_BYTES: u64 = 4096;

/// Who gets what comes out, in its order.
pub trait Sink {
    /// For the destination's QEMU.
    fn forward(&mut self, bytes: &[u8]);
    /// To be placed.
    fn page(&mut self, page: Page);
}

/// What the stream has come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Post-copy was announced: the destination gives all its memory away when it reads that, which it must have done before
    /// anything is placed.
    Advised,
    /// Nothing is placed any more.
    Through,
}

/// What became of a piece of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fed {
    /// How much of it was taken: all, unless there is a mark.
    pub taken: usize,
    /// What is behind the bytes that were taken.
    pub mark: Option<Mark>,
}

/// Where reading is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// At a header, of which some bytes may be held.
    At(Kind),
    /// In bytes that have no meaning here.
    In {
        left: u64,
        is_forwarded: bool,
        then: Kind,
    },
    /// Behind the announcement of post-copy.
    Advised,
    /// Behind all that is looked at.
    Through,
}

/// Reads it.
#[derive(Debug)]
pub struct Stream {
    state: State,
    /// Of the header that is not complete.
    held: Vec<u8>,
    memory: Memory,
    capabilities: Capabilities,
    /// The memory's section, by its number.
    section: Option<u32>,
    /// Whether the part of the memory that is read is the last one.
    is_last: bool,
}

impl Stream {
    /// At its beginning, with the blocks that are placed.
    #[must_use]
    pub fn new(placed: Vec<Block>) -> Self {
        Self::of(Memory::new(placed), Capabilities::default())
    }

    /// The same of one that is written into a file (the capability `mapped-ram`), see [`Stream::write`].
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

    /// Whether all is forwarded from here.
    #[must_use]
    pub fn is_through(&self) -> bool {
        self.state == State::Through
    }

    /// Takes a piece, to its end or to the next mark.
    ///
    /// # Errors
    /// When it is none, or has what cannot be placed. It must not go on then.
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

    /// Takes what was written into the file at an offset. Bytes that are no page's go on from those before, wherever they are:
    /// QEMU skips the places of pages.
    ///
    /// # Errors
    /// As [`Stream::feed`].
    pub fn write(&mut self, at: u64, bytes: &[u8], sink: &mut impl Sink) -> Result<(), Fault> {
        match self.memory.spot(at, bytes.len())? {
            Spot::Pages { block, offset } => self.memory.write(block, offset, bytes, sink),
            Spot::Bitmap { block, byte } => self.memory.check_bitmap(block, byte, bytes),
            Spot::Rest => self.feed_all(bytes, sink),
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

    /// What was come to just now.
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
        // What is there may tell that there is more.
        if self.held.len() == self.wanted(kind)? {
            let held = std::mem::take(&mut self.held);
            self.state = self.complete(kind, &held, sink)?;
            if self.state == State::At(Kind::Section) && kind == Kind::Detail {
                // No detail, but the next section.
                self.held = held;
                return Ok(later);
            }
            self.held = held;
            self.held.clear();
        }
        Ok(later)
    }

    /// Bytes of a header, as far as those that are held tell.
    fn wanted(&self, kind: Kind) -> Result<usize, Fault> {
        match kind {
            Kind::Page => Memory::page_header_bytes(&self.held),
            Kind::Block => Ok(self.memory.block_header_bytes(&self.held)),
            _ => header::bytes(kind, &self.held),
        }
    }

    /// A header is there; what comes behind it.
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
                // Without a body it is of other things than memory.
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
    /// So many bytes, if any, and what comes behind them.
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
