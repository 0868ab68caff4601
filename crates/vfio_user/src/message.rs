//! Messages: the common header, the commands, their payloads and the replies.
//!
//! ```text
//!   0        2        4            8            12           16
//!   | id u16 | cmd u16| size u32   | flags u32  | error u32  | payload ...
//!                       header and    0-3 type     errno, in
//!                       payload       4 no reply   an error
//!                                     5 error      reply
//! ```
//!
//! Source of every layout: "vfio-user Protocol Specification" (`docs/interop/vfio-user.rst` of QEMU), with the section
//! named at each type. A parsed value has passed all checks that need no knowledge of the device; the session makes the
//! others.

mod layout;
mod refusal;
mod reply;
mod request;
mod version;

#[cfg(test)]
mod tests;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use layout::{DmaAccess, RegionAccess};
pub use refusal::Refusal;
pub use reply::{device_info, irq_info, region_info};
pub(crate) use reply::{migration_data, migration_flags, migration_state, written_pages};
pub use request::{Feature, FeatureRequest, Query, Report, Request, Write, WriteMulti};
pub use version::{Capabilities, VersionRequest};

/// Bytes of the header that starts every message.
pub const HEADER_SIZE: usize = 16;

/// Most bytes of data in one region or DMA transfer, either direction; the server's `max_data_xfer_size`. Register
/// accesses are at most 8 bytes and DMA by message is the slow path for memory without a file descriptor, so this only
/// has to hold a few pages.
pub const MAX_DATA: u32 = 64 * 1024;

/// Most bytes of one message in either direction: a data transfer with its two headers, of which those of a report of
/// written pages are the longest. Larger messages are skipped, never stored.
pub const MAX_MESSAGE: usize = HEADER_SIZE + REPORT_HEAD + MAX_DATA as usize;

/// Bytes before the bitmap of written pages.
const REPORT_HEAD: usize = size_of::<layout::DeviceFeature>() + size_of::<layout::LoggingReport>();

/// Most bytes of the state of a migrating device: more than an adapter with all objects that it may have.
pub const DATA_MAX: usize = 64 << 20;

/// Most ranges for which a client may request logging of writes. It has no more mappings.
pub const MAX_LOGGED_RANGES: u32 = MAX_DMA_MAPS as u32;

/// Most file descriptors accepted with one message; the server's `max_msg_fds`. QEMU refuses a server that announces
/// more than 16.
pub const MAX_MESSAGE_FDS: usize = 16;

/// Most DMA mappings at a time; the server's `max_dma_maps`, which the backend enforces. QEMU makes a few dozen, and
/// refuses a server that announces more than 65535.
pub const MAX_DMA_MAPS: u64 = 512;

/// The page size of DMA mappings; the server's `pgsizes`.
pub const DMA_PAGE_SIZE: u64 = 4096;

/// Regions of a PCI device in VFIO's numbering: BAR 0-5, ROM, configuration space, VGA
/// (`VFIO_PCI_NUM_REGIONS` in `<linux/vfio.h>`).
pub const REGION_COUNT: u32 = 9;

/// The region of PCI configuration space (`VFIO_PCI_CONFIG_REGION_INDEX`).
pub const CONFIG_REGION: u32 = 7;

/// Interrupt types of a PCI device in VFIO's numbering: INTx, MSI, MSI-X, error, request
/// (`VFIO_PCI_NUM_IRQS` in `<linux/vfio.h>`).
pub const IRQ_TYPE_COUNT: u32 = 5;

/// The interrupt type INTx (`VFIO_PCI_INTX_IRQ_INDEX`).
pub const INTX_IRQ: u32 = 0;

/// The interrupt type MSI-X (`VFIO_PCI_MSIX_IRQ_INDEX`).
pub const MSIX_IRQ: u32 = 2;

const TYPE_MASK: u32 = 0xf;
const TYPE_COMMAND: u32 = 0;
const TYPE_REPLY: u32 = 1;
const FLAG_NO_REPLY: u32 = 1 << 4;
const FLAG_ERROR: u32 = 1 << 5;

/// Commands of messages; section "Commands".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
#[expect(missing_docs, reason = "the names are the specification's")]
pub enum Command {
    Version = 1,
    DmaMap = 2,
    DmaUnmap = 3,
    DeviceGetInfo = 4,
    DeviceGetRegionInfo = 5,
    DeviceGetRegionIoFds = 6,
    DeviceGetIrqInfo = 7,
    DeviceSetIrqs = 8,
    RegionRead = 9,
    RegionWrite = 10,
    DmaRead = 11,
    DmaWrite = 12,
    DeviceReset = 13,
    DirtyPages = 14,
    RegionWriteMulti = 15,
    DeviceFeature = 16,
    MigDataRead = 17,
    MigDataWrite = 18,
}

impl Command {
    /// Every command, in the order of its number, which starts at 1.
    pub const ALL: [Command; 18] = [
        Command::Version,
        Command::DmaMap,
        Command::DmaUnmap,
        Command::DeviceGetInfo,
        Command::DeviceGetRegionInfo,
        Command::DeviceGetRegionIoFds,
        Command::DeviceGetIrqInfo,
        Command::DeviceSetIrqs,
        Command::RegionRead,
        Command::RegionWrite,
        Command::DmaRead,
        Command::DmaWrite,
        Command::DeviceReset,
        Command::DirtyPages,
        Command::RegionWriteMulti,
        Command::DeviceFeature,
        Command::MigDataRead,
        Command::MigDataWrite,
    ];

    /// The command with this number, if the specification has one.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// The header as it is in a message; section "Header".
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    id: U16,
    command: U16,
    size: U32,
    flags: U32,
    error: U32,
}

/// Whether a message is a command or a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A command; if `no_reply` is set, the sender wants no answer.
    Command {
        /// Whether nothing may be sent back, not even an error.
        no_reply: bool,
    },
    /// An answer, with an errno if the command failed.
    Reply {
        /// The errno as sent, possibly 0 or invalid; `None` for success.
        error: Option<u32>,
    },
}

/// A header with a valid size and type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Chosen by the sender of the command and echoed in the reply.
    pub id: u16,
    /// Number of the command, known here or not.
    pub command: u16,
    /// Bytes that follow the header.
    pub payload: u32,
    /// Whether it is a command or a reply.
    pub kind: Kind,
}

/// A header after which the stream cannot be followed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    /// The size is less than that of the header.
    #[error("a message claims a size of {0} bytes, less than its own header")]
    Size(u32),
    /// The type is neither command nor reply.
    #[error("a message has type {0}, which is neither a command nor a reply")]
    Type(u32),
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// [`BadHeader`] when the message's end or direction is unknown.
    pub fn parse(bytes: &[u8; HEADER_SIZE]) -> Result<Self, BadHeader> {
        let raw: RawHeader = zerocopy::transmute!(*bytes);
        let size = raw.size.get();
        let payload = size
            .checked_sub(HEADER_SIZE as u32)
            .ok_or(BadHeader::Size(size))?;
        Ok(Header {
            id: raw.id.get(),
            command: raw.command.get(),
            payload,
            kind: raw.kind()?,
        })
    }

    /// The header's bytes, as they start the message.
    ///
    /// # Panics
    /// If the payload is larger than [`MAX_MESSAGE`]; no such message is built here.
    pub fn emit(&self) -> [u8; HEADER_SIZE] {
        assert!(
            self.payload as usize <= MAX_MESSAGE,
            "our own messages are bounded"
        );
        let (flags, error) = self.kind.encode();
        zerocopy::transmute!(RawHeader {
            id: self.id.into(),
            command: self.command.into(),
            size: (self.payload + HEADER_SIZE as u32).into(),
            flags: flags.into(),
            error: error.into(),
        })
    }
}

impl RawHeader {
    fn kind(&self) -> Result<Kind, BadHeader> {
        let flags = self.flags.get();
        match flags & TYPE_MASK {
            TYPE_COMMAND => Ok(Kind::Command {
                no_reply: flags & FLAG_NO_REPLY != 0,
            }),
            TYPE_REPLY => Ok(Kind::Reply {
                error: (flags & FLAG_ERROR != 0).then_some(self.error.get()),
            }),
            other => Err(BadHeader::Type(other)),
        }
    }
}

impl Kind {
    fn encode(self) -> (u32, u32) {
        match self {
            Kind::Command { no_reply: false } => (TYPE_COMMAND, 0),
            Kind::Command { no_reply: true } => (TYPE_COMMAND | FLAG_NO_REPLY, 0),
            Kind::Reply { error: None } => (TYPE_REPLY, 0),
            Kind::Reply { error: Some(errno) } => (TYPE_REPLY | FLAG_ERROR, errno),
        }
    }
}
