//! Removes the state that goes with an object: the device's part of it, its doorbells, and events that wait about it.

use vrdma_adapter::Sending;
use vrdma_verbs::Reaped;
use vrdma_verbs::object::{CqId, Owner, QpId, SrqId};

use crate::adapter::{Adapter, CQ_EVENTS, QP_EVENTS, SRQ_EVENTS};
use crate::kept::Kind;

pub(super) fn forget_qp(adapter: &mut Adapter, id: QpId) {
    adapter.forget_turn(id);
    let Some(qp) = adapter.qps.take(id.0) else {
        return;
    };
    adapter.forget_qp_records(id);
    adapter.forget_events(QP_EVENTS, id.0);
    if let Some(context) = adapter.contexts.get_mut(qp.owner()) {
        context.qps.retain(|other| *other != id);
    }
}

pub(super) fn forget_cq(adapter: &mut Adapter, id: CqId) {
    let Some(cq) = adapter.cqs.take(id.0) else {
        return;
    };
    adapter.forget_cq_records(id);
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
    adapter.forget_srq_records(id);
    adapter.forget_events(SRQ_EVENTS, id.0);
}

/// Retires a context: it is gone at once, and its objects are freed in later polls.
pub(super) fn forget_owner(adapter: &mut Adapter, owner: Owner) {
    adapter.core.hca.retire_owner(owner);
}

/// Forgets an object that the engine has freed, of a context that is gone.
pub(crate) fn forget(adapter: &mut Adapter, reaped: Reaped) {
    match reaped {
        Reaped::Qp(id) => forget_qp(adapter, id),
        Reaped::Srq(id) => forget_srq(adapter, id),
        Reaped::Cq(id) => forget_cq(adapter, id),
        Reaped::Mr(id) => {
            adapter.mrs.take(id.0);
            adapter.forget_record(Kind::Mr, id.0);
        }
        Reaped::Pd(id) => adapter.forget_record(Kind::Pd, id.0),
        Reaped::Mw(_) | Reaped::Owner(_) => {}
    }
}
