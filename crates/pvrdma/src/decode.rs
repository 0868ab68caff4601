//! Decodes work requests from ring entries.
//!
//! An entry is copied once, in one or two pieces that do not overlap, and only the copy is looked at. An invalid entry
//! becomes a request that completes with an error in its turn, so every entry moves its ring on.

pub(crate) mod datagram;
pub(crate) mod fast_register;
pub(crate) mod receive;
pub(crate) mod send;

use vrdma_memory::View;
use vrdma_verbs::work::{Sge, SgeList};
use vrdma_wire::Lkey;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::abi::work::{SGE_BYTES, SgeEntry};
use crate::queue::RingError;

/// Bytes of the first copy: a whole send entry of up to 3 buffers, or a receive of up to 7. Longer entries take a
/// second copy.
const FIRST_PIECE: usize = 128;

/// Most buffers of one entry, whatever the guest asked for: the largest stride is a page.
pub(crate) const SGES_MAX: u32 = 128;

/// Buffer for the first copy of an entry.
type FirstPiece = [u8; FIRST_PIECE];

/// The private copy of an entry's beginning.
struct Entry<'a, 'v> {
    memory: &'a View<'v>,
    address: u64,
    bytes: &'a FirstPiece,
    length: usize,
}

impl<'a, 'v> Entry<'a, 'v> {
    /// Copies the beginning of the entry of `stride` bytes at `address` into `bytes`.
    #[inline]
    fn copy(
        memory: &'a View<'v>,
        address: u64,
        stride: u32,
        bytes: &'a mut FirstPiece,
    ) -> Result<Self, RingError> {
        let length = FIRST_PIECE.min(stride as usize);
        match length {
            // Every send entry has at least this length: one move of fixed size.
            FIRST_PIECE => memory.read(address, bytes)?,
            _ => memory.read(address, &mut bytes[..length])?,
        }
        Ok(Self {
            memory,
            address,
            bytes,
            length,
        })
    }

    #[inline]
    fn header<T: FromBytes + KnownLayout + Immutable + Unaligned>(&self) -> &'a T {
        let (header, _) =
            T::ref_from_prefix(&self.bytes[..]).expect("headers are shorter than the first piece");
        header
    }

    /// Decodes the list of `count` buffers, at most [`SGES_MAX`], that begins at byte `start`.
    #[inline]
    fn sges(&self, start: usize, count: u32) -> Result<SgeList, RingError> {
        let mut list = SgeList::new();
        if count == 1
            && let Some(only) = self.bytes[..self.length].get(start..start + SGE_BYTES)
        {
            // The common case: one buffer.
            list.push(sge(only));
            return Ok(list);
        }
        let end = start + count.min(SGES_MAX) as usize * SGE_BYTES;
        append(
            &mut list,
            &self.bytes[start..end.min(self.length).max(start)],
        );
        if end > self.length {
            self.read_rest(end - self.length, &mut list)?;
        }
        Ok(list)
    }

    #[cold]
    fn read_rest(&self, bytes: usize, list: &mut SgeList) -> Result<(), RingError> {
        let mut rest = [0; SGES_MAX as usize * SGE_BYTES];
        let rest = &mut rest[..bytes];
        self.memory.read(self.address + self.length as u64, rest)?;
        append(list, rest);
        Ok(())
    }
}

fn append(list: &mut SgeList, bytes: &[u8]) {
    for entry in bytes.chunks_exact(SGE_BYTES) {
        list.push(sge(entry));
    }
}

#[inline]
fn sge(bytes: &[u8]) -> Sge {
    let entry = SgeEntry::read_from_bytes(bytes).expect("chunks are as long as entries");
    Sge {
        addr: entry.addr.get(),
        length: entry.length.get(),
        lkey: Lkey(entry.lkey.get()),
    }
}
