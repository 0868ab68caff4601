//! The control API of `vrdmad`: what travels as JSON over its Unix socket.
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
//! | `POST /v1/adapters/NAME/track` | - | [`TrackedAdapter`]: the pages that it writes are noted |
//! | `GET /v1/adapters/NAME/written` | - | [`WrittenMemory`] of an adapter since it is tracked |
//! | `POST /v1/adapters/NAME/freeze` | [`FreezeRequest`], or nothing | the context of an adapter that does nothing any more, as bytes |
//! | `POST /v1/adapters/NAME/expect` | - | [`Destination`]: where another daemon may bring the adapter's context, once |
//! | `POST /v1/adapters/NAME/reach` | [`Destination`] | nothing: the daemon there answers, and expects the context |
//! | `POST /v1/adapters/NAME/hand-over` | [`HandOverRequest`] | [`HandedOverContext`]: frozen, and its context is there |
//! | `POST /v1/adapters/NAME/resend` | - | [`WrittenMemory`] of a frozen adapter, which QEMU sends as if the guest had written it |
//! | `POST /v1/adapters/NAME/save` | - | the same of an adapter that goes on at once |
//! | `POST /v1/adapters/NAME/thaw` | - | nothing: it goes on as if nothing had been |
//! | `POST /v1/adapters/NAME/release` | - | nothing: the frozen adapter is another daemon's |
//! | `PUT /v1/adapters/NAME/context` | a context | [`ArrivedContext`] |
//! | `GET /v1/adapters/NAME/context` | - | [`ArrivedContext`], if the adapter can be restored, or was |
//! | `DELETE /v1/adapters/NAME/context` | - | nothing |
//! | `POST /v1/adapters/NAME/restore` | [`RestoreRequest`] | nothing: the adapter was made from its context, and does nothing yet |
//! | `GET /v1/adapters/NAME/memory-digest` | - | [`MemoryDigest`] of the guest of a frozen adapter |
//! | `POST /v1/adapters/NAME/activate` | - | nothing: an adapter that was restored goes on |
//!
//! A trace begins with the first request for it and ends 5 seconds after the last. Its answer is no
//! JSON but 8 bytes with the number of packets that came too fast, highest first, and then records of
//! a pcap file (nanoseconds, Ethernet, the host's byte order).
//!
//! This room knows names and shapes only: not who serves them, not what an adapter is made of.

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
    /// What is wrong and how to mend it.
    pub error: String,
}

/// Where a port group, adapter, uplink or peer comes from, hence whether it outlives the daemon.
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
