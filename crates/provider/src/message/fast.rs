//! Reaching a peer's memory without the daemon: [`crate::fast`].

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::call;

/// Bits of [`super::Hello::flags`].
pub mod hello_flag {
    /// Peers of the same user who say so too may reach this process's memory themselves, and the
    /// reply brings a page of grants.
    pub const FAST_LOCAL: u32 = 1;
    /// It puts messages in place that completions enclose: its completion queues have a data area.
    pub const ENCLOSED: u32 = 2;
}

/// Asks for a grant to READ and WRITE the region that `rkey` names, over a connected queue pair. The
/// reply brings a descriptor of the memory: with it the client is trusted to keep to the region.
/// Errors: `EACCES` (the peer is of another user, elsewhere, or does not want it; no such region, no
/// right), `EAGAIN` (too many grants). Without a grant requests go by the daemon, whose answer counts.
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
    /// Address of the region's first byte as requests name it.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Where the first byte is in the descriptor.
    pub offset: u64,
    /// `REMOTE_READ`, `REMOTE_WRITE` of [`super::access`].
    pub access: u32,
    /// In the page of grants.
    pub index: u32,
    /// What the page says while the grant holds.
    pub generation: u32,
    /// Zero.
    pub reserved: u32,
}
