//! The interface that the device and its guest driver share: registers, shared structures, codes.
//!
//! Every structure is little-endian, byte aligned and without hidden padding, so it can be copied to and from guest
//! memory as it stands. Offsets are checked against the Linux driver's headers
//! (`drivers/infiniband/hw/vmw_pvrdma/pvrdma_dev_api.h`, `pvrdma_verbs.h`, `pvrdma_ring.h` and
//! `include/uapi/rdma/vmw_pvrdma-abi.h`) in the module's tests.

/// Declares structures of shared memory: copied as bytes, and all zero by default.
macro_rules! shared {
    ($($(#[$doc:meta])* pub struct $name:ident {
        $($(#[$field_doc:meta])* pub $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(
            Clone,
            Copy,
            PartialEq,
            Eq,
            Debug,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::Immutable,
            zerocopy::KnownLayout,
            zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }
    )*};
}

pub mod command;
pub mod completion;
pub mod doorbell;
pub mod event;
pub mod qp;
pub mod region;
pub mod register;
pub mod request;
pub mod response;
pub mod work;

pub use zerocopy::little_endian::{U16, U32, U64};

/// Bytes of a page; UAR pages and ring pages are as large.
pub const PAGE: u64 = 4096;

/// Device and driver protocol versions: each side follows the other's number.
pub mod version {
    /// Oldest supported version: RoCE v1.
    pub const ROCE_V1: u32 = 17;
    /// RoCE v2 and two more capabilities.
    pub const ROCE_V2: u32 = 18;
    /// 64-bit page frame numbers.
    pub const PFN_64: u32 = 19;
    /// Separate QP handle and QP number.
    pub const QP_HANDLE: u32 = 20;
}

#[cfg(test)]
mod tests;
