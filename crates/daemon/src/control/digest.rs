//! Digests of a guest's memory while its VM is between two hosts: whether all of it has come over.
//!
//! ```text
//!   source, frozen        memory ──► CRC-32 of each MiB ──┐
//!                                                         ├─ compared by the migration's driver
//!   destination, restored memory ──► CRC-32 of each MiB ──┘
//! ```
//! They guard against mistakes, not against hosts that lie: a lying host has the guest anyway.

use std::ops::Range;

use vrdma_api::{DIGEST_CHUNK_BYTES, DigestedRange, MemoryDigest, Name};
use vrdma_memory::Space;
use vrdma_shard::plane::MigrationStep;

use super::Control;
use super::answer::Problem;
use super::migration::{PIECE, apart, conflict, mapped_anew};

impl Control {
    /// Digests the memory of a frozen adapter's guest.
    pub(super) async fn memory_digest(&self, name: &Name) -> Result<MemoryDigest, Problem> {
        let port = self.inventory().port(name)?;
        let memory = self.shards.migrate(port, MigrationStep::FrozenMemory);
        let memory = memory.await.map_err(conflict)?;
        apart(move || digest(&memory)).await
    }
}

fn digest(memory: &Space) -> Result<MemoryDigest, Problem> {
    let ranges = memory.ranges().into_iter();
    let ranges = ranges.map(|range| digest_range(memory, range));
    Ok(MemoryDigest {
        ranges: ranges.collect::<Result<_, _>>()?,
    })
}

fn digest_range(memory: &Space, range: Range<u64>) -> Result<DigestedRange, Problem> {
    let starts = range.clone().step_by(DIGEST_CHUNK_BYTES as usize);
    let digests = starts.map(|start| {
        let end = range.end.min(start.saturating_add(DIGEST_CHUNK_BYTES));
        digest_chunk(memory, start..end)
    });
    Ok(DigestedRange {
        address: range.start,
        bytes: range.end - range.start,
        digests: digests.collect::<Result<_, _>>()?,
    })
}

/// Digests one piece at a time, since a shard may wait for a view.
fn digest_chunk(memory: &Space, chunk: Range<u64>) -> Result<u32, Problem> {
    let mut buffer = [0; PIECE];
    let mut digest = crc32fast::Hasher::new();
    for at in chunk.clone().step_by(PIECE) {
        let length = (chunk.end - at).min(PIECE as u64) as usize;
        let piece = &mut buffer[..length];
        let read = memory.view().read(at, piece);
        read.map_err(|_| mapped_anew())?;
        digest.update(piece);
    }
    Ok(digest.finalize())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use vrdma_memory::Protection;

    use super::*;

    fn space(bytes: u64) -> Space {
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&fd, bytes).unwrap();
        let space = Space::new();
        let may = Protection {
            read: true,
            write: true,
        };
        space.map(1 << 30, bytes, may, fd, 0).unwrap();
        space
    }

    #[test]
    fn one_byte_makes_a_difference_in_its_chunk() {
        let bytes = 2 * DIGEST_CHUNK_BYTES + 4096;
        let (one, other) = (space(bytes), space(bytes));
        assert_eq!(digest(&one).unwrap(), digest(&other).unwrap());
        let last = (1 << 30) + bytes - 1;
        other.view().write(last, &[1]).unwrap();
        let [one, other] = [one, other].map(|it| digest(&it).unwrap().ranges.remove(0));
        assert_eq!((one.address, one.bytes), (1 << 30, bytes));
        assert_eq!(one.digests.len(), 3);
        assert_eq!(one.digests[..2], other.digests[..2]);
        assert_ne!(one.digests[2], other.digests[2]);
    }
}
