//! Shared receive queues.

use std::sync::Arc;

use rustix::io::Errno;
use vrdma_provider::daemon::{SrqPlan, WorkRing};
use vrdma_provider::message::{
    CreateSrq, DestroySrq, Done, ModifySrq, QuerySrq, SrqReply, SrqState, srq_mask,
};
use vrdma_verbs::object::{PdId, SrqId};

use super::{Asker, Cost, Outcome, OutcomeWithFds, errno};
use crate::objects::Srq;
use crate::quota::Kind;

/// The cost of a queue, without its memory.
pub(crate) const SRQ: [Cost; 1] = [(Kind::Srq, 1)];

pub(super) fn create(asker: &mut Asker<'_>, request: CreateSrq) -> OutcomeWithFds<CreateSrq> {
    let pd = PdId(request.pd);
    asker.own(asker.process.core.hca.owner_of_pd(pd))?;
    let plan = SrqPlan::new(request.max_wr, request.max_sge).ok_or(Errno::INVAL)?;
    if request.limit > plan.ring.slots {
        return Err(Errno::INVAL);
    }
    asker.afford(&SRQ)?;
    let memory = asker.take_memory(plan.bytes)?;
    let created = asker.process.core.hca.create_srq(pd, request.limit);
    let id = asker.or_end_memory(created.map_err(errno), &memory)?;
    let fd = memory.descriptor();
    let offset = memory.offset();
    let srq = Srq {
        owner: asker.owner,
        ring: WorkRing::new(Arc::clone(&memory.area), plan.ring),
        memory,
        cookie: request.cookie,
        max_sge: plan.max_sge,
        limit: request.limit,
        dead: false,
    };
    asker.process.srqs.put(id.0, srq);
    asker.take(&SRQ)?;
    let fd = match asker.process.record_srq(id).and(fd) {
        Ok(fd) => fd,
        Err(errno) => {
            destroy(asker, DestroySrq { srq: id.0 })?;
            return Err(errno);
        }
    };
    let reply = SrqReply {
        srq: id.0,
        bytes: offset + plan.bytes,
        number: id.0,
        max_sge: plan.max_sge,
        ring: plan.ring.shifted(offset),
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
        // The queue may be below the limit already.
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
        asker.give(&SRQ)?;
        asker.end_memory(&srq.memory)?;
        asker.process.discard(srq);
    }
    Ok(Done {})
}
