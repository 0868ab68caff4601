//! Fast-register requests: their page list is read when the entry is fetched.

use std::sync::Arc;

use vrdma_memory::{PAGE, PageList, Region, Right, View};
use vrdma_verbs::attr::Access;
use vrdma_verbs::work::{FastRegister, Status};
use vrdma_wire::Rkey;

use super::send::part;
use crate::abi::work::{FastRegisterPart, SendHeader};

/// Most pages of one fast-register region: the driver's own limit, which it advertises whatever the device says.
pub(crate) const PAGES_MAX: u32 = 128;
/// The only page size, 4 KiB.
const PAGE_SHIFT: u32 = 12;

/// Reads the page list and checks that the range lies in it.
pub(super) fn decode(
    memory: &View<'_>,
    header: &SendHeader,
) -> Result<FastRegister<Region>, Status> {
    let part: FastRegisterPart = part(header);
    let access = Access::from_bits_truncate(part.access_flags.get());
    let pages = check(&part).ok_or(Status::MwBind)?;
    let right = match access.contains(Access::LOCAL_WRITE) {
        true => Right::Write,
        false => Right::Read,
    };
    let list = PageList::resolve(memory, part.pl_pdir_dma.get(), pages, right);
    let list = list.map_err(|_| Status::MwBind)?;
    let start = part.iova_start.get();
    Ok(FastRegister {
        key: Rkey(part.rkey.get()),
        start,
        length: u64::from(part.length.get()),
        access,
        pages,
        region: Region::Pages(Arc::new(list.starting_at(start))),
    })
}

/// The number of pages, if the range fits them.
fn check(part: &FastRegisterPart) -> Option<u32> {
    let pages = part.page_list_len.get();
    let offset = part.iova_start.get() % PAGE;
    let needed = offset + u64::from(part.length.get());
    let fits = (1..=PAGES_MAX).contains(&pages) && needed <= u64::from(pages) * PAGE;
    (fits && part.page_shift.get() == PAGE_SHIFT).then_some(pages)
}
