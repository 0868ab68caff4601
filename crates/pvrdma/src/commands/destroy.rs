//! What goes with an object: our half of it, its doorbells and what waits about it.

use vrdma_adapter::Sending;
use vrdma_verbs::object::{CqId, Owner, QpId, SrqId};

use crate::adapter::{Adapter, CQ_EVENTS, QP_EVENTS, SRQ_EVENTS};

pub(super) fn forget_qp(adapter: &mut Adapter, id: QpId) {
    let Some(qp) = adapter.qps.take(id.0) else {
        return;
    };
    adapter.forget_turn(id);
    adapter.forget_events(QP_EVENTS, id.0);
    if let Some(context) = adapter.contexts.get_mut(qp.owner()) {
        context.qps.retain(|other| *other != id);
    }
}

pub(super) fn forget_cq(adapter: &mut Adapter, id: CqId) {
    let Some(cq) = adapter.cqs.take(id.0) else {
        return;
    };
    adapter.forget_events(CQ_EVENTS, id.0);
    adapter.forget_notifications(id, cq.watched_at);
    if let Some(context) = adapter.contexts.get_mut(cq.owner) {
        context.cqs -= 1;
        context.unheard.retain(|other| *other != id);
        context.heard.retain(|other| *other != id);
    }
}

pub(super) fn forget_srq(adapter: &mut Adapter, id: SrqId) {
    adapter.srqs.take(id.0);
    adapter.forget_events(SRQ_EVENTS, id.0);
}

/// Everything of a context that is gone.
pub(super) fn forget_owner(adapter: &mut Adapter, owner: Owner) {
    adapter.core.hca.destroy_owner(owner);
    for id in adapter.qps.numbers(|qp| qp.owner() == owner) {
        forget_qp(adapter, QpId(id));
    }
    for id in adapter.srqs.numbers(|srq| srq.owner == owner) {
        forget_srq(adapter, SrqId(id));
    }
    for id in adapter.cqs.numbers(|cq| cq.owner == owner) {
        forget_cq(adapter, CqId(id));
    }
    adapter.mrs.retain(|mr| mr.owner != owner);
}
