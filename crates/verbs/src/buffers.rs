//! Scatter/gather lists of work requests as one stretch of bytes.
//!
//! ```text
//!   sges      [ A: 10 ][ B: 0 ][ C: 20 ]
//!   bytes     0........10.............30
//!   pieces of 5..15:   A 5..10, C 0..5
//! ```
//!
//! Keys are checked only for the touched pieces, at the time of the access: a region may go between two units of a
//! message.

use alloc::vec::Vec;

use crate::attr::Access;
use crate::memory::{CopyFault, Fault, Gather, Memory, Source, Spot, Stretch};
use crate::object::PdId;
use crate::shared::Shared;
use crate::unit::{Payload, bytes_of};
use crate::work::Sge;

/// Reason why bytes were not moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MoveError {
    /// A key, a bound or a right of the local buffers is wrong, or their memory is gone.
    Local,
    /// The memory of the other side is gone.
    Source,
    /// Memory of either side is not there yet.
    Late,
}

impl From<CopyFault> for MoveError {
    fn from(fault: CopyFault) -> Self {
        match fault {
            CopyFault::Source => Self::Source,
            CopyFault::Destination => Self::Local,
            CopyFault::Late => Self::Late,
        }
    }
}

/// Returns how many bytes a list holds.
#[inline]
pub(crate) fn total(sges: &[Sge]) -> u64 {
    match sges {
        // Nearly all lists have one entry.
        [only] => only.length.into(),
        all => all.iter().map(|sge| u64::from(sge.length)).sum(),
    }
}

/// The bytes that a unit carries, wherever they lie.
pub(crate) enum Carried<'a, R, M> {
    /// Stretches of the sender's memory.
    Stretches(&'a [Stretch<R>], &'a M),
    /// Payload of a received packet.
    Bytes(&'a [u8]),
}

/// Messages from this length on fit neither into a core's own caches nor into its share of the last-level cache.
const LONG_MESSAGE: u64 = 16 << 20;

/// Shorter pieces gain nothing by non-temporal stores.
const LONG_PIECE: u64 = 64 << 10;

/// Copies a piece of a message or buffer whose whole length is `message`.
#[inline]
fn copy_piece<M: Memory>(
    memory: &M,
    to: Spot<'_, M::Region>,
    source: &M,
    from: Spot<'_, M::Region>,
    length: u64,
    message: impl FnOnce() -> u64,
) -> Result<(), CopyFault> {
    if length >= LONG_PIECE && message() >= LONG_MESSAGE {
        memory.copy_non_temporal(to, source, from, length)
    } else {
        memory.copy(to, source, from, length)
    }
}

impl<R, M> Clone for Carried<'_, R, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R, M> Copy for Carried<'_, R, M> {}

impl<'a, R, M> Carried<'a, R, M> {
    #[inline]
    pub(crate) fn request(payload: &'a Payload<R>, source: Source<'a, M>) -> Self {
        match payload {
            Payload::Memory(stretches) => Self::new(stretches, source),
            Payload::Inline(inline) => Self::Bytes(inline.bytes()),
            Payload::Short(short) => Self::Bytes(short.bytes()),
        }
    }

    #[inline]
    pub(crate) fn new(stretches: &'a [Stretch<R>], source: Source<'a, M>) -> Self {
        match source {
            Source::Memory(memory) => Self::Stretches(stretches, memory),
            Source::Bytes(bytes) => Self::Bytes(bytes),
        }
    }

    /// Returns how many bytes it holds.
    #[inline]
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Stretches(stretches, _) => bytes_of(stretches),
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

impl<R, M: Memory<Region = R>> Carried<'_, R, M> {
    /// Appends it to `bytes`.
    pub(crate) fn append_to(self, bytes: &mut Vec<u8>) -> Result<(), Fault> {
        match self {
            Self::Bytes(these) => bytes.extend_from_slice(these),
            Self::Stretches(stretches, source) => {
                for part in stretches {
                    let at = bytes.len();
                    bytes.resize(at + part.length as usize, 0);
                    source.read(&part.region, part.offset, &mut bytes[at..])?;
                }
            }
        }
        Ok(())
    }

    /// Copies it into one region from `offset` on. It belongs to a message of `message` bytes.
    #[inline]
    pub(crate) fn store(
        self,
        region: &R,
        offset: u64,
        message: u32,
        memory: &M,
    ) -> Result<(), CopyFault> {
        match self {
            Self::Bytes(bytes) => memory
                .write(region, offset, bytes)
                .map_err(CopyFault::destination),
            Self::Stretches(stretches, source) => {
                let mut at = offset;
                for part in stretches {
                    let from = Spot::new(&part.region, part.offset);
                    let (to, length) = (Spot::new(region, at), u64::from(part.length));
                    copy_piece(memory, to, source, from, length, || message.into())?;
                    at += length;
                }
                Ok(())
            }
        }
    }
}

/// Returns the pieces of `length` bytes from `offset` on, each a part of one buffer. Empty pieces are skipped
/// unchecked. An address that would wrap is set to the end of the address space, where no region has room for the
/// piece.
pub(crate) fn pieces(sges: &[Sge], offset: u32, length: u32) -> impl Iterator<Item = Sge> {
    let mut skip = offset;
    let mut left = length;
    sges.iter().filter_map(move |sge| {
        let before = skip.min(sge.length);
        let taken = left.min(sge.length - before);
        skip -= before;
        left -= taken;
        (taken > 0).then(|| Sge {
            lkey: sge.lkey,
            addr: sge.addr.saturating_add(u64::from(before)),
            length: taken,
        })
    })
}

impl<R> Shared<R> {
    /// Whether `length` bytes of the list may be touched with `right`.
    pub(crate) fn may_touch(&self, pd: PdId, sges: &[Sge], length: u32, right: Access) -> bool {
        pieces(sges, 0, length).all(|piece| {
            self.local(pd, piece.lkey, piece.addr, piece.length, right)
                .is_some()
        })
    }

    /// Appends references to `length` bytes of the list from `offset` on, which will be read.
    #[inline]
    pub(crate) fn gather(
        &self,
        pd: PdId,
        sges: &[Sge],
        offset: u32,
        length: u32,
        gather: &mut Gather<R>,
    ) -> Option<()>
    where
        R: Clone,
    {
        match sges {
            // Nearly all messages are a whole buffer.
            [only] if offset == 0 && length == only.length => {
                if length > 0 {
                    gather.push(self.to_read(pd, *only)?);
                }
            }
            _ => {
                for piece in pieces(sges, offset, length) {
                    gather.push(self.to_read(pd, piece)?);
                }
            }
        }
        Some(())
    }

    // Inlined into its callers, since its result is large.
    #[inline(always)]
    fn to_read(&self, pd: PdId, piece: Sge) -> Option<Stretch<R>>
    where
        R: Clone,
    {
        let spot = self.local(pd, piece.lkey, piece.addr, piece.length, Access::empty())?;
        Some(spot.stretch(piece.length))
    }

    /// Copies a payload into the list from `offset` on.
    pub(crate) fn scatter<M: Memory<Region = R>>(
        &self,
        pd: PdId,
        sges: &[Sge],
        offset: u32,
        payload: Carried<'_, R, M>,
        memory: &M,
    ) -> Result<(), MoveError> {
        let (stretches, source) = match payload {
            Carried::Stretches(stretches, source) => (stretches, source),
            Carried::Bytes(bytes) => return self.scatter_bytes(pd, sges, offset, bytes, memory),
        };
        let mut at = offset;
        for part in stretches {
            let mut from = part.offset;
            for piece in pieces(sges, at, part.length) {
                let to = self
                    .local(
                        pd,
                        piece.lkey,
                        piece.addr,
                        piece.length,
                        Access::LOCAL_WRITE,
                    )
                    .ok_or(MoveError::Local)?;
                let length = u64::from(piece.length);
                let from_there = Spot::new(&part.region, from);
                copy_piece(memory, to, source, from_there, length, || total(sges))?;
                from += length;
            }
            at += part.length;
        }
        Ok(())
    }

    /// Writes bytes into the list from `offset` on.
    pub(crate) fn scatter_bytes<M: Memory<Region = R>>(
        &self,
        pd: PdId,
        sges: &[Sge],
        offset: u32,
        bytes: &[u8],
        memory: &M,
    ) -> Result<(), MoveError> {
        let mut rest = bytes;
        for piece in pieces(sges, offset, bytes.len() as u32) {
            let to = self
                .local(
                    pd,
                    piece.lkey,
                    piece.addr,
                    piece.length,
                    Access::LOCAL_WRITE,
                )
                .ok_or(MoveError::Local)?;
            let (now, later) = rest.split_at(piece.length as usize);
            memory
                .write(to.region, to.offset, now)
                .map_err(CopyFault::destination)?;
            rest = later;
        }
        Ok(())
    }
}
