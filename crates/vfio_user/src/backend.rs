//! The interface between a session and the device: the [`Backend`] trait and the values that pass through it.
//!
//! Every value here was checked as far as the protocol allows: ranges do not wrap, offsets lie inside their region,
//! interrupt vectors exist, the number of file descriptors is the one in the message. The backend interprets the
//! values.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::client_fd::ClientFd;
use crate::migration::Migration;
use crate::state::SessionState;

/// A region that the client can reach; [`RegionMmap`] tells which parts may be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Size in bytes; a power of two for a BAR.
    pub size: u64,
    /// Whether `REGION_READ` is allowed.
    pub readable: bool,
    /// Whether `REGION_WRITE` is allowed.
    pub writable: bool,
}

/// A piece of a region that the client may map into the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MmapArea {
    /// Distance in bytes from the start of the region, a multiple of the page size.
    pub offset: u64,
    /// Size in bytes, a multiple of the page size.
    pub size: u64,
}

/// The parts of a region that may be mapped. Without areas, nothing may be, but the flag alone makes QEMU wait for the
/// answer of every write to the device instead of posting it. The stock PVRDMA driver depends on this: it writes
/// DSRHIGH and then reads the result from memory.
#[derive(Debug)]
pub struct RegionMmap {
    /// The mappable pieces. At most [`RegionMmap::MAX_AREAS`] are announced.
    pub areas: Vec<MmapArea>,
    /// The memory, required if there are areas; closed after it was sent.
    pub fd: Option<OwnedFd>,
    /// Offset of the region in the file, added to the offset of each area.
    pub offset: u64,
}

impl RegionMmap {
    /// Most areas of one region: a message has room for more, but no device here needs them.
    pub const MAX_AREAS: usize = 1024;
}

/// Guest memory that becomes reachable at `iova..iova + size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaMap {
    /// First guest address; `iova + size` is at most 2^64.
    pub iova: u64,
    /// Size in bytes, not 0.
    pub size: u64,
    /// Offset of the memory in the file; `offset + size` fits `i64`.
    pub offset: u64,
    /// Whether the device may read.
    pub readable: bool,
    /// Whether the device may write.
    pub writable: bool,
}

/// Guest memory that is no longer reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaUnmap {
    /// One mapping, named exactly as the client made it.
    Range {
        /// First guest address.
        iova: u64,
        /// Size in bytes, not 0.
        size: u64,
    },
    /// All mappings.
    All,
}

/// An action on interrupt vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IrqAction {
    /// Hold interrupts back.
    Mask,
    /// Let interrupts through again.
    Unmask,
    /// Raise interrupts, or wire the eventfds that are signalled when one is raised.
    Trigger,
}

/// The vectors of the range that the action applies to, or the eventfds wired to them.
#[derive(Debug)]
pub enum IrqData<'a> {
    /// All vectors of the range.
    None,
    /// The vectors whose byte is not 0; as many bytes as vectors.
    Bool(&'a [u8]),
    /// One eventfd for each vector, or an empty list to unwire every vector of the range.
    Eventfd(Vec<ClientFd>),
}

/// A `DEVICE_SET_IRQS` request. A `count` of 0 switches the whole interrupt type off; it comes with `start` 0 and
/// [`IrqData::None`] only.
#[derive(Debug)]
pub struct SetIrqs<'a> {
    /// VFIO's interrupt type: 0 INTx, 1 MSI, 2 MSI-X, 3 error, 4 request.
    pub index: u32,
    /// First vector.
    pub start: u32,
    /// Number of vectors; `start + count` is at most [`Backend::irq_count`].
    pub count: u32,
    /// The action.
    pub action: IrqAction,
    /// Vectors or eventfds of the action.
    pub data: IrqData<'a>,
}

/// The device behind a session. Calls arrive in the order of the client's messages.
///
/// An answer is sent when the call returns. QEMU gives up after five seconds, with its vCPU stopped for as long: no
/// call may wait for anything.
pub trait Backend {
    /// Whether the device is executing a long operation; commands wait until it is done.
    fn is_busy(&self) -> bool {
        false
    }

    /// Tells that the device and `state` are at the same point of the stream. A process that goes on with the
    /// connection after this one ended needs both from this moment, or both from an earlier one. Called on
    /// [kept](crate::Connection::keep) connections only, after each message and before its answer is sent. Must not
    /// wait.
    fn commit(&mut self, state: &SessionState) {
        let _ = state;
    }

    /// The device as one that can migrate; `None` tells clients that it cannot.
    fn migration(&mut self) -> Option<&mut dyn Migration> {
        None
    }

    /// The region with this index, if the device has it. Called before every access.
    fn region(&self, index: u32) -> Option<Region>;

    /// The parts of this region that may be mapped; `None` if it is reached by messages only and QEMU may post its
    /// writes.
    fn region_mmap(&self, index: u32) -> Option<RegionMmap> {
        let _ = index;
        None
    }

    /// Number of vectors of an interrupt type, 0 for one that the device does not have.
    fn irq_count(&self, index: u32) -> u32;

    /// Reads a region into `data`, which is zeroed, never empty and at most [`MAX_DATA`](crate::message::MAX_DATA)
    /// long.
    fn read(&mut self, region: u32, offset: u64, data: &mut [u8]);

    /// Writes `data`, which is never empty, to a region.
    fn write(&mut self, region: u32, offset: u64, data: &[u8]);

    /// Adds guest memory; without a descriptor it is reached by DMA messages only.
    ///
    /// # Errors
    /// `EEXIST` when it overlaps another mapping, `ENOSPC` beyond [`MAX_DMA_MAPS`](crate::message::MAX_DMA_MAPS), or
    /// the error of mapping the file.
    fn dma_map(&mut self, map: DmaMap, fd: Option<ClientFd>) -> Result<(), Errno>;

    /// Removes guest memory: nothing may touch it once this returns.
    ///
    /// # Errors
    /// `ENOENT` when no mapping matches exactly.
    fn dma_unmap(&mut self, unmap: DmaUnmap) -> Result<(), Errno>;

    /// Wires, unwires, masks or raises interrupts.
    ///
    /// # Errors
    /// `EINVAL` for an action that the interrupt type does not support.
    fn set_irqs(&mut self, irqs: SetIrqs<'_>) -> Result<(), Errno>;

    /// Resets the device to its state after power-on; it then works, whatever the state of its migration was. Mappings
    /// and eventfds stay.
    fn reset(&mut self);

    /// Reports the end of a DMA request of the server, once for each that was accepted: the data of a read, an empty
    /// slice for a write, or the client's errno (`ECONNRESET` when the session ended first).
    fn dma_done(&mut self, token: u64, result: Result<&[u8], Errno>);
}
