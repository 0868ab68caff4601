//! The objects of an adapter at one moment, for bug reports: no keys, no addresses of memory, no payload.

use serde::{Deserialize, Serialize};

use crate::{Name, RdmaStats};

/// Most objects of one kind that are listed; `rdma.objects` has their number.
pub const OBJECTS_TOLD_MAX: usize = 1024;

/// An adapter at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdapterState {
    /// The adapter.
    pub name: Name,
    /// Its state, addresses and counters.
    pub rdma: RdmaStats,
    /// Its objects.
    #[serde(flatten)]
    pub objects: ObjectStates,
}

/// The first [`OBJECTS_TOLD_MAX`] objects of each kind, by number.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ObjectStates {
    /// Queue pairs.
    pub qps: Vec<QpState>,
    /// Completion queues.
    pub cqs: Vec<CqState>,
    /// Shared receive queues.
    pub srqs: Vec<SrqState>,
    /// Memory regions and windows.
    pub mrs: Vec<MrState>,
}

/// A queue pair. PSNs are 24 bits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QpState {
    /// Its number on the wire.
    pub number: u32,
    /// `gsi`, `rc`, `uc` or `ud`.
    pub service: String,
    /// `reset`, `init`, `rtr`, `rts`, `sqd`, `sqe` or `err`.
    pub state: String,
    /// The guest's program, or the client, that owns it; 0 is the guest's kernel.
    pub owner: u32,
    /// CQ of its sends.
    pub send_cq: u32,
    /// CQ of its receives.
    pub recv_cq: u32,
    /// Shared receive queue that its receives come from, if not from its own queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub srq: Option<u32>,
    /// The GID that it is connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The queue pair there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_number: Option<u32>,
    /// Most bytes of payload in a packet.
    pub mtu: u32,
    /// First PSN that the peer is not known to have executed.
    pub unacked_psn: u32,
    /// PSN of the next packet.
    pub next_psn: u32,
    /// PSN expected of the peer's next request.
    pub expected_psn: u32,
    /// Messages completed for the peer, modulo 2^24.
    pub msn: u32,
    /// Send requests that are not completed.
    pub sends: u32,
    /// Receives that the adapter has fetched from its own queue.
    pub receives: u32,
    /// Retries since the last progress.
    pub retries: u8,
    /// RNR retries since the last progress.
    pub rnr_retries: u8,
}

/// A completion queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CqState {
    /// Its number.
    pub number: u32,
    /// As for a queue pair.
    pub owner: u32,
    /// Whether it overflowed or could not be written.
    pub failed: bool,
}

/// A shared receive queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SrqState {
    /// Its number.
    pub number: u32,
    /// As for a queue pair.
    pub owner: u32,
    /// Its protection domain.
    pub pd: u32,
    /// Number of receives below which an event is due; 0 for never.
    pub limit: u32,
    /// Whether it could not be read.
    pub failed: bool,
    /// Receives that the adapter has fetched from it.
    pub receives: u32,
}

/// A memory region or window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MrState {
    /// Its index in the adapter's table, which its keys do not reveal.
    pub slot: u32,
    /// Its protection domain.
    pub pd: u32,
    /// `user`, `dma`, `fast-register`, `window-1` or `window-2`.
    pub kind: String,
    /// Bytes.
    pub bytes: u64,
    /// Rights among `local-write`, `remote-write`, `remote-read`, `remote-atomic`, `bind-window`.
    pub access: Vec<String>,
    /// Whether there is memory behind it; not for fast-register regions and windows that are not bound.
    pub valid: bool,
}
