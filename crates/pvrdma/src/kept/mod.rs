//! The records that another process needs to go on with the device: written as it changes, or read.
//!
//! ```text
//!   a register was written ─► Registers          a command made, changed or destroyed ─► its object's records
//!   a message came further ─► progress of its queue pair, of completion queues and of shared receive queues
//! ```
//! Records do not hold what is in the guest's memory: requests, completions, and all but the shortest page directories.
//! An object's record has the request that made it, which is checked again as it was then.
//!
//! This module does not know where records are kept ([`vrdma_adapter::Journal`]).

mod check;
mod read;
mod record;
mod write;

pub(crate) use check::{check, config_space_of};
pub(crate) use read::{Past, Revived};
pub(crate) use record::Registers;

/// Kinds of records. Their numbers are in records of earlier processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum Kind {
    /// Registers, configuration space and the stage of the device.
    Registers = 16,
    /// A piece of the engine without its objects, by its position.
    Frame = 17,
    /// Owner of a doorbell page.
    Context = 18,
    Pd = 19,
    /// A region, and the number of pages that it is charged for.
    Mr = 20,
    CqRequest = 21,
    /// The engine's record of a completion queue.
    Cq = 22,
    /// Number of entries that a completion queue has got.
    CqProgress = 23,
    SrqRequest = 24,
    /// Progress of a shared receive queue.
    SrqProgress = 25,
    QpRequest = 26,
    /// The engine's record of a queue pair.
    Qp = 27,
    /// Progress of a queue pair.
    QpProgress = 28,
    /// The receive of a message under way on a queue pair with a shared receive queue.
    Receive = 29,
    /// The atomic that is about to be done.
    Intent = 30,
}

impl Kind {
    /// All kinds that end with a life of the device.
    pub(crate) const OF_A_LIFE: [Self; 14] = [
        Self::Frame,
        Self::Context,
        Self::Pd,
        Self::Mr,
        Self::CqRequest,
        Self::Cq,
        Self::CqProgress,
        Self::SrqRequest,
        Self::SrqProgress,
        Self::QpRequest,
        Self::Qp,
        Self::QpProgress,
        Self::Receive,
        Self::Intent,
    ];
}

/// A record that was found. Nothing in it is trusted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SavedRecord {
    /// Kind that it was written with.
    pub kind: u16,
    /// Number that it was written with.
    pub id: u32,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// Reasons why a device cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Lost {
    /// The record of the registers is missing or damaged.
    #[error("the record of the device's registers is missing or damaged")]
    Registers,
    /// The doorbell pages cannot be used.
    #[error("the device's doorbell pages cannot be used: {0}")]
    Doorbells(std::io::ErrorKind),
}
