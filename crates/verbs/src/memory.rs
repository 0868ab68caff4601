//! How the engine reaches registered memory: a trait that the `memory` room fulfils.
//!
//! The engine checks keys, protection domains, bounds and rights; the memory behind a region checks
//! that the bytes are still there. The engine never sees a pointer.

use smallvec::SmallVec;

/// Reason why bytes were not moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The bytes are not there any more, or may not be touched that way.
    #[error("registered memory is not mapped any more, or not with that right")]
    Gone,
    /// The bytes take longer than others can wait for them. The same access may be tried later, and finds them gone if
    /// they never come.
    #[error("registered memory is late")]
    Late,
}

/// The side of a copy that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyFault {
    /// The bytes could not be read.
    Source,
    /// The bytes could not be written.
    Destination,
    /// The bytes of one side are [late](Fault::Late).
    Late,
}

impl CopyFault {
    /// Makes the fault of a failed read.
    pub fn source(fault: Fault) -> Self {
        match fault {
            Fault::Gone => Self::Source,
            Fault::Late => Self::Late,
        }
    }

    /// Makes the fault of a failed write.
    pub fn destination(fault: Fault) -> Self {
        match fault {
            Fault::Gone => Self::Destination,
            Fault::Late => Self::Late,
        }
    }
}

/// A place in memory: a region, and an offset in it.
#[derive(Debug)]
pub struct Spot<'a, R> {
    /// The region.
    pub region: &'a R,
    /// Bytes from its start.
    pub offset: u64,
}

impl<'a, R> Spot<'a, R> {
    /// Makes a place.
    #[inline]
    pub const fn new(region: &'a R, offset: u64) -> Self {
        Self { region, offset }
    }
}

impl<R> Clone for Spot<'_, R> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Spot<'_, R> {}

/// Backing of registered memory: a consistent view of one guest's or client's memory.
///
/// `offset` counts from the first byte of a region. Every method may fail at any byte; bytes moved before the fault
/// stay moved, as with a real adapter's DMA.
pub trait Memory {
    /// What one registration pins, such as a page list; cloning must be cheap.
    type Region: Clone;

    /// Reads `out.len()` bytes.
    fn read(&self, region: &Self::Region, offset: u64, out: &mut [u8]) -> Result<(), Fault>;

    /// Reads the bytes from `offset` on into one part after the other.
    fn read_parts(
        &self,
        region: &Self::Region,
        offset: u64,
        parts: &mut [&mut [u8]],
    ) -> Result<(), Fault> {
        let mut at = offset;
        for part in parts {
            self.read(region, at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes `data`.
    fn write(&self, region: &Self::Region, offset: u64, data: &[u8]) -> Result<(), Fault>;

    /// Moves `length` bytes from another memory into this one with a single copy.
    fn copy(
        &self,
        to: Spot<'_, Self::Region>,
        source: &Self,
        from: Spot<'_, Self::Region>,
        length: u64,
    ) -> Result<(), CopyFault>;

    /// Does the same for a piece of a message that does not fit into the processor's caches: non-temporal stores do not
    /// read the memory that they write, and leave it in no cache.
    fn copy_non_temporal(
        &self,
        to: Spot<'_, Self::Region>,
        source: &Self,
        from: Spot<'_, Self::Region>,
        length: u64,
    ) -> Result<(), CopyFault> {
        self.copy(to, source, from, length)
    }

    /// Whether a received message may be left to the owner of the region, which puts it in place before it looks at the
    /// completion: nobody else can reach those bytes.
    fn is_filled_by_owner(&self, _: &Self::Region) -> bool {
        false
    }

    /// Replaces the naturally aligned little-endian word at `offset` by `update(old)`, atomically against everybody
    /// else, and returns the old word.
    fn fetch_update(
        &self,
        region: &Self::Region,
        offset: u64,
        update: &dyn Fn(u64) -> u64,
    ) -> Result<u64, Fault>;
}

/// Place of an arriving unit's payload.
#[derive(Debug)]
pub enum Source<'a, M> {
    /// In the memory of the sender's side, at the unit's stretches.
    Memory(&'a M),
    /// In this slice: the payload of a received packet. The unit itself names no stretches; any are ignored.
    Bytes(&'a [u8]),
}

impl<M> Clone for Source<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Source<'_, M> {}

/// A part of one region that the engine has checked.
#[derive(Clone, Debug)]
pub struct Stretch<R> {
    /// Region of the bytes.
    pub region: R,
    /// Offset of the first byte from the start of the region.
    pub offset: u64,
    /// Bytes.
    pub length: u32,
}

/// Payload by reference: a list of checked stretches. Nothing is copied until it is delivered or put on a wire.
pub type Gather<R> = SmallVec<[Stretch<R>; 2]>;
