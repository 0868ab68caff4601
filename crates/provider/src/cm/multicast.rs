//! Multicast groups.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::id::Endpoint;

/// Joins the group of an address; tells by an event with the group's GID and key.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Join {
    /// Which.
    pub id: u64,
    /// A multicast address.
    pub group: Endpoint,
    /// `enum rdma_cm_mc_join_flags`.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// A group of an identifier.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct JoinReply {
    /// Its number.
    pub group: u64,
}

/// Leaves a group.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Leave {
    /// Which.
    pub group: u64,
}
