//! One adapter: the engine, and everything between it and the rings of its owners that does not
//! depend on how those rings look.
//!
//! ```text
//!     doorbells, commands                              units and packets of peers
//!            │                                              │            ▲
//!            ▼                                              ▼            │
//!   run queue ──► sending ──► verbs::Hca ◄── receiving (one receive staged for each message)
//!        ▲                       │ outputs
//!        └── failed, starved ──  ▼
//!                             publish ──► front end: completion rings, events, notifications
//! ```
//!
//! A front end is a type that holds a [`Core`] and fulfils [`FrontEnd`]: guests' rings in `pvrdma`, rings of client
//! processes in `process`. It gets the machine's methods: [`Sending`], [`Receiving`], [`Publishing`] and [`Failing`]
//! are implemented for every front end and cannot be overridden. So both kinds of adapter send, receive, publish and
//! fail by the same code, and what carries units between adapters sees no difference.
//!
//! This crate does not know rings, guests, processes, sockets, or where units travel.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod core_state;
mod failing;
mod fair;
mod front_end;
mod gid_change;
mod intents;
mod journal;
mod log_limit;
mod publishing;
mod receiving;
mod sending;
mod shard;
mod slots;

pub use core_state::{Core, RunState};
pub use failing::Failing;
pub use fair::Client;
pub use front_end::{FrontEnd, Turn};
pub use gid_change::GidChange;
pub use intents::Intents;
pub use journal::Journal;
pub use log_limit::LogLimit;
pub use publishing::Publishing;
pub use receiving::Receiving;
pub use sending::Sending;
pub use shard::ShardId;
pub use slots::Slots;
