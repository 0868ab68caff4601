//! An adapter of a VM that goes to another host.
//!
//! ```text
//!   source                                   destination
//!   track   ──► its writes are noted
//!                                            expect: a ticket
//!   freeze  ──► does nothing; its context ──► PUT context: kept, nothing changes yet
//!  (hand over ► the same, and its daemon brings the context there, with the ticket)
//!  (resend  ──► its writes are QEMU's to send, and not in the context)
//!   thaw    ──► goes on                       restore: made from the context, does nothing yet
//!   release ──► gives up its addresses        activate: goes on where the context left off
//! ```

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Ticket;

/// Words of an MSI-X table: four for each of three vectors (PCI 3.0 section 6.8.2).
pub const MSIX_TABLE_WORDS: usize = 12;

/// The longest context that a daemon takes: records of an adapter with all objects that it may have, and the
/// pages that it wrote while it was tracked.
pub const CONTEXT_BYTES_MAX: usize = 256 << 20;

/// An adapter whose writes are noted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TrackedAdapter {
    /// The device's PCI configuration space, 256 bytes, as the guest has it at this moment.
    pub config_space: Vec<u8>,
}

/// What a context is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreezeRequest {
    /// What the adapter wrote stays out of the context: QEMU is to send it.
    #[serde(default)]
    pub leaves_pages: bool,
}

/// Where an adapter's context is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// Where that daemon listens.
    pub address: SocketAddr,
    /// What it expects the context with.
    pub ticket: Ticket,
}

/// Where a context is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandOverRequest {
    /// To which daemon.
    pub to: Destination,
    /// What the adapter wrote stays out of the context: QEMU is to send it.
    #[serde(default)]
    pub leaves_pages: bool,
}

/// A context that went to another daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandedOverContext {
    /// How long it is.
    pub bytes: u64,
    /// What that daemon says of it.
    pub arrived: ArrivedContext,
}

/// Memory of a guest that its adapter wrote while it was tracked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WrittenMemory {
    /// In whole pages.
    pub bytes: u64,
}

/// What a context has, told by the daemon that keeps it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ArrivedContext {
    /// The device's PCI configuration space, 256 bytes: QEMU's of the destination is to have the same.
    pub config_space: Vec<u8>,
    /// Records of the device.
    pub records: u64,
    /// Pages that the device wrote.
    pub pages: u64,
    /// The adapter was made from it, and waits to be activated.
    #[serde(default)]
    pub restored: bool,
}

/// What the device needs besides its context.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// QEMU's MSI-X table of the source, if the guest's driver had switched MSI-X on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msix_table: Option<[u32; MSIX_TABLE_WORDS]>,
    /// Connections end with an error: their other ends have gone on since the context was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_connections: bool,
    /// Pages of the guest's memory are still to come (post-copy): of those that the adapter wrote, the context's are written where
    /// there is a page. The adapter is made when it is activated, and until then what the guest asks of it waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_follows: bool,
}

/// Bytes that a digest of memory is about, or fewer at the end of a range.
pub const DIGEST_CHUNK_BYTES: u64 = 1 << 20;

/// What is in a guest's memory, in short: two that are equal have the same bytes, as far as CRC-32 tells.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryDigest {
    /// By address.
    pub ranges: Vec<DigestedRange>,
}

/// Memory without a gap.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DigestedRange {
    /// Where it is in the guest.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// CRC-32 of each [`DIGEST_CHUNK_BYTES`].
    pub digests: Vec<u32>,
}
