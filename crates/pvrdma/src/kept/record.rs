//! The formats of records. A field's number never changes; a missing field has its default.

use prost::Message;

/// The device without its objects.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Registers {
    /// 0 reset, 1 configured, 2 active, 3 failed.
    #[prost(uint32, tag = "1")]
    pub(crate) stage: u32,
    /// What the driver wrote into the shared region.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) region: Vec<u8>,
    #[prost(uint32, tag = "3")]
    pub(crate) dsr_low: u32,
    #[prost(uint32, tag = "4")]
    pub(crate) error: u32,
    #[prost(uint32, repeated, tag = "5")]
    pub(crate) mac: Vec<u32>,
    #[prost(uint32, tag = "6")]
    pub(crate) mask: u32,
    #[prost(uint64, tag = "7")]
    pub(crate) lives: u64,
    /// Whether a command in the slot was begun and not finished.
    #[prost(bool, tag = "8")]
    pub(crate) busy: bool,
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) config_space: Vec<u8>,
    /// Epoch of the last message to peers that the device stands still or goes on.
    #[prost(uint64, tag = "10")]
    pub(crate) epoch: u64,
}

/// Where a region's bytes are: the name of the region in the engine's record.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Backing {
    /// Whether the region is the whole bus.
    #[prost(bool, tag = "1")]
    pub(super) bus: bool,
    /// Bus address of the page directory.
    #[prost(uint64, tag = "2")]
    pub(super) directory: u64,
    #[prost(uint32, tag = "3")]
    pub(super) pages: u32,
    #[prost(uint64, tag = "4")]
    pub(super) first_byte: u64,
    /// The pages, if they are few: otherwise the directory has them.
    #[prost(uint64, repeated, tag = "5")]
    pub(super) few: Vec<u64>,
}

/// Most pages that the name itself holds: thousands of short regions are found without reading two pages of memory for
/// each, and records stay short.
pub(super) const FEW: u32 = 4;

/// A region.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Mr {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) engine: Vec<u8>,
    /// Number of pages that the region is charged for.
    #[prost(uint32, tag = "2")]
    pub(super) charged: u32,
}

/// A shared receive queue.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Srq {
    #[prost(uint32, tag = "1")]
    pub(super) released: u32,
    #[prost(uint32, tag = "2")]
    pub(super) limit: u32,
    #[prost(bool, tag = "3")]
    pub(super) dead: bool,
    /// The engine's record, with the staged receives.
    #[prost(bytes = "vec", tag = "4")]
    pub(super) engine: Vec<u8>,
}

/// Bytes before the engine's progress of a queue pair: the indices of both rings, and whether it is dead.
pub(super) const FRONT: usize = 9;

/// Bytes of a piece of the engine's frame; the more addresses are bound, the more pieces there are.
pub(super) const FRAME_PIECE: usize = 900;
