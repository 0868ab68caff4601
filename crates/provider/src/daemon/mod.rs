//! The daemon's end: requests as they arrive, and the rings, whose indices are private copies.
//!
//! What the client wrote is copied once, checked, and only then used. What the daemon wrote is never read back.

mod completion;
mod enclosing;
mod plan;
mod request;
mod work;

pub use completion::CompletionRing;
pub use plan::{CqPlan, QpPlan, SrqPlan};
pub use request::{
    Answer, Peer, Request, accept, listen, peek, peer, peer_groups, peer_process, send_answer, take,
};
pub use work::{Slot, WorkRing};

/// The reasons why a ring cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RingError {
    /// The client's index is impossible.
    #[error("the client's ring index is impossible")]
    Index,
    /// No room for another entry.
    #[error("the ring is full")]
    Full,
}
