//! The port groups, adapters and uplinks of a daemon.
//!
//! ```text
//!   vrdmad.toml ──► config ──┐
//!                            ├──► inventory: names, numbers, rules ──► spec: what the data path is told
//!   control API ─────────────┘
//! ```
//!
//! This room decides, and carries nothing out: no thread and no socket of the daemon is touched here.

#![forbid(unsafe_code)]

pub mod changes;
pub mod config;
mod cores;
pub mod counts;
mod difference;
mod inventory;
pub mod socket_path;
mod sockets;
mod spec;

pub use difference::{Difference, Object};
pub use inventory::{
    ADAPTERS_MAX, Coming, Field, Inventory, Kind, Limited, PEERS_MAX, PORTGROUPS_MAX, Refusal,
    STATIONS_MAX, UPLINKS_MAX,
};
pub use sockets::Sockets;
pub use spec::{AdapterSpec, Medium, MigrationSpec, Segment, ShardOptions, UplinkSpec, kept};
