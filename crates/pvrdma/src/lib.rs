//! The PVRDMA device: VMware's paravirtual RDMA adapter (15ad:0820), as the stock Linux driver and
//! `rdma-core` know it, on top of the verbs engine.
//!
//! ```text
//!   guest ── registers, commands ──► device ──► adapter ──► verbs::Hca
//!   guest ── doorbells, rings ────────────────►    │
//!                                                  ├──► requests to peers, responses
//!   guest ◄── completions, events, interrupts ─────┘
//! ```
//!
//! [`Device`] is the whole device. [`abi`] is the interface shared with the guest driver. The guest is hostile: its
//! values are copied once and checked before use, and every table, ring walk and log line has a bound. This room does
//! not know vfio-user, sockets or threads.
#![forbid(unsafe_code)]

pub mod abi;
mod adapter;
pub mod arming;
mod capabilities;
mod commands;
mod config;
pub mod config_space;
mod context;
mod decode;
mod device;
mod handshake;
mod interrupts;
mod kept;
mod object;
mod queue;
mod quota;
pub mod ring;
#[cfg(test)]
mod testing;

pub use adapter::Violations;
pub use config::{DeviceConfig, DeviceLimits};
pub use context::{
    BadContext, Context, RECORDS_MAX, RUNS_MAX, VERSION as CONTEXT_VERSION, WrittenPages,
};
pub use device::{Activity, BarRegion, Device, DeviceSnapshot, DeviceState, Ended};
pub use kept::{Lost, SavedRecord};
