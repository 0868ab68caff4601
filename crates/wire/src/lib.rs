//! Numbers and formats of RDMA on the wire.
//!
//! Pure: no I/O, no clock, no allocation. The number types keep 24-bit circles, keys and addresses
//! from being mixed up; everything above this room speaks in them.
#![no_std]
#![forbid(unsafe_code)]

mod address;
mod number;

pub use address::{Gid, Mac};
pub use number::{Lkey, Mtu, Psn, Qkey, Qpn, Rkey};
