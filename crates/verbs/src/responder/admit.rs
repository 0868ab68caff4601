//! Admission of units by their sender, their receiver, and the receiver's state (IBTA 9.6.1). A unit that fails here is
//! dropped without an answer.

use crate::counters::Drops;
use crate::qp::Qp;
use crate::shared::Shared;
use crate::unit::{Request, RequestOp, RequestTail};

/// Reason why a unit was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Drop {
    UnknownQp,
    WrongState,
    WrongPeer,
    UnboundGid,
    WrongQkey,
    Malformed,
    NoReceive,
    SourceFault,
    NoAccess,
    OutOfSequence,
}

impl Drop {
    pub(super) fn counter(self, drops: &mut Drops) -> &mut u64 {
        match self {
            Self::UnknownQp => &mut drops.unknown_qp,
            Self::WrongState => &mut drops.wrong_state,
            Self::WrongPeer => &mut drops.wrong_peer,
            Self::UnboundGid => &mut drops.unbound_gid,
            Self::WrongQkey => &mut drops.wrong_qkey,
            Self::Malformed => &mut drops.malformed,
            Self::NoReceive => &mut drops.no_receive,
            Self::SourceFault => &mut drops.source_fault,
            Self::NoAccess => &mut drops.no_access,
            Self::OutOfSequence => &mut drops.out_of_sequence,
        }
    }
}

/// Checks a unit against the QP that it names.
#[inline]
pub(super) fn admit<R>(qp: &Qp<R>, shared: &Shared<R>, request: &Request<R>) -> Result<(), Drop> {
    if qp.spec.qp_type.service() != request.service {
        return Err(Drop::UnknownQp);
    }
    if !qp.receives() {
        return Err(Drop::WrongState);
    }
    match (request.op, qp.is_connected()) {
        (RequestOp::Datagram { qkey }, false) if qkey != qp.attr.qkey => Err(Drop::WrongQkey),
        (RequestOp::Datagram { .. }, false) => admit_datagram(qp, shared, request),
        (RequestOp::Datagram { .. }, true) | (_, false) => Err(Drop::Malformed),
        (_, true) => admit_connected(qp, shared, request),
    }
}

fn admit_connected<R>(qp: &Qp<R>, shared: &Shared<R>, request: &Request<R>) -> Result<(), Drop> {
    let (from, to) = (request.route.sgid, request.route.dgid);
    qp.is_peer(request.source, from, to, shared)
        .then_some(())
        .ok_or(Drop::WrongPeer)
}

fn admit_datagram<R>(qp: &Qp<R>, shared: &Shared<R>, request: &Request<R>) -> Result<(), Drop> {
    let to = request.route.dgid;
    if !shared.gids.contains(&Some(to)) && !shared.groups.has(to, qp.id) {
        return Err(Drop::UnboundGid);
    }
    let keyed = matches!(request.tail, Some(RequestTail::Invalidate(_)));
    (!keyed).then_some(()).ok_or(Drop::Malformed)
}
