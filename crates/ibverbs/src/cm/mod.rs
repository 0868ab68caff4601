//! librdmacm: connections by IP address (rdma_cm(7)).
//!
//! ```text
//!   rdma_cm_id ── Identifier ─┬─ session: one connection to the daemon, which does the IB protocol
//!                             ├─ device:  the context and domain of its adapter
//!                             └─ qp, qp_state: make the queue pair, and move it as the daemon says
//!   rdma_event_channel ── a pipe of the daemon: a byte for each event that waits there
//! ```
//! A synchronous identifier has a channel of its own, for whose next event its calls wait. The daemon decides what a
//! peer and its queue pair are to be told; this module matches that with the program's pointers.

pub mod abi;
pub mod addrinfo;
pub mod channel;
pub mod connect;
pub mod device;
pub mod endpoint;
pub mod event;
pub mod identifier;
pub mod multicast;
pub mod names;
pub mod option;
pub mod qp;
pub mod qp_state;
mod removal;
pub mod resolve;
pub mod session;
pub mod socket_address;
pub mod sockets;
pub mod srq;
