//! What the session drives: the device, and the values that pass between the two.
//!
//! Every value here was checked as far as the protocol reaches: ranges do not wrap, offsets lie
//! inside their region, interrupt vectors exist, file descriptors are as many as the message
//! says. What they mean is the backend's business.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::client_fd::ClientFd;
use crate::migration::Migration;
use crate::state::SessionState;

/// A region the client can reach, apart from what of it may be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Bytes; a power of two for a BAR.
    pub size: u64,
    /// `REGION_READ` is allowed.
    pub readable: bool,
    /// `REGION_WRITE` is allowed.
    pub writable: bool,
}

/// A piece of a region that the client may map into the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MmapArea {
    /// Bytes from the start of the region, a multiple of the page size.
    pub offset: u64,
    /// Bytes, a multiple of the page size.
    pub size: u64,
}

/// What of a region may be mapped. With no areas nothing is, but the flag alone makes QEMU wait
/// for the answer of every write to the device instead of posting it, which the stock PVRDMA
/// driver depends on when it writes DSRHIGH and reads the result from memory.
#[derive(Debug)]
pub struct RegionMmap {
    /// The mappable pieces. At most [`RegionMmap::MAX_AREAS`] are announced.
    pub areas: Vec<MmapArea>,
    /// The memory, required when there are areas; closed after it was sent.
    pub fd: Option<OwnedFd>,
    /// Where in the file the region starts; added to the offset of each area.
    pub offset: u64,
}

impl RegionMmap {
    /// Most areas of one region: the size of a message allows more, no device of ours needs them.
    pub const MAX_AREAS: usize = 1024;
}

/// Guest memory that becomes reachable at `iova..iova + size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaMap {
    /// First guest address; `iova + size` is at most 2^64.
    pub iova: u64,
    /// Bytes, not 0.
    pub size: u64,
    /// Where the memory starts in the file; `offset + size` fits `i64`.
    pub offset: u64,
    /// The device may read.
    pub readable: bool,
    /// The device may write.
    pub writable: bool,
}

/// Guest memory that is no longer reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaUnmap {
    /// One mapping, which the client names exactly as it made it.
    Range {
        /// First guest address.
        iova: u64,
        /// Bytes, not 0.
        size: u64,
    },
    /// Every mapping.
    All,
}

/// What to do with interrupt vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IrqAction {
    /// Hold interrupts back.
    Mask,
    /// Let interrupts through again.
    Unmask,
    /// Raise interrupts, or wire the eventfds that are signalled when one is raised.
    Trigger,
}

/// To which vectors of the range the action applies, or what is wired to them.
#[derive(Debug)]
pub enum IrqData<'a> {
    /// All of them.
    None,
    /// Those whose byte is not 0; as many bytes as vectors.
    Bool(&'a [u8]),
    /// One eventfd for each vector, or none at all to unwire every vector of the range.
    Eventfd(Vec<ClientFd>),
}

/// A `DEVICE_SET_IRQS` request. `count` 0 means the whole interrupt type is switched off; it comes
/// with `start` 0 and [`IrqData::None`] only.
#[derive(Debug)]
pub struct SetIrqs<'a> {
    /// VFIO's interrupt type: 0 INTx, 1 MSI, 2 MSI-X, 3 error, 4 request.
    pub index: u32,
    /// First vector.
    pub start: u32,
    /// Number of vectors; `start + count` is at most [`Backend::irq_count`].
    pub count: u32,
    /// What to do.
    pub action: IrqAction,
    /// With what.
    pub data: IrqData<'a>,
}

/// The device behind a session. Calls arrive in the order of the client's messages.
///
/// An answer leaves when the call returns, and QEMU gives up after five seconds with its vCPU
/// stopped for as long: no call may wait for anything.
pub trait Backend {
    /// Whether the device is at something that takes long, and commands wait until it is not.
    fn is_busy(&self) -> bool {
        false
    }

    /// The device and `state` are now one with the stream: whoever goes on with the connection, after this process
    /// ended, needs both of this moment, or both of an earlier one. Called on a [kept](crate::Connection::keep)
    /// connection only, after each message and before its answer leaves. Must not wait.
    fn commit(&mut self, state: &SessionState) {
        let _ = state;
    }

    /// The device as one that can migrate; without this, clients learn that it cannot.
    fn migration(&mut self) -> Option<&mut dyn Migration> {
        None
    }

    /// The region with this index, if the device has it. Asked before every access.
    fn region(&self, index: u32) -> Option<Region>;

    /// What of this region may be mapped; `None` when it is reached by messages only and QEMU may
    /// post its writes.
    fn region_mmap(&self, index: u32) -> Option<RegionMmap> {
        let _ = index;
        None
    }

    /// Vectors of an interrupt type, 0 for one the device does not have.
    fn irq_count(&self, index: u32) -> u32;

    /// Fills `data`, which is zeroed, never empty and at most
    /// [`MAX_DATA`](crate::message::MAX_DATA) long.
    fn read(&mut self, region: u32, offset: u64, data: &mut [u8]);

    /// Takes `data`, which is never empty.
    fn write(&mut self, region: u32, offset: u64, data: &[u8]);

    /// Guest memory appears; without a descriptor it is reached by DMA messages only.
    ///
    /// # Errors
    /// `EEXIST` when it overlaps another mapping, `ENOSPC` beyond
    /// [`MAX_DMA_MAPS`](crate::message::MAX_DMA_MAPS), or whatever mapping the file gave.
    fn dma_map(&mut self, map: DmaMap, fd: Option<ClientFd>) -> Result<(), Errno>;

    /// Guest memory disappears: nothing may touch it once this returns.
    ///
    /// # Errors
    /// `ENOENT` when no mapping is exactly this one.
    fn dma_unmap(&mut self, unmap: DmaUnmap) -> Result<(), Errno>;

    /// Interrupts are wired, unwired, masked or raised.
    ///
    /// # Errors
    /// `EINVAL` for what the interrupt type cannot do.
    fn set_irqs(&mut self, irqs: SetIrqs<'_>) -> Result<(), Errno>;

    /// The device goes back to its state after power-on, and works, whatever state of its migration it was in. Mappings and
    /// eventfds stay.
    fn reset(&mut self);

    /// The end of a DMA request of ours, once for each that was accepted: the data of a read, an
    /// empty slice for a write, or the client's errno (`ECONNRESET` when the session ended first).
    fn dma_done(&mut self, token: u64, result: Result<&[u8], Errno>);
}
