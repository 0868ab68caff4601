//! Parsed commands of the client.

mod dma;
mod feature;
mod irqs;
mod region;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::layout::{self, RegionAccess};
use super::version::VersionRequest;
use super::{Command, Refusal};
use crate::backend::{DmaMap, DmaUnmap, SetIrqs};
use crate::client_fd::ClientFd;
pub use feature::{Feature, FeatureRequest, Report};
pub use region::{Write, WriteMulti};

/// A question about the region or interrupt type with this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// Most bytes of payload that the answer may have.
    pub argsz: u32,
    /// Region or interrupt type.
    pub index: u32,
}

/// A well-formed command. The borrowed parts of the payload stay where they were received.
#[derive(Debug)]
#[expect(missing_docs, reason = "one variant for each command of the same name")]
pub enum Request<'a> {
    Version(VersionRequest),
    DmaMap(DmaMap, Option<ClientFd>),
    DmaUnmap(DmaUnmap, &'a [u8]),
    DeviceGetInfo,
    DeviceGetRegionInfo(Query),
    DeviceGetIrqInfo(Query),
    DeviceSetIrqs(SetIrqs<'a>),
    RegionRead(&'a RegionAccess),
    RegionWrite(Write<'a>),
    RegionWriteMulti(WriteMulti<'a>),
    DeviceReset,
    DeviceFeature(Feature<'a>),
    MigDataRead(u32),
    MigDataWrite(&'a [u8]),
}

impl<'a> Request<'a> {
    /// Parses a command's payload. `fds` came with the message; the command keeps those that it needs, and the others
    /// are closed.
    ///
    /// # Errors
    /// The refusal to send back; the descriptors are closed.
    pub fn parse(command: u16, payload: &'a [u8], fds: Vec<ClientFd>) -> Result<Self, Refusal> {
        use Command as C;
        let command =
            Command::from_code(command).ok_or(Refusal::unsupported("there is no such command"))?;
        match command {
            C::Version => VersionRequest::parse(payload).map(Request::Version),
            C::DmaMap => dma::dma_map(payload, fds),
            C::DmaUnmap => dma::dma_unmap(payload),
            C::DeviceGetInfo => device_info(payload),
            C::DeviceGetRegionInfo => region_info(payload),
            C::DeviceGetIrqInfo => irq_info(payload),
            C::DeviceSetIrqs => irqs::set_irqs(payload, fds).map(Request::DeviceSetIrqs),
            C::RegionRead => region::region_read(payload),
            C::RegionWrite => region::region_write(payload),
            C::RegionWriteMulti => region::write_multi(payload).map(Request::RegionWriteMulti),
            C::DeviceReset => Ok(Request::DeviceReset),
            C::DeviceFeature => feature::device_feature(payload),
            C::MigDataRead => feature::read_data(payload),
            C::MigDataWrite => feature::write_data(payload),
            C::DmaRead | C::DmaWrite => Err(Refusal::invalid("only the server asks for DMA")),
            C::DeviceGetRegionIoFds | C::DirtyPages => {
                Err(Refusal::unsupported("this command is not offered"))
            }
        }
    }
}

/// Splits a payload into the structure at its start and the rest.
fn front<T>(payload: &[u8]) -> Result<(&T, &[u8]), Refusal>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_prefix(payload)
        .map_err(|_| Refusal::invalid("the payload is shorter than the command's structure"))
}

/// Checks that the client can receive at least the fixed part of the answer.
fn room_for<T>(argsz: u32) -> Result<(), Refusal> {
    if (argsz as usize) < size_of::<T>() {
        return Err(Refusal::invalid("argsz is smaller than the structure"));
    }
    Ok(())
}

/// Checks that a range is not empty and does not wrap.
fn no_wrap(start: u64, size: u64) -> Result<(), Refusal> {
    let last = size
        .checked_sub(1)
        .ok_or(Refusal::invalid("the range is empty"))?;
    start
        .checked_add(last)
        .ok_or(Refusal::invalid("the range wraps around"))?;
    Ok(())
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
