//! The program inside a guest that runs what the host asks for.
//!
//! It sees one byte stream in each direction, carrying one JSON object a line
//! ([`protocol`]), and /proc ([`settled`]). It does not know which VM it is in.

pub mod protocol;
mod serve;
pub mod settled;

pub use serve::serve;
