//! The memory areas that hold the records, and where each is.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use vrdma_keep::{Area, Capacity, Inherited, Record, Records};
use vrdma_process::{Remembered, cm};

/// Capacity of one shard: as many queue pairs, regions and the like as its adapters may have together. Pages that were
/// never written take no memory.
const SHARD: Capacity = Capacity {
    small: 1 << 20,
    large: 1 << 18,
};

/// Capacity of rdma_cm: as many identifiers, connections and waiting events as all programs of a machine may have. A
/// program whose objects find no room does not survive, and learns that then.
pub(super) const CM_CAPACITY: Capacity = Capacity {
    small: 1 << 15,
    large: 1 << 16,
};

/// Kinds of the root area's records: where the area of a shard is, and where the others are.
const AREA: u16 = 1;
pub(super) const CHANGES: u16 = 2;
pub(super) const CM: u16 = 3;
pub(super) const ETHERNET: u16 = 4;
pub(super) const COUNTS: u16 = 5;

/// Capacity of the Ethernet: ports of as many adapters as a daemon may have.
pub(super) const ETHERNET_CAPACITY: Capacity = Capacity {
    small: 1 << 16,
    large: 1,
};

/// The records of what a shard's adapters do, and the descriptor of their area.
pub(super) type ShardArea = (Records, OwnedFd);

/// The areas of all shards, and the records of the worker before in them.
pub(super) struct ShardAreas {
    pub(super) areas: Vec<ShardArea>,
    pub(super) remembered: Vec<(Records, Remembered)>,
}

/// Opens the areas that the worker before had, and as many more as the shards need; returns them with their records.
pub(super) fn open_shards(
    table: &Records,
    found: &[Record],
    inherited: &mut Inherited,
    shards: usize,
) -> io::Result<ShardAreas> {
    let mut places = found.iter().filter_map(place).collect::<Vec<_>>();
    places.sort_unstable();
    let (mut areas, mut remembered) = (Vec::new(), Vec::new());
    for (shard, number) in places {
        let Some(fd) = inherited
            .claim(number)
            .filter(|_| shard == areas.len() as u64)
        else {
            continue;
        };
        let (records, found, damaged) = Records::open(fd.as_fd(), adapter_of)?;
        if damaged > 0 {
            tracing::warn!(shard, "{damaged} records of the worker before were damaged");
        }
        remembered.push((records.clone(), Remembered::new(found, &records)));
        areas.push((records, fd));
    }
    for shard in areas.len()..shards {
        let fd = create(table, AREA, shard as u64, SHARD)?;
        let (records, ..) = Records::open(fd.as_fd(), adapter_of)?;
        areas.push((records, fd));
    }
    Ok(ShardAreas { areas, remembered })
}

pub(super) fn open_cm(area: &OwnedFd) -> io::Result<(Records, cm::Past)> {
    let (records, found, damaged) = Records::open(area.as_fd(), |_| 0)?;
    if damaged > 0 {
        tracing::warn!("{damaged} records of rdma_cm were damaged");
    }
    let past = cm::Past::new(&found, &records);
    Ok((records, past))
}

/// Returns the adapter that a record is about.
fn adapter_of(record: &Record) -> u32 {
    (record.key >> 32) as u32
}

/// Returns a shard and the number of its area's descriptor.
fn place(record: &Record) -> Option<(u64, RawFd)> {
    let number = number(record)?;
    (record.kind == AREA).then_some((record.key, number))
}

/// Returns the number of an area's descriptor.
pub(super) fn number(record: &Record) -> Option<RawFd> {
    let number = record.bytes.as_slice().try_into().ok()?;
    Some(RawFd::from_le_bytes(number))
}

/// Creates an area, which the next worker finds in the table.
pub(super) fn create(
    table: &Records,
    kind: u16,
    key: u64,
    capacity: Capacity,
) -> io::Result<OwnedFd> {
    let fd = Area::create(capacity)?;
    let bytes = fd.as_raw_fd().to_le_bytes();
    table.insert(kind, key, &bytes).map_err(io::Error::other)?;
    Ok(fd)
}
