//! rsockets (rsocket(7)): streams over a queue pair, with the calls of sockets.
//!
//! ```text
//!   rsend ─► copy to `send` ─► RDMA WRITE with immediate data ─► the peer's receive buffer
//!   rrecv ◄─ copy from `receive` ◄─ announced by the immediate data
//!   half of `receive` read ─► WRITE of its address into the peer's `target` list: room for more
//! ```
//! The messages on the wire are those of librdmacm's rsockets, so that either end may be librdmacm's. A socket's number
//! is the descriptor of its event channel. Datagram sockets work differently: see [`datagram`].

pub mod calls;
mod completions;
pub mod connect;
mod datagram;
pub mod mapping;
pub mod memory;
mod messages;
pub mod options;
pub mod poll;
pub mod select;
pub mod stream;
pub mod table;
pub mod transfer;
pub mod wire;
