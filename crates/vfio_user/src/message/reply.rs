//! Payloads of the answers that describe the device.

use std::ops::Range;

use zerocopy::{FromBytes, IntoBytes};

use super::layout::{
    DeviceFeature, DeviceInfo, FeatureMigration, FeatureState, IrqInfo, LoggingReport,
    MigrationData, RegionInfo, SparseArea, SparseMmap,
};
use super::{INTX_IRQ, IRQ_TYPE_COUNT, Query, REGION_COUNT, Report};
use crate::backend::{MmapArea, Region, RegionMmap};
use crate::migration::State;

/// The answer to `DEVICE_GET_INFO`: a PCI device that can be reset.
pub fn device_info() -> [u8; size_of::<DeviceInfo>()] {
    const RESET: u32 = 1 << 0;
    const PCI: u32 = 1 << 1;
    zerocopy::transmute!(DeviceInfo {
        argsz: (size_of::<DeviceInfo>() as u32).into(),
        flags: (RESET | PCI).into(),
        num_regions: REGION_COUNT.into(),
        num_irqs: IRQ_TYPE_COUNT.into(),
    })
}

/// The answer to `DEVICE_GET_IRQ_INFO`.
///
/// `NORESIZE` is not set: with it, QEMU tears all vectors down to add one.
pub fn irq_info(index: u32, count: u32) -> [u8; size_of::<IrqInfo>()] {
    const EVENTFD: u32 = 1 << 0;
    const MASKABLE: u32 = 1 << 1;
    const AUTOMASKED: u32 = 1 << 2;
    let flags = if index == INTX_IRQ {
        EVENTFD | MASKABLE | AUTOMASKED
    } else {
        EVENTFD
    };
    zerocopy::transmute!(IrqInfo {
        argsz: (size_of::<IrqInfo>() as u32).into(),
        flags: flags.into(),
        index: index.into(),
        count: count.into(),
    })
}

/// The answer to `DEVICE_GET_REGION_INFO`; a region that the device lacks has size 0.
///
/// ```text
///   0            32             48        64
///   | RegionInfo | sparse mmap | area 0 | area 1 | ...
///     cap_offset ^   nr_areas
/// ```
///
/// If the client has too little room, only the fixed part is sent, and its `argsz` tells how much room to offer next
/// time (section "Message sizes").
pub fn region_info(query: Query, region: Option<Region>, mmap: Option<&RegionMmap>) -> Vec<u8> {
    let full = size_of::<RegionInfo>() + mmap.map_or(0, sparse_size);
    let info = RegionInfo {
        argsz: (full as u32).into(),
        flags: region_flags(region, mmap).into(),
        index: query.index.into(),
        cap_offset: mmap.map_or(0, |_| size_of::<RegionInfo>() as u32).into(),
        size: region.map_or(0, |region| region.size).into(),
        offset: mmap.map_or(0, |mmap| mmap.offset).into(),
    };
    let mut payload = Vec::with_capacity(full);
    payload.extend_from_slice(info.as_bytes());
    if let Some(mmap) = mmap.filter(|_| full <= query.argsz as usize) {
        sparse(&mut payload, announced(mmap));
    }
    payload
}

fn region_flags(region: Option<Region>, mmap: Option<&RegionMmap>) -> u32 {
    const READ: u32 = 1 << 0;
    const WRITE: u32 = 1 << 1;
    const MMAP: u32 = 1 << 2;
    const CAPS: u32 = 1 << 3;
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    flag(region.is_some_and(|region| region.readable), READ)
        | flag(region.is_some_and(|region| region.writable), WRITE)
        | flag(mmap.is_some(), MMAP | CAPS)
}

fn announced(mmap: &RegionMmap) -> &[MmapArea] {
    &mmap.areas[..mmap.areas.len().min(RegionMmap::MAX_AREAS)]
}

fn sparse_size(mmap: &RegionMmap) -> usize {
    size_of::<SparseMmap>() + size_of_val(announced(mmap))
}

/// "VFIO sparse mmap cap header" and its areas.
fn sparse(payload: &mut Vec<u8>, areas: &[MmapArea]) {
    const CAP_SPARSE_MMAP: u16 = 1;
    let head = SparseMmap {
        id: CAP_SPARSE_MMAP.into(),
        version: 1.into(),
        next: 0.into(),
        nr_areas: (areas.len() as u32).into(),
        reserved: 0.into(),
    };
    payload.extend_from_slice(head.as_bytes());
    for area in areas {
        let area = SparseArea {
            offset: area.offset.into(),
            size: area.size.into(),
        };
        payload.extend_from_slice(area.as_bytes());
    }
}

/// The answer to a request for a feature's data: the request, then the data.
fn feature(asked: &[u8], data: &[u8]) -> Vec<u8> {
    let mut head = DeviceFeature::read_from_prefix(asked)
        .map(|(head, _)| head)
        .expect("the request was longer");
    head.argsz = ((size_of::<DeviceFeature>() + data.len()) as u32).into();
    [head.as_bytes(), data].concat()
}

/// The answer to `VFIO_DEVICE_FEATURE_MIGRATION`: STOP, STOP_COPY and RESUMING are offered.
pub(crate) fn migration_flags(asked: &[u8]) -> Vec<u8> {
    const STOP_COPY: u64 = 1 << 0;
    let data = FeatureMigration {
        flags: STOP_COPY.into(),
    };
    feature(asked, data.as_bytes())
}

/// The answer to `VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE`. Data is transferred by messages, not by a file.
pub(crate) fn migration_state(asked: &[u8], state: State) -> Vec<u8> {
    let data = FeatureState {
        device_state: (state as u32).into(),
        data_fd: u32::MAX.into(),
    };
    feature(asked, data.as_bytes())
}

/// The answer to `VFIO_DEVICE_FEATURE_DMA_LOGGING_REPORT`: bit `n` of the bitmap stands for the page at
/// `iova + n * page_size`.
pub(crate) fn written_pages(asked: &[u8], report: &Report, written: &[Range<u64>]) -> Vec<u8> {
    let head = LoggingReport {
        iova: report.iova.into(),
        length: report.length.into(),
        page_size: report.page_size.into(),
    };
    let mut data = head.as_bytes().to_vec();
    let start = data.len();
    data.resize(start + report.bitmap_bytes() as usize, 0);
    let bitmap = &mut data[start..];
    for range in written {
        let first = (range.start - report.iova) / report.page_size;
        let end = (range.end - report.iova).div_ceil(report.page_size);
        for bit in first..end {
            bitmap[bit as usize / 8] |= 1 << (bit % 8);
        }
    }
    feature(asked, &data)
}

/// The bytes before the data in an answer to `MIG_DATA_READ`.
pub(crate) fn migration_data(length: u32) -> [u8; size_of::<MigrationData>()] {
    zerocopy::transmute!(MigrationData {
        argsz: (size_of::<MigrationData>() as u32 + length).into(),
        size: length.into(),
    })
}
