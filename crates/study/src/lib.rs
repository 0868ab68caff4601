//! Published studies of RDMA in virtual machines, reproduced on this machine side by side.
//!
//! ```text
//!  table of cells --Stage (guests, containers, processes)--> real tool --parsed--> figures, kept as JSON
//!  table of published numbers ------------------------------same Key------------> report
//! ```
//!
//! A [`Key`](key::Key) names one figure; a published number and ours belong together when their keys are equal.
//! The room starts other programs' tools and reads what they print. It knows nothing of the engine.

#![forbid(unsafe_code)]

pub mod key;
pub mod programs;
pub mod published;
