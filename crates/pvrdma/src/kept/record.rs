//! The records. A field's number is for ever; a field that is not there has its default.

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
    /// A command in the slot was begun and not finished.
    #[prost(bool, tag = "8")]
    pub(crate) busy: bool,
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) config_space: Vec<u8>,
    /// Of what peers were told last: that it stands still, or goes on.
    #[prost(uint64, tag = "10")]
    pub(crate) epoch: u64,
}

/// Where a region's bytes are: the name that the engine's record of it has.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Backing {
    /// The bus itself.
    #[prost(bool, tag = "1")]
    pub(super) bus: bool,
    /// The page directory.
    #[prost(uint64, tag = "2")]
    pub(super) directory: u64,
    #[prost(uint32, tag = "3")]
    pub(super) pages: u32,
    #[prost(uint64, tag = "4")]
    pub(super) first_byte: u64,
    /// The pages, if they are few: else the directory tells.
    #[prost(uint64, repeated, tag = "5")]
    pub(super) few: Vec<u64>,
}

/// So many pages are in the name itself: thousands of short regions are found without reading two pages of memory for
/// each, and records stay short.
pub(super) const FEW: u32 = 4;

/// A region.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Mr {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) engine: Vec<u8>,
    /// Pages that it is charged for.
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
    /// The engine's record: it has the receives that are staged.
    #[prost(bytes = "vec", tag = "4")]
    pub(super) engine: Vec<u8>,
}

/// Bytes in front of the engine's progress of a queue pair: both rings' indices, and whether it is dead.
pub(super) const FRONT: usize = 9;

/// Bytes of a piece of the engine's frame, which has more of them the more addresses are bound.
pub(super) const FRAME_PIECE: usize = 900;
