//! Multicast groups.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::id::Endpoint;

/// Joins the group of an address; an event tells the group's GID and key.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Join {
    /// The identifier.
    pub id: u64,
    /// A multicast address.
    pub group: Endpoint,
    /// `enum rdma_cm_mc_join_flags`.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// A group that an identifier has joined.
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
    /// The group's number.
    pub group: u64,
}
