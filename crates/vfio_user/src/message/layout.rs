//! Layouts of the payloads.
//!
//! Little-endian and unaligned, so that a structure can be read in place in the stream. The fields have the names of
//! the specification. Fields that are neither checked nor needed are declared all the same: they are part of the
//! layout.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `VFIO_USER_VERSION`, both directions; JSON text and a NUL may follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Version {
    pub(crate) major: U16,
    pub(crate) minor: U16,
}

/// `VFIO_USER_DMA_MAP`, request; there is no reply payload.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DmaMap {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) offset: U64,
    pub(crate) address: U64,
    pub(crate) size: U64,
}

/// `VFIO_USER_DMA_UNMAP`, request and reply.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DmaUnmap {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) address: U64,
    pub(crate) size: U64,
}

/// `VFIO_USER_DEVICE_GET_INFO`, request and reply.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DeviceInfo {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) num_regions: U32,
    pub(crate) num_irqs: U32,
}

/// `VFIO_USER_DEVICE_GET_REGION_INFO`, request and reply; capabilities may follow in the reply.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RegionInfo {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) index: U32,
    pub(crate) cap_offset: U32,
    pub(crate) size: U64,
    pub(crate) offset: U64,
}

/// "VFIO cap header format" and the fixed part of "VFIO region info cap sparse mmap".
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SparseMmap {
    pub(crate) id: U16,
    pub(crate) version: U16,
    pub(crate) next: U32,
    pub(crate) nr_areas: U32,
    pub(crate) reserved: U32,
}

/// One area of "VFIO region info cap sparse mmap".
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SparseArea {
    pub(crate) offset: U64,
    pub(crate) size: U64,
}

/// `VFIO_USER_DEVICE_GET_IRQ_INFO`, request and reply.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct IrqInfo {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) index: U32,
    pub(crate) count: U32,
}

/// `VFIO_USER_DEVICE_SET_IRQS`, request; booleans may follow. There is no reply payload.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct SetIrqs {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
    pub(crate) index: U32,
    pub(crate) start: U32,
    pub(crate) count: U32,
}

/// `VFIO_USER_REGION_READ` and `VFIO_USER_REGION_WRITE`, request and reply; data may follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RegionAccess {
    pub(crate) offset: U64,
    pub(crate) region: U32,
    pub(crate) count: U32,
}

/// "Single Device Write Format" of `VFIO_USER_REGION_WRITE_MULTI`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct WriteOne {
    pub(crate) access: RegionAccess,
    pub(crate) data: [u8; 8],
}

/// `VFIO_USER_DMA_READ` and `VFIO_USER_DMA_WRITE`, request and reply; data may follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DmaAccess {
    pub(crate) address: U64,
    pub(crate) count: U64,
}

/// `VFIO_USER_DEVICE_FEATURE`, request and reply; data may follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct DeviceFeature {
    pub(crate) argsz: U32,
    pub(crate) flags: U32,
}

/// Data of `VFIO_DEVICE_FEATURE_MIGRATION`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FeatureMigration {
    pub(crate) flags: U64,
}

/// Data of `VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct FeatureState {
    pub(crate) device_state: U32,
    pub(crate) data_fd: U32,
}

/// Data of `VFIO_DEVICE_FEATURE_DMA_LOGGING_START`; ranges follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LoggingStart {
    pub(crate) page_size: U64,
    pub(crate) num_ranges: U32,
    pub(crate) reserved: U32,
}

/// One range of `VFIO_DEVICE_FEATURE_DMA_LOGGING_START`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LoggingRange {
    pub(crate) iova: U64,
    pub(crate) length: U64,
}

/// Data of `VFIO_DEVICE_FEATURE_DMA_LOGGING_REPORT`; a bitmap follows in the reply.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct LoggingReport {
    pub(crate) iova: U64,
    pub(crate) length: U64,
    pub(crate) page_size: U64,
}

/// `VFIO_USER_MIG_DATA_READ`, request and reply, and `VFIO_USER_MIG_DATA_WRITE`, request; data may follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct MigrationData {
    pub(crate) argsz: U32,
    pub(crate) size: U32,
}
