//! Shards: the threads of the data path.

use serde::{Deserialize, Serialize};

/// One shard.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ShardStatus {
    /// The core that it has for itself, if it was given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
    /// How many adapters it serves.
    pub adapters: u32,
    /// Part of the last second in which it had something to do, in percent.
    pub busy_percent: u8,
    /// Units, answers and packets that it has handed to other shards since the daemon started.
    pub transfers: u64,
    /// How long it has made no turn although it was woken, in milliseconds; what it knows of its adapters is
    /// not told meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
}

/// Where an adapter shall go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// Number of the shard: its place in [`Status::shards`](crate::Status::shards).
    pub shard: u16,
}
