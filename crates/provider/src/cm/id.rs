//! Channels and identifiers, and the addresses that they are bound to.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::message::Name;

/// [`Endpoint::family`].
pub mod family {
    /// No address.
    pub const NONE: u16 = 0;
    /// `AF_INET`.
    pub const INET: u16 = 2;
    /// `AF_INET6`.
    pub const INET6: u16 = 10;
}

/// [`CreateId::space`]: `enum rdma_port_space`.
pub mod space {
    /// Connections.
    pub const TCP: u32 = 0x0106;
    /// Datagrams.
    pub const UDP: u32 = 0x0111;
}

/// [`CreateId::qp_type`]: `enum ibv_qp_type`.
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
    /// [`family`].
    pub family: u16,
    /// In the order of the machine.
    pub port: u16,
    /// Scope of a link-local address.
    pub scope: u32,
    /// In the order of the wire; an IPv4 address in front.
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
    /// Which.
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
    /// Where its events go.
    pub channel: u64,
    /// [`space`].
    pub space: u32,
    /// [`qp_type`].
    pub qp_type: u32,
}

/// Ends an identifier and whatever it is doing. Its events are gone, and so are the calls that its
/// waiting events told of.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DestroyId {
    /// Which.
    pub id: u64,
}

/// Takes a local address and port; port 0 takes a free one. `EADDRNOTAVAIL`, `EADDRINUSE`, `EINVAL` (bound
/// already).
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Bind {
    /// Which.
    pub id: u64,
    /// Where; an address of zeros is all addresses.
    pub local: Endpoint,
}

/// Where an identifier is.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Bound {
    /// Addresses.
    pub route: Route,
}

/// What an identifier knows of its addresses.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Route {
    /// Adapter; empty until the address says which.
    pub adapter: Name,
    /// As bound.
    pub local: Endpoint,
    /// As resolved, or the caller's.
    pub remote: Endpoint,
    /// Of the adapter.
    pub sgid: [u8; 16],
    /// Of the peer.
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

/// Finds the way to an address; tells by an event. The identifier is bound if it was not.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ResolveAddress {
    /// Which.
    pub id: u64,
    /// From; no family for any.
    pub local: Endpoint,
    /// To.
    pub remote: Endpoint,
    /// Milliseconds.
    pub timeout: u32,
    /// Zero.
    pub reserved: u32,
}

/// Finds the path; tells by an event.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ResolveRoute {
    /// Which.
    pub id: u64,
    /// Milliseconds.
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
    /// Which.
    pub id: u64,
    /// Calls that may wait; 0 for the most.
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
    /// Which.
    pub id: u64,
    /// Where to.
    pub channel: u64,
}

/// [`SetOption::option`].
pub mod option {
    /// Traffic class.
    pub const TYPE_OF_SERVICE: u32 = 0;
    /// Several identifiers may have the port.
    pub const REUSE_ADDRESS: u32 = 1;
    /// All addresses means those of the family only.
    pub const FAMILY_ONLY: u32 = 2;
    /// Timeout code of acknowledgements.
    pub const ACK_TIMEOUT: u32 = 3;
}

/// Sets an option before the identifier is bound or connects.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct SetOption {
    /// Which.
    pub id: u64,
    /// [`option`].
    pub option: u32,
    /// Its value.
    pub value: u32,
}
