//! Counters. All count from the adapter's creation and never go back.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Name;

/// All counters of one adapter.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdapterStats {
    /// The adapter.
    pub name: Name,
    /// Its PVRDMA function.
    pub rdma: RdmaStats,
    /// Its Ethernet port.
    pub ethernet: EthernetStats,
}

/// The PVRDMA function of an adapter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RdmaStats {
    /// Whether a QEMU is connected to the vfio-user socket, or a process has the adapter open.
    pub guest_connected: bool,
    /// Processes that have it open, each with one or more of the contexts in `objects`; absent unless this is a process
    /// adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// The device's state, in its own words: `reset`, `active` and so on.
    pub state: String,
    /// Version of the guest's driver, once it has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<u32>,
    /// GIDs that the guest has bound.
    #[serde(default)]
    pub gids: Vec<String>,
    /// Addresses that the guest has used first, if its adapter learns them: the guest may use only these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<IpAddr>,
    /// Live objects.
    pub objects: ObjectCounts,
    /// How registered memory of processes is reached; absent unless this is a process adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<RegionCounts>,
    /// `rdma_cm` services that processes offer here; those of a guest are known to its kernel only.
    #[serde(default)]
    pub listeners: u32,
    /// Calls to these services that wait for an answer, or for their caller.
    #[serde(default)]
    pub half_open_calls: u32,
    /// Calls that were refused for lack of room.
    #[serde(default)]
    pub refused_calls: u64,
    /// Waits of its messages for limits.
    #[serde(default)]
    pub throttled: Throttled,
    /// The same for messages to it.
    #[serde(default)]
    pub throttled_in: Throttled,
    /// Traffic.
    pub counters: RdmaCounters,
    /// Lines about its guest or programs that were left out of the log, because there were too many.
    #[serde(default)]
    pub log_lines_left_out: u64,
    /// A sentence about what is wrong with the guest's set-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// How often and how long senders have waited for a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Throttled {
    /// Number of waits.
    pub times: u64,
    /// Microseconds in total.
    pub us: u64,
}

/// Live objects of one adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectCounts {
    /// User contexts.
    pub uc: u32,
    /// Protection domains.
    pub pd: u32,
    /// Memory regions.
    pub mr: u32,
    /// Completion queues.
    pub cq: u32,
    /// Queue pairs.
    pub qp: u32,
    /// Shared receive queues.
    pub srq: u32,
}

/// Live memory regions of processes, by how the daemon reaches them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RegionCounts {
    /// Shared mappings of files in memory, which the daemon maps too.
    pub mapped: u32,
    /// Ordinary memory that the library has moved into a file, which the daemon maps.
    pub adopted: u32,
    /// The same, except for parts of pages at the edges.
    pub adopted_in_part: u32,
    /// Memory reached by its addresses, which takes system calls, by the reason why it was not adopted; a reason
    /// without regions is absent.
    pub by_address: BTreeMap<String, u32>,
}

/// RDMA traffic of one adapter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RdmaCounters {
    /// Messages sent as requester.
    pub tx_messages: u64,
    /// Payload bytes of these messages.
    pub tx_bytes: u64,
    /// Messages received as responder.
    pub rx_messages: u64,
    /// Payload bytes of these messages.
    pub rx_bytes: u64,
    /// Requests sent again.
    pub retries: u64,
    /// Negative acknowledgements sent.
    pub naks_sent: u64,
    /// Negative acknowledgements received.
    pub naks_received: u64,
    /// Drops, by reason; a reason that never occurred is absent.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
}

/// The Ethernet port of an adapter, as the guest sees it: it transmits `tx` and receives `rx`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EthernetStats {
    /// Whether a QEMU is connected to the stream socket.
    pub connected: bool,
    /// Frames from the guest.
    pub tx_frames: u64,
    /// Bytes of these frames.
    pub tx_bytes: u64,
    /// Frames to the guest.
    pub rx_frames: u64,
    /// Bytes of these frames.
    pub rx_bytes: u64,
    /// Drops, by reason; a reason that never occurred is absent.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
}
