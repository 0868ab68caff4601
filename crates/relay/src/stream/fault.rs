//! What in a stream is not as it must be.

/// Why a stream does not go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// It does not begin as one.
    #[error("what QEMU sends is no migration stream of version 3")]
    NotAStream,
    /// A kind of section.
    #[error("section type {0:#04x} is not known")]
    UnknownKind(u8),
    /// Something else than the memory that is sent while the VM runs.
    #[error(
        "the section \"{0}\" comes beside the memory, and where it ends is not known; use another --memory, or turn that off"
    )]
    UnknownSection(String),
    /// A device's state before the memory.
    #[error(
        "the state of \"{0}\" comes before the memory's end, and where it ends is not known; use another --memory"
    )]
    EarlyState(String),
    /// A part of a section that did not begin.
    #[error("a part of section {0} comes, which did not begin")]
    UnknownNumber(u32),
    /// The memory begins twice.
    #[error("the memory begins a second time")]
    TwoMemories,
    /// Of the memory's section.
    #[error("the memory is of version {0}, not 4")]
    MemoryVersion(u32),
    /// A part of the configuration.
    #[error("the configuration has \"{0}\", which is not known")]
    UnknownDetail(String),
    /// Another machine.
    #[error("its pages have 2^{0} bytes, not 4096")]
    PageBits(u32),
    /// A capability that changes the stream.
    #[error("the capability {0} does not go with memory that is placed; turn it off")]
    Capability(String),
    /// A page's header.
    #[error(
        "a page comes with flags {0:#x}, which are not known; turn off what changes how QEMU sends memory (multifd, mapped-ram)"
    )]
    PageFlags(u64),
    /// A page of the block before, where there was none.
    #[error("the first page names no block")]
    NoBlock,
    /// A page that is not in its block.
    #[error("a page at {offset:#x} is not in the block \"{block}\"")]
    OutOfBlock {
        /// Its name.
        block: String,
        /// Where.
        offset: u64,
    },
    /// Another length than was told.
    #[error("the block \"{block}\" has {bytes} bytes in the stream and {expected} in QEMU")]
    BlockLength {
        /// Its name.
        block: String,
        /// In the stream.
        bytes: u64,
        /// As it is mapped.
        expected: u64,
    },
    /// A placed page that is all of one byte.
    #[error("a page is told to be all {0:#04x}")]
    Fill(u8),
    /// Its length.
    #[error("a page comes in {0} bytes")]
    Encoded(usize),
    /// A list that no QEMU has.
    #[error("the configuration has a list of {0} capabilities")]
    Capabilities(u32),
    /// Where a block is in the file that QEMU writes.
    #[error(
        "where the block \"{0}\" is in the file is not as QEMU 9 to 11 have it; use another --memory"
    )]
    Offsets(String),
    /// Something at a page's place that is no page.
    #[error("at {0:#x} of a block something is written that is not whole pages")]
    PartOfPage(u64),
    /// Memory that is not placed.
    #[error("too much memory that is not shared is written at once; use another --memory")]
    OtherPages,
    /// Pages that became zeros and were left out, while the destination has what they were.
    #[error("pages of the block \"{0}\" were left out; set zero-page-detection to none")]
    LeftOut(String),
    /// Memory that follows the VM cannot be written into a file.
    #[error("post-copy is announced in a file")]
    PostCopyOfFile,
    /// Blocks do not add up.
    #[error("the list of blocks does not add up to the memory's bytes")]
    Blocks,
}

impl Fault {
    pub(super) fn unknown_section(name: &[u8]) -> Self {
        Self::UnknownSection(text(name))
    }
}

/// For people; a hostile name does not end up in a terminal.
pub(super) fn text(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}
