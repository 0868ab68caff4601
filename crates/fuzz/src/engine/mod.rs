//! An engine with one queue pair of each kind, and peers that break all rules: units within a host, packets from a
//! wire.

mod memory;
mod node;
pub mod packets;
pub mod units;
