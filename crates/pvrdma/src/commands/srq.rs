//! CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ and DESTROY_SRQ.

use vrdma_adapter::{Failing, Receiving};
use vrdma_memory::{MAX_PAGES, PageList};
use vrdma_verbs::object::{Owner, PdId, SrqId};

use super::destroy::forget_srq;
use super::errno::require;
use super::{Body, Errno, Listed, Reply};
use crate::abi::request::{self, CreateSrq, ModifySrq, SRQ_LIMIT, SrqAttributes};
use crate::abi::response::Created;
use crate::adapter::{Adapter, Turn};
use crate::config::DeviceLimits;
use crate::object::srq::Srq;
use crate::queue::work::{WorkArea, WorkRing, recv_stride};
use crate::quota::Quota;
use crate::ring::RECV_STATE;

const BASIC: u8 = 0;

pub(super) fn create(
    adapter: &mut Adapter,
    turn: Turn<'_, '_>,
    body: &Body,
) -> Result<Reply, Errno> {
    let request: CreateSrq = body.parse();
    let pd = PdId(request.pd_handle.get());
    let owner = adapter.core.hca.owner_of_pd(pd).ok_or(Errno::NoEntry)?;
    let srq = make(&adapter.quota, &adapter.config.limits, &request, |list| {
        list.resolve(turn.memory)
    })?;
    let id = adapter.core.hca.create_srq(pd, srq.limit)?;
    adapter.srqs.put(id.0, Srq { owner, ..srq });
    adapter.record_new_srq(id);
    Ok(Reply::with(&Created {
        handle: id.0.into(),
        ..Created::default()
    }))
}

/// Makes the device's part of the queue that a request asks for, as if the kernel owned it.
pub(crate) fn make(
    quota: &Quota,
    limits: &DeviceLimits,
    request: &CreateSrq,
    resolve: impl FnOnce(Listed) -> Result<PageList, Errno>,
) -> Result<Srq, Errno> {
    let area = geometry(limits, request)?;
    let (directory, pages) = (request.pdir_dma.get(), request.nchunks.get());
    let charge = quota.take(pages).ok_or(Errno::NoMemory)?;
    Ok(Srq {
        owner: Owner::KERNEL,
        pages: resolve(Listed { directory, pages })?,
        ring: WorkRing::new(area),
        max_wr: area.slots,
        max_sge: request.attrs.max_sge.get(),
        limit: request.attrs.srq_limit.get(),
        dead: false,
        request: *request,
        _charge: charge,
    })
}

/// The ring, if the numbers of the request are consistent.
fn geometry(limits: &DeviceLimits, request: &CreateSrq) -> Result<WorkArea, Errno> {
    let (slots, sges) = (request.attrs.max_wr.get(), request.attrs.max_sge.get());
    require(request.srq_type == BASIC)?;
    require(slots.is_power_of_two() && slots <= limits.queue_requests)?;
    require((1..=limits.sges).contains(&sges))?;
    require(request.attrs.srq_limit.get() <= slots)?;
    let area = WorkArea {
        slots,
        stride: recv_stride(sges),
        first_page: 1,
        state: RECV_STATE,
    };
    let pages = request.nchunks.get();
    require(pages <= MAX_PAGES && u64::from(pages) > area.pages())?;
    Ok(area)
}

pub(super) fn modify(
    adapter: &mut Adapter,
    turn: Turn<'_, '_>,
    body: &Body,
) -> Result<Reply, Errno> {
    let request: ModifySrq = body.parse();
    let id = SrqId(request.srq_handle.get());
    let limit = request.attrs.srq_limit.get();
    let srq = adapter.srqs.get_mut(id.0).ok_or(Errno::NoEntry)?;
    require(request.attr_mask.get() == SRQ_LIMIT && limit <= srq.max_wr)?;
    srq.limit = limit;
    adapter.core.hca.modify_srq_limit(id, limit)?;
    if let Err(error) = adapter.check_limit(turn, id) {
        adapter.fail_srq(turn, id, error);
    }
    adapter.record_srq(id);
    Ok(Reply::header())
}

pub(super) fn query(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::Handle = body.parse();
    let srq = adapter.srqs.get(request.handle.get());
    let srq = srq.ok_or(Errno::NoEntry)?;
    Ok(Reply::with(&SrqAttributes {
        max_wr: srq.max_wr.into(),
        max_sge: srq.max_sge.into(),
        srq_limit: srq.limit.into(),
        ..SrqAttributes::default()
    }))
}

pub(super) fn destroy(
    adapter: &mut Adapter,
    turn: Turn<'_, '_>,
    body: &Body,
) -> Result<Reply, Errno> {
    let request: request::Handle = body.parse();
    let id = SrqId(request.handle.get());
    if let Err(error) = adapter.core.hca.destroy_srq(id) {
        adapter.withdraw_srq(turn, id);
        return Err(error.into());
    }
    forget_srq(adapter, id);
    Ok(Reply::header())
}
