//! The communication manager of one adapter (IBTA chapter 12): how two sides agree on queue pairs.
//!
//! ```text
//!   active side                                  passive side
//!   connect ──► ReqSent ────── REQ ──────────► ReqReceived ──► Requested
//!                  │   ◄────── MRA, REJ ───────     │ accept, reject
//!   Replied ◄── RepReceived ◄─ REP ──────────── RepSent
//!   ready ───► Established ─── RTU ──────────► Established ──► Established
//!
//!   either side
//!   disconnect ─► DreqSent ── DREQ ──► TimeWait ──► Disconnected
//!   Disconnected ◄─ TimeWait ◄── DREP ────┘
//!   TimewaitOver ◄──┘ after the time in which old packets may still arrive
//! ```
//! Datagram services are resolved by SIDR_REQ and SIDR_REP.
//!
//! Sans-IO: [`Cm`] takes commands, datagrams and the time; it gives datagrams ([`Outgoing`]), events ([`Event`]) and
//! the time at which it wants to be called again. An unanswered message is repeated, a repeated message is answered
//! again, and a peer that stays silent ends the connection.
//!
//! The crate does not know: queue pairs as objects, ports and the right to listen on them, IP addresses other than as
//! GIDs, users, sockets.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod active;
mod changed;
mod connection;
mod ending;
mod event;
mod ip;
mod listeners;
mod machine;
mod passive;
mod saved;
mod sidr;
mod store;
mod terms;

pub use event::{Event, Reply, Request, Resolution, ResolveRequest};
pub use ip::{CONNECT_DATA, IpCaller, RESOLVE_DATA};
pub use listeners::{Addresses, Listen, ListenerId, MAX_BACKLOG, MAX_LISTENERS};
pub use machine::{Calls, Cm, Identity, Outgoing, Received};
pub use saved::Unusable;
pub use store::{MAX_CONNECTIONS, MAX_HALF_OPEN, MAX_HALF_OPEN_OF_ONE};
pub use terms::{Acceptance, Call, Ends, Link, Refused, Resolve, Side, SidrAnswer};
pub use vrdma_wire::cm::{
    CommId, ConnectionType, PortSpace, PrivateData, RejectReason, ServiceId, SidrStatus,
};

#[cfg(test)]
mod tests;
