//! REGION_READ and REGION_WRITE: registers read and written.

use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

use super::{Request, front};
use crate::message::layout::{RegionAccess, WriteOne};
use crate::message::{MAX_DATA, Refusal};

/// A write to a region.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Region and offset; its count is the length of the data.
    pub access: &'a RegionAccess,
    /// The bytes to write, at most [`MAX_DATA`].
    pub data: &'a [u8],
}

/// Several small writes, in order.
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

fn bounded(access: &RegionAccess) -> Result<usize, Refusal> {
    let count = access.count.get();
    if count > MAX_DATA {
        return Err(Refusal::invalid(
            "the transfer is larger than max_data_xfer_size",
        ));
    }
    Ok(count as usize)
}

pub(super) fn region_read(payload: &[u8]) -> Result<Request<'_>, Refusal> {
    let (access, _) = front::<RegionAccess>(payload)?;
    bounded(access)?;
    Ok(Request::RegionRead(access))
}

pub(super) fn region_write(payload: &[u8]) -> Result<Request<'_>, Refusal> {
    let (access, data) = front::<RegionAccess>(payload)?;
    if bounded(access)? != data.len() {
        return Err(Refusal::invalid("the count is not the length of the data"));
    }
    Ok(Request::RegionWrite(Write { access, data }))
}

pub(super) fn write_multi(payload: &[u8]) -> Result<WriteMulti<'_>, Refusal> {
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
