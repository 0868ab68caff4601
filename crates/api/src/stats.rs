//! Counters. All count from the adapter's creation and never go back.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Name;

/// Everything that is counted for one adapter.
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
    /// A QEMU is connected to the vfio-user socket, or a process has the adapter open.
    pub guest_connected: bool,
    /// Processes that have it open, each with one or more of the contexts in `objects`; absent for an
    /// adapter that is not of processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// What the device is doing, in the words of the device: `reset`, `active` and so on.
    pub state: String,
    /// Version of the guest's driver, once it has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_version: Option<u32>,
    /// GIDs that the guest has bound.
    #[serde(default)]
    pub gids: Vec<String>,
    /// Addresses that the guest has used first, if its adapter learns them: it is kept to these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<IpAddr>,
    /// Live objects.
    pub objects: ObjectCounts,
    /// How registered memory of processes is reached; absent for an adapter that is not of processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<RegionCounts>,
    /// `rdma_cm` services that processes offer here; a guest's are its kernel's business.
    #[serde(default)]
    pub listeners: u32,
    /// Calls to those that wait for an answer, or for their caller.
    #[serde(default)]
    pub half_open_calls: u32,
    /// Calls that were refused for want of room.
    #[serde(default)]
    pub refused_calls: u64,
    /// How limits held up what it sends.
    #[serde(default)]
    pub throttled: Throttled,
    /// The same of who sends to it.
    #[serde(default)]
    pub throttled_in: Throttled,
    /// Traffic.
    pub counters: RdmaCounters,
    /// Lines about its guest or programs that the log was not told, since there were too many.
    #[serde(default)]
    pub log_lines_left_out: u64,
    /// What is wrong with the guest's set-up: a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// How often and how long somebody with something to send has waited for a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Throttled {
    /// How often.
    pub times: u64,
    /// Microseconds in all.
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
    /// The same, but for what is no whole page at the edges.
    pub adopted_in_part: u32,
    /// By their addresses, which takes system calls, by why they were not adopted; a reason that there is none of is absent.
    pub by_address: BTreeMap<String, u32>,
}

/// RDMA traffic of one adapter.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RdmaCounters {
    /// Messages sent as requester.
    pub tx_messages: u64,
    /// Payload bytes of those.
    pub tx_bytes: u64,
    /// Messages taken as responder.
    pub rx_messages: u64,
    /// Payload bytes of those.
    pub rx_bytes: u64,
    /// Requests sent again.
    pub retries: u64,
    /// Negative acknowledgements given.
    pub naks_sent: u64,
    /// Negative acknowledgements got.
    pub naks_received: u64,
    /// What was thrown away, by reason; a reason that never happened is absent.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
}

/// The Ethernet port of an adapter, as the guest sees it: it transmits `tx` and receives `rx`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EthernetStats {
    /// A QEMU is connected to the stream socket.
    pub connected: bool,
    /// Frames from the guest.
    pub tx_frames: u64,
    /// Bytes of those.
    pub tx_bytes: u64,
    /// Frames to the guest.
    pub rx_frames: u64,
    /// Bytes of those.
    pub rx_bytes: u64,
    /// What was thrown away, by reason; a reason that never happened is absent.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
}
