//! The control API of `vrdmad`: the JSON that is sent over its Unix socket.
//!
//! HTTP/1.1 on a socket that only the daemon's user can open. Every answer other than 2xx carries an
//! [`ApiError`]. Requests refuse unknown fields; answers may grow fields, and clients ignore those
//! they do not know.
//!
//! | method and path | body | answer |
//! |---|---|---|
//! | `GET /v1/status` | - | [`Status`] |
//! | `GET /v1/portgroups` | - | list of [`PortGroup`] |
//! | `POST /v1/portgroups` | [`PortGroupRequest`] | [`PortGroup`] |
//! | `PATCH /v1/portgroups/NAME` | [`PortGroupChange`] | [`PortGroup`] |
//! | `DELETE /v1/portgroups/NAME` | - | nothing |
//! | `GET /v1/adapters` | - | list of [`Adapter`] |
//! | `POST /v1/adapters` | [`AdapterRequest`] | [`Adapter`] |
//! | `GET /v1/adapters/NAME` | - | [`Adapter`] |
//! | `PATCH /v1/adapters/NAME` | [`AdapterChange`] | [`Adapter`] |
//! | `DELETE /v1/adapters/NAME` | - | nothing |
//! | `GET /v1/uplinks` | - | list of [`Uplink`] |
//! | `POST /v1/uplinks` | [`UplinkRequest`] | [`Uplink`] |
//! | `GET /v1/uplinks/NAME` | - | [`Uplink`] |
//! | `DELETE /v1/uplinks/NAME` | - | nothing |
//! | `GET /v1/peers` | - | list of [`Peer`] |
//! | `POST /v1/peers` | [`PeerRequest`] | [`Peer`] |
//! | `DELETE /v1/uplinks/NAME/peers/ADDRESS` | - | nothing |
//! | `GET /v1/users` | - | [`Usage`] |
//! | `GET /v1/stats` | - | list of [`AdapterStats`] |
//! | `GET /v1/adapters/NAME/stats` | - | [`AdapterStats`] |
//! | `GET /v1/adapters/NAME/state` | - | [`AdapterState`], for bug reports |
//! | `POST /v1/adapters/NAME/move` | [`MoveRequest`] | [`Adapter`] |
//! | `POST /v1/adapters/NAME/hold` | - | an empty body without an end: the adapter goes with the connection |
//! | `POST /v1/adapters/NAME/trace` | - | packets on the wire since the last such request, see below |
//! | `POST /v1/adapters/NAME/track` | - | [`TrackedAdapter`]: the pages that it writes are tracked |
//! | `GET /v1/adapters/NAME/written` | - | [`WrittenMemory`] of an adapter since it was tracked |
//! | `POST /v1/adapters/NAME/freeze` | [`FreezeRequest`], or nothing | bytes: the context of the adapter, now frozen |
//! | `POST /v1/adapters/NAME/expect` | - | [`Destination`]: another daemon may bring the context there, once |
//! | `POST /v1/adapters/NAME/reach` | [`Destination`] | nothing: the daemon there answers, and expects the context |
//! | `POST /v1/adapters/NAME/hand-over` | [`HandOverRequest`] | [`HandedOverContext`]: frozen, its context is there |
//! | `POST /v1/adapters/NAME/resend` | - | [`WrittenMemory`] of a frozen adapter: QEMU sends it as the guest's |
//! | `POST /v1/adapters/NAME/save` | - | the context of a tracked adapter, which goes on at once |
//! | `POST /v1/adapters/NAME/thaw` | - | nothing: the adapter goes on as if nothing had happened |
//! | `POST /v1/adapters/NAME/release` | - | nothing: the frozen adapter is another daemon's now |
//! | `PUT /v1/adapters/NAME/context` | a context | [`ArrivedContext`] |
//! | `GET /v1/adapters/NAME/context` | - | [`ArrivedContext`], if the adapter can be restored, or was |
//! | `DELETE /v1/adapters/NAME/context` | - | nothing |
//! | `POST /v1/adapters/NAME/restore` | [`RestoreRequest`] | nothing: made from its context, the adapter does nothing yet |
//! | `GET /v1/adapters/NAME/memory-digest` | - | [`MemoryDigest`] of the guest of a frozen adapter |
//! | `POST /v1/adapters/NAME/activate` | - | nothing: the restored adapter goes on |
//!
//! A trace begins with the first request for it and ends 5 seconds after the last. Its answer is not JSON, but 8 bytes
//! with the number of packets that came too fast, big-endian, and then records of a pcap file (nanoseconds, Ethernet,
//! the host's byte order).
//!
//! This room knows only names and data types: not which thread serves an adapter, nor what an adapter consists of.

#![forbid(unsafe_code)]

mod adapter;
mod addresses;
mod guarantee;
pub mod installation;
mod limits;
mod mac;
mod migration;
mod name;
pub mod paths;
mod poll;
mod portgroup;
mod protection;
mod rate;
mod relay;
mod shard;
mod state;
mod stats;
mod status;
mod ticket;
mod unix_name;
mod uplink;
mod usage;

use serde::{Deserialize, Serialize};

pub use adapter::{Adapter, AdapterChange, AdapterKind, AdapterRequest, DoorbellMode};
pub use addresses::Addresses;
pub use guarantee::{Contradiction, Guarantee};
pub use limits::{Limits, LimitsChange, NotAWeight, NotAnOpsRate, OpsRate, Weight};
pub use mac::{MacAddress, NotAMac};
pub use migration::{
    ArrivedContext, CONTEXT_BYTES_MAX, DIGEST_CHUNK_BYTES, Destination, DigestedRange,
    FreezeRequest, HandOverRequest, HandedOverContext, MSIX_TABLE_WORDS, MemoryDigest,
    RestoreRequest, TrackedAdapter, WrittenMemory,
};
pub use name::{Name, NotAName};
pub use poll::PollMode;
pub use portgroup::{
    NotAVlan, NotAVni, PortGroup, PortGroupChange, PortGroupDrops, PortGroupRequest, Vlan, Vni,
};
pub use protection::Protection;
pub use rate::{NotARate, Rate};
pub use relay::{RelayBlock, RelayRequest, RelayTold};
pub use shard::{MoveRequest, ShardStatus};
pub use state::{
    AdapterState, CqState, MrState, OBJECTS_TOLD_MAX, ObjectStates, QpState, SrqState,
};
pub use stats::{
    AdapterStats, EthernetStats, ObjectCounts, RdmaCounters, RdmaStats, RegionCounts, Throttled,
};
pub use status::{Keeper, Status, Upgrade, UpgradeOutcome};
pub use ticket::{NotATicket, Ticket};
pub use unix_name::{NotAUnixName, UnixName};
pub use uplink::{
    Endpoint, FrameStats, Interface, NotAnEndpoint, NotAnInterface, Peer, PeerRequest, Uplink,
    UplinkKind, UplinkRequest, UplinkStats,
};
pub use usage::{ResourceUsage, Usage, UserUsage};

/// Why a request was refused: one sentence for a person.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ApiError {
    /// What is wrong and how to correct it.
    pub error: String,
}

/// Origin of a port group, adapter, uplink or peer, which decides whether it outlives the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The configuration file: back after a restart.
    Config,
    /// A request to the running daemon: gone when it stops.
    Runtime,
}

#[cfg(test)]
mod tests;
