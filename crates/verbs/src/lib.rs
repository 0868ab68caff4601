//! The verbs engine: one HCA's objects, its requester and its responder.
//!
//! ```text
//!   post_send ──► requester ── Request ──►  switch  ── Request ──► responder ◄── post_recv
//!                     ▲                                               │
//!   Output ◄── completer ◄─────────────── Response ◄──────────────────┘ ──► Output
//! ```
//!
//! The engine is pure: time is an argument, memory is a trait, units, completions and events are values. The engine
//! does not know what a guest, a ring, a socket or a thread is, nor where a unit travels.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod attr;
mod buffers;
#[cfg(test)]
mod costs;
pub mod counters;
mod cq;
mod enclosed;
mod error;
mod grh;
mod hca;
mod intent;
mod list;
pub mod memory;
mod mr;
mod multicast;
mod names;
pub mod object;
pub mod outline;
mod outputs;
mod owner;
pub mod packet;
mod path;
mod peers;
mod qp;
mod qps;
mod reap;
mod register;
mod requester;
mod responder;
pub mod saved;
mod shared;
mod srq;
mod table;
mod time;
mod timers;
pub mod unit;
mod window;
pub mod work;

pub use enclosed::{ENCLOSED_HEAD, ENCLOSED_MAX, ENCLOSED_PIECE};
pub use error::Error;
pub use hca::Hca;
pub use intent::{INTENT_BYTES, Intent, IntentLog};
pub use memory::Source;
pub use mr::FAST_REGISTER_PAGES_MAX;
pub use multicast::{ATTACHMENTS_MAX, GROUP_QPS_MAX};
pub use path::{Flow, Pace, Path, Paths};
pub use reap::Reaped;
pub use register::Registered;
pub use requester::SEND_WINDOW;
pub use responder::{REPLAYS_MIN, ReceiveQueue};
pub use srq::RECEIVE_WINDOW;
pub use time::Time;
pub use window::QP_WINDOWS_MAX;
pub use work::INLINE_MAX;
