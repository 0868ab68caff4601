//! Protection domains, memory regions and windows.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Done, call};

/// Bits of access: `enum ibv_access_flags`. Unknown bits of the optional range (20 to 29) are ignored, other unknown
/// bits are refused.
pub mod access {
    /// The device may write.
    pub const LOCAL_WRITE: u32 = 1;
    /// Peers may write.
    pub const REMOTE_WRITE: u32 = 2;
    /// Peers may read.
    pub const REMOTE_READ: u32 = 4;
    /// Peers may do atomics.
    pub const REMOTE_ATOMIC: u32 = 8;
    /// Windows may be bound to the region.
    pub const MW_BIND: u32 = 16;
    /// Addresses of the region start at 0.
    pub const ZERO_BASED: u32 = 32;
    /// No page is needed before it is touched.
    pub const ON_DEMAND: u32 = 64;
    /// Hint.
    pub const HUGETLB: u32 = 128;
}

/// Makes a protection domain.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AllocPd {}
call!(AllocPd = AllocPd -> PdReply);

/// A protection domain.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct PdReply {
    /// Handle.
    pub pd: u32,
}

/// Ends a protection domain. `EBUSY` while it holds objects.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DeallocPd {
    /// Handle.
    pub pd: u32,
}
call!(DeallocPd = DeallocPd -> Done);

/// Asks for `/dev/userfaultfd`, open for reading and writing; its descriptor comes with the reply. A userfaultfd made
/// from it is for the client's memory and stops the kernel's accesses, too. Errors: `ENODEV` (the daemon hands out
/// none), `EMFILE`.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct Userfaultfd {}
call!(Userfaultfd = Userfaultfd -> Done);

/// The file behind a shared mapping, whose descriptor comes with the request.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct FileRange {
    /// Offset in the file of the first byte to map, a multiple of 4096.
    pub offset: u64,
    /// Bytes to map, a multiple of 4096: they cover all of the region, or lie inside it; 0: no file.
    pub length: u64,
    /// Address at which the client has mapped the first byte, a multiple of 4096.
    pub address: u64,
}

/// Registers memory. The client has made sure that the range is mapped, and writable if the access asks for it
/// (`MADV_POPULATE_WRITE`, `MADV_POPULATE_READ`, or a file that has all its pages), unless the region is on demand; the
/// daemon finds out anyway when it touches the range. Errors: `EINVAL`, `EFAULT`, `ENOMEM` (quota).
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct RegMr {
    /// Address of the first byte in the client's memory.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// Address of the first byte, as work requests and peers name it.
    pub iova: u64,
    /// Handle of the protection domain.
    pub pd: u32,
    /// Bits of [`access`].
    pub access: u32,
    /// Optional file behind the memory.
    pub file: FileRange,
    /// [`Adoption`](super::Adoption): whether the memory was moved into that file, or why not.
    pub adoption: u32,
    /// Zero.
    pub reserved: u32,
}
call!(RegMr = RegMr -> MrReply);

/// A region.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct MrReply {
    /// Handle.
    pub mr: u32,
    /// Local key.
    pub lkey: u32,
    /// Remote key.
    pub rkey: u32,
}

/// Replaces all of a region; its keys stay. `EAGAIN` as for [`DeregMr`]. `EBUSY` while a window is bound to the region.
/// Other errors as for [`RegMr`]. After any error the region is as before.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct ReregMr {
    /// The new region.
    pub wanted: RegMr,
    /// Handle of the region.
    pub mr: u32,
    /// Zero.
    pub reserved: u32,
}
call!(ReregMr = ReregMr -> MrReply);

/// Ends a region: after the reply nothing reaches it any more. `EAGAIN`: a peer with a grant ([`Reach`](super::Reach))
/// is in the middle of a copy, and gets no further grant; ask once more. A peer that stands still for a second is not
/// waited for.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DeregMr {
    /// Handle.
    pub mr: u32,
}
call!(DeregMr = DeregMr -> Done);

/// Makes an unbound memory window; binding is a work request.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AllocMw {
    /// Handle of the protection domain.
    pub pd: u32,
    /// 1 or 2: `enum ibv_mw_type`.
    pub mw_type: u32,
}
call!(AllocMw = AllocMw -> MwReply);

/// A memory window.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct MwReply {
    /// Handle.
    pub mw: u32,
    /// The first rkey.
    pub rkey: u32,
}

/// Ends a memory window.
#[derive(
    Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct DeallocMw {
    /// Handle.
    pub mw: u32,
}
call!(DeallocMw = DeallocMw -> Done);
