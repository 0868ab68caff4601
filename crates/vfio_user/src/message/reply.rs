//! Payloads of the answers that describe the device.

use zerocopy::IntoBytes;

use super::layout::{DeviceInfo, IrqInfo, RegionInfo, SparseArea, SparseMmap};
use super::{INTX_IRQ, IRQ_TYPE_COUNT, Query, REGION_COUNT};
use crate::backend::{MmapArea, Region, RegionMmap};

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
/// `NORESIZE` stays away: with it QEMU tears all vectors down to add one.
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
/// When the client has too little room, the fixed part goes alone and its `argsz` says how much
/// to ask with next time (section "Message sizes").
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
