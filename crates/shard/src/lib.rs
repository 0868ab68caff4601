//! The threads of the data path, and how the control plane reaches them.
//!
//! ```text
//!   control plane ── plane: commands, answers by message ──► shard: one thread, owns its adapters
//!                                                              |-- vm: the socket of a QEMU, its device
//!   worker before ── legacy: records, descriptors ────────────►|-- sessions of processes (process_socket)
//!                                                              `-- polling: how it rests
//! ```
//!
//! Threads share nothing; they are sent plain values and answer by message. Nothing async runs on them. The control
//! plane decides what to serve, and who may use it.

#![forbid(unsafe_code)]

pub mod legacy;
pub mod plane;
mod polling;
pub mod process_socket;
pub mod shard;
mod vm;

pub use vm::{Frozen, Made, Maker, Resending, Restoring};
