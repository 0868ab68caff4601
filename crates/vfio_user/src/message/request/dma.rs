//! DMA_MAP and DMA_UNMAP: guest memory added and removed.

use super::{Request, front, no_wrap, room_for};
use crate::backend::{DmaMap, DmaUnmap};
use crate::client_fd::ClientFd;
use crate::message::{Refusal, layout};

pub(super) fn dma_map<'a>(payload: &[u8], mut fds: Vec<ClientFd>) -> Result<Request<'a>, Refusal> {
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

pub(super) fn dma_unmap(payload: &[u8]) -> Result<Request<'_>, Refusal> {
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
