//! Compares the guest's memory at the destination with that of the source.
//!
//! Both VMs and both adapters stand still: nothing writes. Each daemon digests its side, and the digests are compared
//! range by range.

use std::thread;

use vrdma_api::{DIGEST_CHUNK_BYTES, DigestedRange, MemoryDigest};

use crate::Hosts;
use crate::error::Cause;

/// Compares both memories, and returns the number of bytes.
pub(crate) fn verify(hosts: &Hosts) -> Result<u64, Cause> {
    let (source, destination) = (
        hosts.source.first_adapter(),
        hosts.destination.first_adapter(),
    );
    // Both at the same time, because the VM waits.
    let (here, there) = thread::scope(|scope| {
        let here = scope.spawn(|| source.memory_digest());
        let there = destination.memory_digest();
        let here = here
            .join()
            .unwrap_or_else(|_| Err(Cause::new("the source's digest was not taken to its end")));
        (here, there)
    });
    compare(&here?, &there?)
}

fn compare(here: &MemoryDigest, there: &MemoryDigest) -> Result<u64, Cause> {
    let shape = |digest: &MemoryDigest| -> Vec<(u64, u64)> {
        let ranges = digest.ranges.iter();
        ranges.map(|range| (range.address, range.bytes)).collect()
    };
    if shape(here) != shape(there) {
        return Err(Cause::new(
            "the guest's memory is mapped at other addresses at the destination; start both QEMUs with the same options",
        ));
    }
    let mut ranges = here.ranges.iter().zip(&there.ranges);
    if let Some(address) = ranges.find_map(|(here, there)| difference(here, there)) {
        return Err(Cause::new(format!(
            "the guest's memory at {address:#x} is not what it is at the source; send it by another way (--memory) and report this"
        )));
    }
    Ok(here.ranges.iter().map(|range| range.bytes).sum())
}

/// Returns where two ranges of one place first differ.
fn difference(here: &DigestedRange, there: &DigestedRange) -> Option<u64> {
    if here.digests.len() != there.digests.len() {
        return Some(here.address);
    }
    let mut chunks = here.digests.iter().zip(&there.digests);
    let chunk = chunks.position(|(here, there)| here != there)? as u64;
    Some(here.address + chunk * DIGEST_CHUNK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(address: u64, digests: &[u32]) -> MemoryDigest {
        let range = DigestedRange {
            address,
            bytes: digests.len() as u64 * DIGEST_CHUNK_BYTES,
            digests: digests.to_vec(),
        };
        MemoryDigest {
            ranges: vec![range],
        }
    }

    #[test]
    fn the_first_chunk_that_differs_is_named() {
        let compared = compare(&digest(0, &[1, 2, 3]), &digest(0, &[1, 2, 3]));
        assert_eq!(compared.unwrap(), 3 << 20);
        let other = compare(&digest(0, &[1, 2, 3]), &digest(0, &[1, 4, 4])).unwrap_err();
        assert!(other.to_string().contains("at 0x100000 is not"), "{other}");
        let moved = compare(&digest(0, &[1]), &digest(4096, &[1])).unwrap_err();
        assert!(moved.to_string().contains("at other addresses"), "{moved}");
        let mut short = digest(0, &[1, 2]);
        short.ranges[0].digests.pop();
        let short = compare(&digest(0, &[1, 2]), &short).unwrap_err();
        assert!(short.to_string().contains("at 0x0 is not"), "{short}");
    }
}
