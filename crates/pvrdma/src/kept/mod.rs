//! What another process needs to go on with the device, as records: written down as it changes, or read.
//!
//! ```text
//!   a register was written ─► Registers          a command made, changed or destroyed ─► its object's records
//!   a message came further ─► progress of its queue pair, of completion queues and of shared receive queues
//! ```
//! What lies in the guest's memory is not in them: requests, completions, page directories but the shortest. Objects are named
//! with the request that made them, which is checked again as it was then.
//!
//! This module does not know where records are kept ([`vrdma_adapter::Journal`]).

mod check;
mod read;
mod record;
mod write;

pub(crate) use check::{check, config_space_of};
pub(crate) use read::{Past, Revived};
pub(crate) use record::Registers;

/// What a record is about. The numbers are in the records of processes that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(crate) enum Kind {
    /// Registers, configuration space and the stage of the device.
    Registers = 16,
    /// A piece of the engine without its objects, by its place.
    Frame = 17,
    /// Whose a doorbell page is.
    Context = 18,
    Pd = 19,
    /// A region, and the pages that it is charged for.
    Mr = 20,
    CqRequest = 21,
    /// The engine's record.
    Cq = 22,
    /// How many entries a completion queue has got.
    CqProgress = 23,
    SrqRequest = 24,
    /// A shared receive queue.
    SrqProgress = 25,
    QpRequest = 26,
    /// The engine's record.
    Qp = 27,
    /// How far a queue pair has come.
    QpProgress = 28,
    /// The receive of a message under way on a queue pair with a shared receive queue.
    Receive = 29,
    /// The atomic that is about to be done.
    Intent = 30,
}

impl Kind {
    /// All that end with a life of the device.
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
    /// What it was put as.
    pub kind: u16,
    /// What it was put for.
    pub id: u32,
    /// Its contents.
    pub bytes: Vec<u8>,
}

/// Why a device cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Lost {
    /// There is nothing to begin with.
    #[error("the record of the device's registers is missing or damaged")]
    Registers,
    /// Memory for the doorbell pages.
    #[error("the device's doorbell pages cannot be used: {0}")]
    Doorbells(std::io::ErrorKind),
}
