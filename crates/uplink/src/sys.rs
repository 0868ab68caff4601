//! System calls: the only place with `unsafe`.
//!
//! Memory passed to the kernel belongs to the caller's own buffers for the length of one call; no pointer outlives the
//! function that makes it.

mod address;
mod interface;
mod receive;
mod socket;
pub(crate) mod tap;
mod transmit;

pub(crate) use interface::Interface;
pub(crate) use receive::{Arrival, Slots, VlanTag};
pub(crate) use socket::Socket;
pub use socket::enlarge_buffers;
pub(crate) use transmit::{MESSAGES_MAX, Outgoing, send_some};
