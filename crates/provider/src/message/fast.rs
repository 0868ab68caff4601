//! Messages to reach a peer's memory without the daemon: [`crate::fast`].

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call;

/// Bits of [`super::Hello::flags`].
pub mod hello_flag {
    /// Peers of the same user that set this bit too may reach this process's memory themselves. The reply brings a page
    /// of grants.
    pub const FAST_LOCAL: u32 = 1;
    /// The client puts messages in place that completions enclose: its completion queues have a data area.
    pub const ENCLOSED: u32 = 2;
}

/// Asks for a grant to READ and WRITE the region of `rkey` over a connected queue pair. The reply brings a descriptor
/// of the memory; the client is trusted to keep to the region. Errors: `EACCES` (the peer is of another user,
/// elsewhere, or does not allow it; no such region, no right), `EAGAIN` (too many grants). Without a grant the daemon
/// carries the requests, and its answer counts.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Reach {
    /// Handle of the queue pair.
    pub qp: u32,
    /// Peer's key.
    pub rkey: u32,
}
call!(Reach = Reach -> Reached);

/// A grant.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Reached {
    /// Address of the region's first byte, as requests name it.
    pub start: u64,
    /// Bytes of the region.
    pub length: u64,
    /// Offset of the first byte in the descriptor.
    pub offset: u64,
    /// Rights: `REMOTE_READ`, `REMOTE_WRITE` of [`super::access`].
    pub access: u32,
    /// Index of the grant in the page of grants.
    pub index: u32,
    /// Value in the page while the grant holds.
    pub generation: u32,
    /// Zero.
    pub reserved: u32,
}
