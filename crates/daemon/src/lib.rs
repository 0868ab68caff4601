//! The vRDMA host daemon
//!
//! ```text
//!   main thread: config, control API (tokio)          vrdma, one JSON request at a time
//!        │ commands                 │ commands
//!   shard thread                Ethernet thread
//!   vfio-user, device, engine   frames between QEMU's stream sockets
//!        │ RoCEv2                   │ other frames
//!        └──────── uplinks ─────────┘
//! ```
//!
//! The only room that knows all others. Threads share nothing: they receive plain values
//! ([`plane`](vrdma_shard::plane)) and answer by message. Nothing async runs on a data path thread.

#![forbid(unsafe_code)]

pub mod control;
pub mod handover;
pub mod locations;
pub mod run_dir;
pub mod service;
#[cfg(test)]
mod vacant;
mod watchdog;
