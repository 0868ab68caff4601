//! Commands of the client as values.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::layout::{self, RegionAccess, WriteOne};
use super::version::VersionRequest;
use super::{Command, MAX_DATA, Refusal};
use crate::backend::{DmaMap, DmaUnmap, IrqAction, IrqData, SetIrqs};

/// A question about the thing with this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// Most bytes of payload that the answer may have.
    pub argsz: u32,
    /// Region or interrupt type.
    pub index: u32,
}

/// Data for a region.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Where to; the count is the length of the data.
    pub access: &'a RegionAccess,
    /// At most [`MAX_DATA`] bytes.
    pub data: &'a [u8],
}

/// Several small writes in order.
#[derive(Debug, Clone, Copy)]
pub struct WriteMulti<'a>(&'a [WriteOne]);

impl<'a> WriteMulti<'a> {
    /// Number of writes.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The writes, none longer than 8 bytes.
    pub fn writes(&self) -> impl Iterator<Item = Write<'a>> {
        self.0.iter().map(|one| Write {
            access: &one.access,
            data: &one.data[..one.access.count.get() as usize],
        })
    }
}

/// A command that is well formed. The payload's borrowed parts stay where they were received.
#[derive(Debug)]
#[expect(missing_docs, reason = "one variant for each command of the same name")]
pub enum Request<'a> {
    Version(VersionRequest),
    DmaMap(DmaMap, Option<OwnedFd>),
    DmaUnmap(DmaUnmap, &'a [u8]),
    DeviceGetInfo,
    DeviceGetRegionInfo(Query),
    DeviceGetIrqInfo(Query),
    DeviceSetIrqs(SetIrqs<'a>),
    RegionRead(&'a RegionAccess),
    RegionWrite(Write<'a>),
    RegionWriteMulti(WriteMulti<'a>),
    DeviceReset,
}

impl<'a> Request<'a> {
    /// Reads a command's payload. The descriptors are those that came with the message; the ones
    /// that the command has no use for are closed.
    ///
    /// # Errors
    /// The refusal to send back; the descriptors are closed.
    pub fn parse(command: u16, payload: &'a [u8], fds: Vec<OwnedFd>) -> Result<Self, Refusal> {
        use Command as C;
        let command =
            Command::from_code(command).ok_or(Refusal::unsupported("there is no such command"))?;
        match command {
            C::Version => VersionRequest::parse(payload).map(Request::Version),
            C::DmaMap => dma_map(payload, fds),
            C::DmaUnmap => dma_unmap(payload),
            C::DeviceGetInfo => device_info(payload),
            C::DeviceGetRegionInfo => region_info(payload),
            C::DeviceGetIrqInfo => irq_info(payload),
            C::DeviceSetIrqs => set_irqs(payload, fds).map(Request::DeviceSetIrqs),
            C::RegionRead => region_read(payload),
            C::RegionWrite => region_write(payload),
            C::RegionWriteMulti => write_multi(payload).map(Request::RegionWriteMulti),
            C::DeviceReset => Ok(Request::DeviceReset),
            C::DeviceFeature => Err(device_feature(payload)),
            C::DmaRead | C::DmaWrite => Err(Refusal::invalid("only the server asks for DMA")),
            C::DeviceGetRegionIoFds | C::DirtyPages | C::MigDataRead | C::MigDataWrite => {
                Err(Refusal::unsupported("this command is not offered"))
            }
        }
    }
}

/// The structure at the start of the payload, and what follows it.
fn front<T>(payload: &[u8]) -> Result<(&T, &[u8]), Refusal>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_prefix(payload)
        .map_err(|_| Refusal::invalid("the payload is shorter than the command's structure"))
}

/// Requests that say how much answer they can take must be able to take the fixed part.
fn room_for<T>(argsz: u32) -> Result<(), Refusal> {
    if (argsz as usize) < size_of::<T>() {
        return Err(Refusal::invalid("argsz is smaller than the structure"));
    }
    Ok(())
}

/// The last address of a range must be an address.
fn no_wrap(start: u64, size: u64) -> Result<(), Refusal> {
    let last = size
        .checked_sub(1)
        .ok_or(Refusal::invalid("the range is empty"))?;
    start
        .checked_add(last)
        .ok_or(Refusal::invalid("the range wraps around"))?;
    Ok(())
}

fn dma_map<'a>(payload: &[u8], mut fds: Vec<OwnedFd>) -> Result<Request<'a>, Refusal> {
    const READ: u32 = 1 << 0;
    const WRITE: u32 = 1 << 1;
    let (raw, _) = front::<layout::DmaMap>(payload)?;
    room_for::<layout::DmaMap>(raw.argsz.get())?;
    let flags = raw.flags.get();
    if flags & !(READ | WRITE) != 0 || flags == 0 {
        return Err(Refusal::invalid("a mapping is readable, writable or both"));
    }
    let map = DmaMap {
        iova: raw.address.get(),
        size: raw.size.get(),
        offset: raw.offset.get(),
        readable: flags & READ != 0,
        writable: flags & WRITE != 0,
    };
    no_wrap(map.iova, map.size)?;
    let file_end = map.offset.checked_add(map.size);
    if file_end.is_none_or(|end| i64::try_from(end).is_err()) {
        return Err(Refusal::invalid("the mapping ends beyond any file"));
    }
    let fd = fds.pop();
    if !fds.is_empty() {
        return Err(Refusal::invalid("a mapping comes with one file at most"));
    }
    Ok(Request::DmaMap(map, fd))
}

fn dma_unmap(payload: &[u8]) -> Result<Request<'_>, Refusal> {
    const ALL: u32 = 1 << 1;
    let (raw, _) = front::<layout::DmaUnmap>(payload)?;
    room_for::<layout::DmaUnmap>(raw.argsz.get())?;
    let (iova, size) = (raw.address.get(), raw.size.get());
    let unmap = match raw.flags.get() {
        0 => {
            no_wrap(iova, size)?;
            DmaUnmap::Range { iova, size }
        }
        ALL if iova == 0 && size == 0 => DmaUnmap::All,
        ALL => return Err(Refusal::invalid("unmapping everything takes no range")),
        _ => {
            return Err(Refusal::unsupported(
                "unmapping does not report dirty pages",
            ));
        }
    };
    Ok(Request::DmaUnmap(
        unmap,
        &payload[..size_of::<layout::DmaUnmap>()],
    ))
}

fn device_info<'a>(payload: &[u8]) -> Result<Request<'a>, Refusal> {
    let (raw, _) = front::<layout::DeviceInfo>(payload)?;
    room_for::<layout::DeviceInfo>(raw.argsz.get())?;
    Ok(Request::DeviceGetInfo)
}

fn region_info<'a>(payload: &[u8]) -> Result<Request<'a>, Refusal> {
    let (raw, _) = front::<layout::RegionInfo>(payload)?;
    room_for::<layout::RegionInfo>(raw.argsz.get())?;
    Ok(Request::DeviceGetRegionInfo(Query {
        argsz: raw.argsz.get(),
        index: raw.index.get(),
    }))
}

fn irq_info<'a>(payload: &[u8]) -> Result<Request<'a>, Refusal> {
    let (raw, _) = front::<layout::IrqInfo>(payload)?;
    room_for::<layout::IrqInfo>(raw.argsz.get())?;
    Ok(Request::DeviceGetIrqInfo(Query {
        argsz: raw.argsz.get(),
        index: raw.index.get(),
    }))
}

fn set_irqs(payload: &[u8], fds: Vec<OwnedFd>) -> Result<SetIrqs<'_>, Refusal> {
    const DATA: u32 = 0b000_111;
    const ACTION: u32 = 0b111_000;
    let (raw, rest) = front::<layout::SetIrqs>(payload)?;
    room_for::<layout::SetIrqs>(raw.argsz.get())?;
    let (flags, count) = (raw.flags.get(), raw.count.get());
    if flags & !(DATA | ACTION) != 0 {
        return Err(Refusal::invalid("unknown flags in a SET_IRQS request"));
    }
    let irqs = SetIrqs {
        index: raw.index.get(),
        start: raw.start.get(),
        count,
        action: irq_action(flags & ACTION)?,
        data: irq_data(flags & DATA, count, rest, fds)?,
    };
    if count == 0 && (irqs.start != 0 || !matches!(irqs.data, IrqData::None)) {
        return Err(Refusal::invalid("no vectors were named"));
    }
    Ok(irqs)
}

fn irq_action(flags: u32) -> Result<IrqAction, Refusal> {
    match flags {
        0b001_000 => Ok(IrqAction::Mask),
        0b010_000 => Ok(IrqAction::Unmask),
        0b100_000 => Ok(IrqAction::Trigger),
        _ => Err(Refusal::invalid(
            "a SET_IRQS request has exactly one action",
        )),
    }
}

fn irq_data(
    flags: u32,
    count: u32,
    rest: &[u8],
    fds: Vec<OwnedFd>,
) -> Result<IrqData<'_>, Refusal> {
    match flags {
        0b001 => Ok(IrqData::None),
        0b010 => rest
            .get(..count as usize)
            .map(IrqData::Bool)
            .ok_or(Refusal::invalid("fewer booleans than vectors")),
        0b100 if fds.is_empty() || fds.len() == count as usize => Ok(IrqData::Eventfd(fds)),
        0b100 => Err(Refusal::invalid("not as many eventfds as vectors")),
        _ => Err(Refusal::invalid(
            "a SET_IRQS request has exactly one kind of data",
        )),
    }
}

fn bounded(access: &RegionAccess) -> Result<usize, Refusal> {
    let count = access.count.get();
    if count > MAX_DATA {
        return Err(Refusal::invalid(
            "the transfer is larger than max_data_xfer_size",
        ));
    }
    Ok(count as usize)
}

fn region_read(payload: &[u8]) -> Result<Request<'_>, Refusal> {
    let (access, _) = front::<RegionAccess>(payload)?;
    bounded(access)?;
    Ok(Request::RegionRead(access))
}

fn region_write(payload: &[u8]) -> Result<Request<'_>, Refusal> {
    let (access, data) = front::<RegionAccess>(payload)?;
    if bounded(access)? != data.len() {
        return Err(Refusal::invalid("the count is not the length of the data"));
    }
    Ok(Request::RegionWrite(Write { access, data }))
}

fn write_multi(payload: &[u8]) -> Result<WriteMulti<'_>, Refusal> {
    let (count, rest) = front::<U64>(payload)?;
    let writes = <[WriteOne]>::ref_from_bytes(rest)
        .map_err(|_| Refusal::invalid("the writes do not fill the message"))?;
    if writes.len() as u64 != count.get() {
        return Err(Refusal::invalid("not as many writes as the message says"));
    }
    if writes
        .iter()
        .any(|one| one.access.count.get() as usize > one.data.len())
    {
        return Err(Refusal::invalid("a combined write is longer than 8 bytes"));
    }
    Ok(WriteMulti(writes))
}

/// Every feature there is belongs to migration, which QEMU 11 does not do over vfio-user. `ENOTTY`
/// is what the kernel's VFIO answers for a feature it lacks, and what QEMU takes as a plain "no".
fn device_feature(payload: &[u8]) -> Refusal {
    match front::<layout::DeviceFeature>(payload) {
        Ok(_) => Refusal {
            errno: Errno::NOTTY,
            reason: "the device has no such feature",
        },
        Err(malformed) => malformed,
    }
}
