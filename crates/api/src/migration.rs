//! Migration of a VM's adapter to another host.
//!
//! ```text
//!   source                                   destination
//!   track   ──► its writes are tracked
//!                                            expect: a ticket
//!   freeze  ──► does nothing; its context ──► PUT context: kept, nothing changes yet
//!  (hand over ► the same, but its daemon brings the context there, with the ticket)
//!  (resend  ──► QEMU sends what it wrote, which is not in the context)
//!   thaw    ──► goes on                       restore: made from the context, does nothing yet
//!   release ──► gives up its addresses        activate: goes on where the context left off
//! ```

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Ticket;

/// Words of an MSI-X table: four for each of three vectors (PCI 3.0 section 6.8.2).
pub const MSIX_TABLE_WORDS: usize = 12;

/// Longest context that a daemon takes: records of an adapter with all objects that it may have, and the pages that it
/// wrote while it was tracked.
pub const CONTEXT_BYTES_MAX: usize = 256 << 20;

/// An adapter whose writes are tracked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TrackedAdapter {
    /// The device's PCI configuration space, 256 bytes, as the guest has it at this moment.
    pub config_space: Vec<u8>,
}

/// What a context is to contain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FreezeRequest {
    /// Whether pages that the adapter wrote stay out of the context, because QEMU is to send them.
    #[serde(default)]
    pub leaves_pages: bool,
}

/// The daemon that expects an adapter's context.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// Address at which that daemon listens.
    pub address: SocketAddr,
    /// The ticket with which it expects the context.
    pub ticket: Ticket,
}

/// The daemon that a context is to be brought to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandOverRequest {
    /// The destination.
    pub to: Destination,
    /// Whether pages that the adapter wrote stay out of the context, because QEMU is to send them.
    #[serde(default)]
    pub leaves_pages: bool,
}

/// A context that was brought to another daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HandedOverContext {
    /// Length of the context.
    pub bytes: u64,
    /// That daemon's report on the context.
    pub arrived: ArrivedContext,
}

/// Memory of a guest that its adapter wrote while it was tracked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WrittenMemory {
    /// Bytes of whole pages.
    pub bytes: u64,
}

/// Content of a context, as reported by the daemon that keeps it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ArrivedContext {
    /// The device's PCI configuration space, 256 bytes: the destination's QEMU is to get the same.
    pub config_space: Vec<u8>,
    /// Records of the device.
    pub records: u64,
    /// Pages that the device wrote.
    pub pages: u64,
    /// Whether the adapter was made from it, and waits to be activated.
    #[serde(default)]
    pub restored: bool,
}

/// What is needed to restore the device, besides its context.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreRequest {
    /// MSI-X table of the source's QEMU, if the guest's driver had switched MSI-X on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msix_table: Option<[u32; MSIX_TABLE_WORDS]>,
    /// Whether connections end with an error, because their other ends have gone on since the context was made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end_connections: bool,
    /// Whether pages of the guest's memory are still to come (post-copy). Of the pages in the context, those that are
    /// there already are written. The adapter is made when it is activated; until then, accesses of the guest to it
    /// wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_follows: bool,
}

/// Bytes of memory that one digest covers; fewer at the end of a range.
pub const DIGEST_CHUNK_BYTES: u64 = 1 << 20;

/// Digest of a guest's memory: equal digests mean equal bytes, as far as CRC-32 tells.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryDigest {
    /// Ranges, by address.
    pub ranges: Vec<DigestedRange>,
}

/// A range of memory without gaps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DigestedRange {
    /// Guest address of the range.
    pub address: u64,
    /// Length of the range.
    pub bytes: u64,
    /// CRC-32 of each [`DIGEST_CHUNK_BYTES`].
    pub digests: Vec<u32>,
}
