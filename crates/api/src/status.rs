//! The daemon's whole state in one answer.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Adapter, AdapterStats, PollMode, PortGroup, Protection, ShardStatus, Uplink};

/// Status of the daemon and of everything that it serves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Release of the daemon.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The process that keeps it running, if `supervise` is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeper: Option<Keeper>,
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
    /// Whether the daemon, or its helper, has the right to open interfaces for raw uplinks.
    #[serde(default)]
    pub opens_interfaces: bool,
    /// Whether programs get `/dev/userfaultfd` from it.
    #[serde(default)]
    pub hands_out_userfaultfd: bool,
    /// Rights that the daemon has given up.
    #[serde(default)]
    pub protections: Vec<Protection>,
    /// How the data path waits for work.
    #[serde(default)]
    pub poll: PollMode,
    /// Address to which other daemons bring the adapters of VMs that migrate, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<SocketAddr>,
    /// Port groups, by name.
    pub portgroups: Vec<PortGroup>,
    /// Uplinks, by name.
    #[serde(default)]
    pub uplinks: Vec<Uplink>,
    /// Adapters, by name.
    pub adapters: Vec<Adapter>,
    /// Counters, in the order of `adapters`.
    pub stats: Vec<AdapterStats>,
}

/// The process that starts the daemon's worker again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keeper {
    /// Process of the keeper; SIGHUP makes it go on with the program that is installed now.
    pub pid: u32,
    /// Number of workers so far, including the one that answers.
    pub workers: u32,
    /// Outcome of the latest upgrade that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_upgrade: Option<Upgrade>,
}

/// An upgrade and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgrade {
    /// Number of the upgrade, from 1 since the keeper was started.
    pub number: u32,
    /// How it ended.
    pub outcome: UpgradeOutcome,
    /// Why it was not done, unless it was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// Outcome of an [`Upgrade`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeOutcome {
    /// The installed program serves.
    Done,
    /// The installed program cannot go on for the one that served, which goes on without a pause.
    Refused,
    /// The installed program began and failed; the previous one serves again.
    WentBack,
}
