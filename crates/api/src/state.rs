//! What an adapter is made of at the moment, for bug reports: no keys, no addresses of memory, no payload.

use serde::{Deserialize, Serialize};

use crate::{Name, RdmaStats};

/// Objects of one kind that are told of, the most; `rdma.objects` has how many there are.
pub const OBJECTS_TOLD_MAX: usize = 1024;

/// An adapter at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdapterState {
    /// The adapter.
    pub name: Name,
    /// Its state, addresses and counters.
    pub rdma: RdmaStats,
    /// What it has.
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
    /// The program of the guest, or the client, whose it is; 0 is the guest's kernel.
    pub owner: u32,
    /// Where its sends complete.
    pub send_cq: u32,
    /// Where its receives complete.
    pub recv_cq: u32,
    /// Where its receives come from, if not from its own queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub srq: Option<u32>,
    /// The GID that it is connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// And the queue pair there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_number: Option<u32>,
    /// Bytes of payload of a packet.
    pub mtu: u32,
    /// First PSN that the peer is not known to have executed.
    pub unacked_psn: u32,
    /// PSN of the next packet.
    pub next_psn: u32,
    /// PSN that the peer's next request has.
    pub expected_psn: u32,
    /// Messages completed for the peer, modulo 2^24.
    pub msn: u32,
    /// Send requests that are not completed.
    pub sends: u32,
    /// Receives that the adapter has fetched from its own queue.
    pub receives: u32,
    /// Times gone back since the last progress.
    pub retries: u8,
    /// Unready receivers met since the last progress.
    pub rnr_retries: u8,
}

/// A completion queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CqState {
    /// Its number.
    pub number: u32,
    /// As that of a queue pair.
    pub owner: u32,
    /// It overflowed or could not be written.
    pub failed: bool,
}

/// A shared receive queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SrqState {
    /// Its number.
    pub number: u32,
    /// As that of a queue pair.
    pub owner: u32,
    /// Its protection domain.
    pub pd: u32,
    /// Receives below which an event is due; 0 for never.
    pub limit: u32,
    /// It could not be read.
    pub failed: bool,
    /// Receives that the adapter has fetched from it.
    pub receives: u32,
}

/// A memory region or window.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MrState {
    /// Its place in the adapter's table, which its keys do not tell.
    pub slot: u32,
    /// Its protection domain.
    pub pd: u32,
    /// `user`, `dma`, `fast-register`, `window-1` or `window-2`.
    pub kind: String,
    /// Bytes.
    pub bytes: u64,
    /// Of `local-write`, `remote-write`, `remote-read`, `remote-atomic`, `bind-window`.
    pub access: Vec<String>,
    /// There is memory behind it; not with fast-register regions and windows that are not bound.
    pub valid: bool,
}
