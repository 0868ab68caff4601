//! The daemon in one look.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Adapter, AdapterStats, PollMode, PortGroup, Protection, ShardStatus, Uplink};

/// What runs and what it serves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Release of the daemon.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it became ready.
    pub uptime_seconds: u64,
    /// The configuration file, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<PathBuf>,
    /// Folder of the adapters' sockets.
    pub run_dir: PathBuf,
    /// The threads of the data path, by number.
    #[serde(default)]
    pub shards: Vec<ShardStatus>,
    /// How long the Ethernet thread has made no turn although it was woken, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ethernet_silent_ms: Option<u64>,
    /// Whether it, or its helper, has the right to open interfaces for raw uplinks.
    #[serde(default)]
    pub opens_interfaces: bool,
    /// What the daemon has given up.
    #[serde(default)]
    pub protections: Vec<Protection>,
    /// How the data path waits for work.
    #[serde(default)]
    pub poll: PollMode,
    /// By name.
    pub portgroups: Vec<PortGroup>,
    /// By name.
    #[serde(default)]
    pub uplinks: Vec<Uplink>,
    /// By name.
    pub adapters: Vec<Adapter>,
    /// In the order of `adapters`.
    pub stats: Vec<AdapterStats>,
}
