//! Connection management for processes: the daemon's side of librdmacm's identifiers.
//!
//! ```text
//!   librdmacm ── requests ──► Client ── Identifier ──► vrdma_cm::Cm of the adapter ── MADs ──► QP 1 of
//!             ◄─ event pipes ─ Channel ◄──────────────  (one for each adapter)    ◄──────── a peer
//! ```
//! A client is one connection to the process socket that began with a greeting. It owns channels and identifiers; an
//! identifier binds addresses and ports of adapters ([`ports`]), listens, connects and is connected to. `vrdma_cm`
//! speaks the IB protocol; this module gives it the meaning of `rdma_cm(7)`.
//!
//! All of it lives on the shard thread. The thread brings the datagrams that arrive for QP 1 of a process adapter
//! ([`Service::receive`]) and takes away those to be sent ([`Service::next_outgoing`]). The service does not know
//! engines, memory or frames.

mod adapter;
mod adapters;
mod address;
mod changes;
mod channel;
mod client;
mod cm_event;
mod connecting;
mod greeting;
mod handler;
mod hearing;
mod holding;
mod identifier;
mod kept;
mod multicast;
mod offering;
mod owners;
mod port_map;
mod ports;
mod qp;
mod resolving;
mod scope;
mod search;
mod service;
mod serving;
#[cfg(test)]
mod tests;

pub use adapter::AdapterSpec;
pub use client::ClientId;
pub use kept::Past;
pub use search::Search;
pub use service::{Offered, Service};
