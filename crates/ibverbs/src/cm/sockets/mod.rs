//! rsockets (rsocket(7)): streams over a queue pair, with the calls of sockets.
//!
//! ```text
//!   rsend ─► copy to `send` ─► RDMA WRITE with immediate data ─► the peer's receive buffer
//!   rrecv ◄─ copy from `receive` ◄─ announced by the immediate data
//!   half of `receive` read ─► WRITE of its address into the peer's `target` list: room for more
//! ```
//! What goes over the wire is what librdmacm's rsockets say, so that either end may be either's. A
//! socket's number is the descriptor of its event channel. Datagram sockets are not offered.

pub mod calls;
pub mod connect;
pub mod memory;
pub mod options;
pub mod poll;
pub mod stream;
pub mod table;
pub mod transfer;
pub mod wire;
