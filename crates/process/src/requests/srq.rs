//! Shared receive queues.

use std::sync::Arc;

use rustix::io::Errno;
use vrdma_provider::area::Area;
use vrdma_provider::daemon::{SrqPlan, WorkRing};
use vrdma_provider::message::{
    CreateSrq, DestroySrq, Done, ModifySrq, QuerySrq, SrqReply, SrqState, srq_mask,
};
use vrdma_verbs::object::{PdId, SrqId};

use super::{Asker, Cost, Outcome, OutcomeWithFds, errno};
use crate::objects::Srq;
use crate::quota::Kind;

/// With the descriptor of its memory, if that is kept.
fn cost(bytes: u64, kept: bool) -> [Cost; 4] {
    [
        (Kind::Srq, 1),
        (Kind::RingBytes, bytes),
        (Kind::Mapping, 1),
        (Kind::Descriptor, kept.into()),
    ]
}

/// What our half of a queue costs.
pub(crate) fn cost_of(srq: &Srq) -> [Cost; 4] {
    cost(srq.bytes, srq.area.is_some())
}

pub(super) fn create(asker: &mut Asker<'_>, request: CreateSrq) -> OutcomeWithFds<CreateSrq> {
    let pd = PdId(request.pd);
    asker.own(asker.process.core.hca.owner_of_pd(pd))?;
    let plan = SrqPlan::new(request.max_wr, request.max_sge).ok_or(Errno::INVAL)?;
    if request.limit > plan.ring.slots {
        return Err(Errno::INVAL);
    }
    let is_recorded = asker.process.is_recorded();
    asker.afford(&cost(plan.bytes.into(), is_recorded))?;
    let (area, fd) = Area::create("vrdma-srq", plan.bytes as usize).map_err(|_| Errno::NOMEM)?;
    let kept = asker.process.keep(&fd)?;
    let id = asker
        .process
        .core
        .hca
        .create_srq(pd, request.limit)
        .map_err(errno)?;
    let srq = Srq {
        owner: asker.owner,
        ring: WorkRing::new(Arc::new(area), plan.ring),
        area: kept,
        bytes: plan.bytes.into(),
        cookie: request.cookie,
        max_sge: plan.max_sge,
        limit: request.limit,
        dead: false,
    };
    asker.process.srqs.put(id.0, srq);
    asker.take(&cost(plan.bytes.into(), is_recorded))?;
    if let Err(errno) = asker.process.record_srq(id) {
        destroy(asker, DestroySrq { srq: id.0 })?;
        return Err(errno);
    }
    let reply = SrqReply {
        srq: id.0,
        bytes: plan.bytes,
        number: id.0,
        max_sge: plan.max_sge,
        ring: plan.ring,
    };
    Ok((reply, vec![fd]))
}

pub(super) fn modify(asker: &mut Asker<'_>, request: ModifySrq) -> Outcome<ModifySrq> {
    let srq = asker.process.srqs.get(request.srq);
    asker.own(srq.map(|srq| srq.owner))?;
    let slots = srq.map_or(0, |srq| srq.ring.slots());
    if request.mask & !srq_mask::LIMIT != 0 || request.limit > slots {
        return Err(Errno::INVAL);
    }
    if request.mask & srq_mask::LIMIT != 0 {
        let id = SrqId(request.srq);
        asker
            .process
            .core
            .hca
            .modify_srq_limit(id, request.limit)
            .map_err(errno)?;
        if let Some(srq) = asker.process.srqs.get_mut(request.srq) {
            srq.limit = request.limit;
        }
        asker.process.write_srq_progress(id);
        // It may be below already.
        asker.process.check_limit_now(id, asker.now);
    }
    Ok(Done {})
}

pub(super) fn query(asker: &mut Asker<'_>, request: QuerySrq) -> Outcome<QuerySrq> {
    let srq = asker.process.srqs.get(request.srq);
    asker.own(srq.map(|srq| srq.owner))?;
    let srq = srq.ok_or(Errno::NOENT)?;
    Ok(SrqState {
        max_wr: srq.ring.slots(),
        max_sge: srq.max_sge,
        limit: srq.limit,
    })
}

pub(super) fn destroy(asker: &mut Asker<'_>, request: DestroySrq) -> Outcome<DestroySrq> {
    let srq = asker.process.srqs.get(request.srq);
    asker.own(srq.map(|srq| srq.owner))?;
    asker
        .process
        .core
        .hca
        .destroy_srq(SrqId(request.srq))
        .map_err(errno)?;
    asker.process.forget_srq(SrqId(request.srq));
    if let Some(srq) = asker.process.srqs.take(request.srq) {
        asker.give(&cost_of(&srq))?;
        asker.process.discard(srq);
    }
    Ok(Done {})
}
