//! CREATE_CQ, RESIZE_CQ and DESTROY_CQ.

use vrdma_memory::{MAX_PAGES, PAGE, PageList};
use vrdma_verbs::object::{CqId, Owner};

use super::destroy::forget_cq;
use super::errno::require;
use super::{Body, Errno, Listed, Reply};
use crate::abi::request::{self, CreateCq};
use crate::abi::response::CreatedCq;
use crate::adapter::{Adapter, Turn};
use crate::arming::Arming;
use crate::config::DeviceLimits;
use crate::object::cq::Cq;
use crate::queue::completion::{CompletionRing, ENTRY_BYTES};
use crate::quota::Quota;

pub(super) fn create(
    adapter: &mut Adapter,
    turn: Turn<'_, '_>,
    body: &Body,
) -> Result<Reply, Errno> {
    let request: CreateCq = body.parse();
    let owner = Owner(request.ctx_handle.get());
    if !adapter.contexts.contains(owner) {
        return Err(Errno::NoEntry);
    }
    let cq = make(&adapter.quota, &adapter.config.limits, &request, |list| {
        list.resolve(turn.memory)
    })?;
    let id = adapter.core.hca.create_cq(owner)?;
    adapter.cqs.put(id.0, cq);
    adapter.count_cq(owner);
    adapter.record_new_cq(id);
    Ok(Reply::with(&CreatedCq {
        cq_handle: id.0.into(),
        cqe: request.cqe,
    }))
}

/// Makes the device's part of the queue that a request asks for.
pub(crate) fn make(
    quota: &Quota,
    limits: &DeviceLimits,
    request: &CreateCq,
    resolve: impl FnOnce(Listed) -> Result<PageList, Errno>,
) -> Result<Cq, Errno> {
    let (entries, pages) = geometry(limits, request)?;
    let charge = quota.take(pages).ok_or(Errno::NoMemory)?;
    let directory = request.pdir_dma.get();
    Ok(Cq {
        owner: Owner(request.ctx_handle.get()),
        ring: CompletionRing::new(entries, resolve(Listed { directory, pages })?),
        arming: Arming::new(),
        unpublished: None,
        watched_at: None,
        dead: false,
        request: *request,
        _charge: charge,
    })
}

/// Number of entries and of pages, if the entries fit the pages.
fn geometry(limits: &DeviceLimits, request: &CreateCq) -> Result<(u32, u32), Errno> {
    let (entries, pages) = (request.cqe.get(), request.nchunks.get());
    require(entries.is_power_of_two())?;
    require(entries <= limits.queue_completions)?;
    let needed = 1 + (u64::from(entries) * u64::from(ENTRY_BYTES)).div_ceil(PAGE);
    require(u64::from(pages) >= needed && pages <= MAX_PAGES)?;
    Ok((entries, pages))
}

/// Refuses: Linux never resizes.
pub(super) fn resize(_: &mut Adapter, _: Turn<'_, '_>, _: &Body) -> Result<Reply, Errno> {
    Err(Errno::NotSupported)
}

pub(super) fn destroy(
    adapter: &mut Adapter,
    turn: Turn<'_, '_>,
    body: &Body,
) -> Result<Reply, Errno> {
    let request: request::Handle = body.parse();
    let id = CqId(request.handle.get());
    if let Err(error) = adapter.core.hca.destroy_cq(id) {
        adapter.withdraw_cq(turn, id);
        return Err(error.into());
    }
    forget_cq(adapter, id);
    Ok(Reply::none())
}
