//! An engine with one queue pair of each kind, and peers that keep no rule: units within a host, packets from
//! a wire.

mod memory;
mod node;
pub mod packets;
pub mod units;
