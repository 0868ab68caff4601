//! Errors in a stream.

/// Why a stream cannot be read further.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// It does not begin as a migration stream.
    #[error("what QEMU sends is no migration stream of version 3")]
    NotAStream,
    /// An unknown type of section.
    #[error("section type {0:#04x} is not known")]
    UnknownKind(u8),
    /// A section other than the memory that is sent while the VM runs.
    #[error(
        "the section \"{0}\" comes beside the memory, and where it ends is not known; use another --memory, or turn that off"
    )]
    UnknownSection(String),
    /// A device's state before the memory.
    #[error(
        "the state of \"{0}\" comes before the memory's end, and where it ends is not known; use another --memory"
    )]
    EarlyState(String),
    /// A part of a section that has not begun.
    #[error("a part of section {0} comes, which did not begin")]
    UnknownNumber(u32),
    /// The memory begins twice.
    #[error("the memory begins a second time")]
    TwoMemories,
    /// An unknown version of the memory's section.
    #[error("the memory is of version {0}, not 4")]
    MemoryVersion(u32),
    /// An unknown part of the configuration.
    #[error("the configuration has \"{0}\", which is not known")]
    UnknownDetail(String),
    /// A machine with another page size.
    #[error("its pages have 2^{0} bytes, not 4096")]
    PageBits(u32),
    /// A capability that changes the stream.
    #[error("the capability {0} does not go with memory that is placed; turn it off")]
    Capability(String),
    /// A page header with unknown flags.
    #[error(
        "a page comes with flags {0:#x}, which are not known; turn off what changes how QEMU sends memory (multifd, mapped-ram)"
    )]
    PageFlags(u64),
    /// A page that refers to the previous page's block, without one.
    #[error("the first page names no block")]
    NoBlock,
    /// A page that is not in its block.
    #[error("a page at {offset:#x} is not in the block \"{block}\"")]
    OutOfBlock {
        /// Its name.
        block: String,
        /// The page's offset in it.
        offset: u64,
    },
    /// A block of another length than was announced.
    #[error("the block \"{block}\" has {bytes} bytes in the stream and {expected} in QEMU")]
    BlockLength {
        /// Its name.
        block: String,
        /// Bytes in the stream.
        bytes: u64,
        /// Bytes that are mapped.
        expected: u64,
    },
    /// A placed page that is filled with one byte other than zero.
    #[error("a page is told to be all {0:#04x}")]
    Fill(u8),
    /// A page in an encoding of another length.
    #[error("a page comes in {0} bytes")]
    Encoded(usize),
    /// A list that is longer than any QEMU's.
    #[error("the configuration has a list of {0} capabilities")]
    Capabilities(u32),
    /// An unexpected place of a block in the file that QEMU writes.
    #[error(
        "where the block \"{0}\" is in the file is not as QEMU 9 to 11 have it; use another --memory"
    )]
    Offsets(String),
    /// Something other than whole pages at the place of pages.
    #[error("at {0:#x} of a block something is written that is not whole pages")]
    PartOfPage(u64),
    /// Too much memory that is not placed.
    #[error("too much memory that is not shared is written at once; use another --memory")]
    OtherPages,
    /// Pages that became zeros and were left out, while the destination has their old contents.
    #[error("pages of the block \"{0}\" were left out; set zero-page-detection to none")]
    LeftOut(String),
    /// Post-copy: memory that follows the VM cannot be written into a file.
    #[error("post-copy is announced in a file")]
    PostCopyOfFile,
    /// A list of blocks that does not add up.
    #[error("the list of blocks does not add up to the memory's bytes")]
    Blocks,
}

impl Fault {
    pub(super) fn unknown_section(name: &[u8]) -> Self {
        Self::UnknownSection(text(name))
    }
}

/// A name for people; a hostile one cannot affect a terminal.
pub(super) fn text(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}
