//! Channels, identifiers, and the addresses that identifiers are bound to.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::message::Name;

/// Values of [`Endpoint::family`].
pub mod family {
    /// No address.
    pub const NONE: u16 = 0;
    /// `AF_INET`.
    pub const INET: u16 = 2;
    /// `AF_INET6`.
    pub const INET6: u16 = 10;
}

/// Values of [`CreateId::space`]: `enum rdma_port_space`.
pub mod space {
    /// Connections.
    pub const TCP: u32 = 0x0106;
    /// Datagrams.
    pub const UDP: u32 = 0x0111;
}

/// Values of [`CreateId::qp_type`]: `enum ibv_qp_type`.
pub mod qp_type {
    /// Reliable connection.
    pub const RC: u32 = 2;
    /// Unreliable connection.
    pub const UC: u32 = 3;
    /// Datagrams.
    pub const UD: u32 = 4;
}

/// An IP address and a port.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Endpoint {
    /// One of [`family`].
    pub family: u16,
    /// Port in host byte order.
    pub port: u16,
    /// Scope of a link-local address.
    pub scope: u32,
    /// Address in network byte order; an IPv4 address takes the first 4 bytes.
    pub address: [u8; 16],
}

/// Makes an event channel. The descriptor with the reply is the reading end of its pipe.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateChannel {}

/// Ends a channel: `EBUSY` while it has identifiers.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyChannel {
    /// The channel.
    pub channel: u64,
}

/// Number of a new channel or identifier.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct IdReply {
    /// The number.
    pub id: u64,
}

/// Makes an identifier.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CreateId {
    /// The channel for its events.
    pub channel: u64,
    /// One of [`space`].
    pub space: u32,
    /// One of [`qp_type`].
    pub qp_type: u32,
}

/// Ends an identifier and whatever it is doing. Drops its waiting events, and with them the connection requests that
/// they told of.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyId {
    /// The identifier.
    pub id: u64,
}

/// Binds to a local address and port; port 0 takes a free one. Errors: `EADDRNOTAVAIL`, `EADDRINUSE`, `EINVAL` (bound
/// already).
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Bind {
    /// The identifier.
    pub id: u64,
    /// The address; zeros stand for all addresses.
    pub local: Endpoint,
}

/// Addresses of a bound identifier.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Bound {
    /// Addresses.
    pub route: Route,
}

/// Addresses of an identifier, as far as they are known.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Route {
    /// Adapter; empty until the address determines it.
    pub adapter: Name,
    /// Local address, as bound.
    pub local: Endpoint,
    /// Remote address, as resolved; for an incoming connection, that of the peer.
    pub remote: Endpoint,
    /// GID of the adapter.
    pub sgid: [u8; 16],
    /// GID of the peer.
    pub dgid: [u8; 16],
    /// Code of the path MTU, 1 to 5.
    pub mtu: u8,
    /// Index of `sgid` in the adapter's table.
    pub sgid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Zero.
    pub reserved: u32,
}

/// Resolves an address; an event tells the result. Binds the identifier if it was not bound.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ResolveAddress {
    /// The identifier.
    pub id: u64,
    /// Source; no family for any.
    pub local: Endpoint,
    /// Destination.
    pub remote: Endpoint,
    /// Timeout in milliseconds.
    pub timeout: u32,
    /// Zero.
    pub reserved: u32,
}

/// Finds the path; an event tells the result.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ResolveRoute {
    /// The identifier.
    pub id: u64,
    /// Timeout in milliseconds.
    pub timeout: u32,
    /// Zero.
    pub reserved: u32,
}

/// Listens. Binds to all addresses and a free port if the identifier is not bound.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Listen {
    /// The identifier.
    pub id: u64,
    /// Most connection requests that may wait; 0 for the maximum.
    pub backlog: u32,
    /// Zero.
    pub reserved: u32,
}

/// Moves an identifier and its waiting events to another channel.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Migrate {
    /// The identifier.
    pub id: u64,
    /// The channel to move to.
    pub channel: u64,
}

/// Values of [`SetOption::option`].
pub mod option {
    /// Traffic class.
    pub const TYPE_OF_SERVICE: u32 = 0;
    /// Several identifiers may share the port.
    pub const REUSE_ADDRESS: u32 = 1;
    /// "All addresses" means only those of the family.
    pub const FAMILY_ONLY: u32 = 2;
    /// Code of the acknowledgement timeout.
    pub const ACK_TIMEOUT: u32 = 3;
}

/// Sets an option before the identifier is bound or connects.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SetOption {
    /// The identifier.
    pub id: u64,
    /// One of [`option`].
    pub option: u32,
    /// Its value.
    pub value: u32,
}
