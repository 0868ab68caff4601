//! State that outlives the worker: descriptors, and records in shared memory. Starts the worker again.
//!
//! ```text
//!   keeper (one thread, no descriptors of its own but the area) ── supervise
//!     | clone(CLONE_FILES): one descriptor table for both
//!   worker ── Life { Inherited: what earlier workers had open; area ── Store: what they wrote down }
//! ```
//!
//! This room does not know what the records mean, or what the descriptors are.

mod complaint;
mod inherited;
mod mapping;
mod policy;
mod records;
mod store;
mod supervise;

pub use complaint::complain;
pub use inherited::{Inherited, Rest};
pub use policy::{EXIT_AGAIN, End};
pub use records::Records;
pub use store::{
    Area, Capacity, Full, LARGE_BYTES, LOG_BYTES, Opened, Record, SMALL_BYTES, SlotId, Store,
};
pub use supervise::{
    Attempt, Life, Options, Outcome, Succession, Successor, WorkerLine, give_way, supervise,
};
