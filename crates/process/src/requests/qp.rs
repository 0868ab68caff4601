//! Queue pairs.

use std::sync::Arc;

use rustix::io::Errno;
use vrdma_adapter::{RunState, Sending};
use vrdma_memory::Region;
use vrdma_provider::daemon::{QpPlan, WorkRing};
use vrdma_provider::message::{
    AttachMcast, CreateQp, DestroyQp, DetachMcast, Done, ModifyQp, QpReply, QueryQp, QueryQpReply,
    qp_type,
};
use vrdma_verbs::attr::{Access, AttrMask, QpState};
use vrdma_verbs::object::{CqId, MrId, MrKeys, MrKind, MrSpec, PdId, QpId, QpSpec, QpType, SrqId};
use vrdma_wire::{Gid, Qpn};

use super::{Asker, Cost, Outcome, OutcomeWithFds, errno, memory, qp_attributes};
use crate::kept::Kind as Record;
use crate::limits;
use crate::objects::Qp;
use crate::queue_pairs::Entry;
use crate::quota::Kind;
use crate::slabs::Part;

/// The cost of a queue pair in one group.
const ATTACHMENT: [Cost; 1] = [(Kind::Attachment, 1)];

/// The cost of a queue pair, without its memory.
pub(crate) const QP: [Cost; 1] = [(Kind::Qp, 1)];

pub(super) fn create(asker: &mut Asker<'_>, request: CreateQp) -> OutcomeWithFds<CreateQp> {
    let spec = spec(&request)?;
    asker.own(asker.process.core.hca.owner_of_pd(spec.pd))?;
    let plan = QpPlan::new(&request.capacity, spec.srq.is_some()).ok_or(Errno::INVAL)?;
    asker.afford(&QP)?;
    let memory = asker.take_memory(plan.bytes)?;
    let made = in_engine(asker, spec, &plan, &memory);
    let Made { id, qpn, data } = asker.or_end_memory(made, &memory)?;
    let fd = memory.descriptor();
    let offset = memory.offset();
    let port = asker.process.spec.port;
    let context = asker.context()?;
    let entry = Entry::new(Arc::clone(context.holdings.user()), port, qpn);
    let doorbell = context.assign_doorbell(id);
    let qp = Qp {
        owner: asker.owner,
        qp_type: spec.qp_type,
        qpn,
        _entry: entry,
        recv: (spec.srq.is_none()).then(|| WorkRing::new(Arc::clone(&memory.area), plan.recv)),
        send: WorkRing::new(Arc::clone(&memory.area), plan.send),
        memory,
        capacity: plan.capacity,
        cookie: request.cookie,
        doorbell,
        data: (data.id, data.lkey),
        run: RunState::default(),
        flushing: false,
        dead: false,
    };
    asker.process.qps.put(id.0, qp);
    asker.take(&QP)?;
    let recorded = asker.process.record_qp(id);
    let fd = match recorded.and(fd) {
        Ok(fd) => fd,
        Err(errno) => {
            remove(asker, DestroyQp { qp: id.0 })?;
            return Err(errno);
        }
    };
    let reply = QpReply {
        qp: id.0,
        qp_num: qpn.get(),
        doorbell,
        bytes: offset + plan.bytes,
        capacity: plan.capacity,
        send: plan.send.shifted(offset),
        recv: plan.recv.shifted(offset),
    };
    Ok((reply, vec![fd]))
}

/// The engine's half of a queue pair.
struct Made {
    id: QpId,
    qpn: Qpn,
    data: MrKeys,
}

fn in_engine(
    asker: &mut Asker<'_>,
    spec: QpSpec,
    plan: &QpPlan,
    memory: &Part,
) -> Result<Made, Errno> {
    let data = register_data(asker, spec.pd, plan, memory)?;
    let created = asker.process.core.hca.create_qp(spec).map_err(errno);
    let id = created.inspect_err(|_| forget_data(asker, data.id))?;
    let qpn = asker.process.core.hca.qpn(id).unwrap_or(Qpn::GSI);
    Ok(Made { id, qpn, data })
}

fn spec(request: &CreateQp) -> Result<QpSpec, Errno> {
    let qp_type = match request.qp_type {
        qp_type::RC => QpType::Rc,
        qp_type::UC => QpType::Uc,
        qp_type::UD => QpType::Ud,
        _ => return Err(Errno::OPNOTSUPP),
    };
    let (send_cq, recv_cq) = (CqId(request.send_cq), CqId(request.recv_cq));
    Ok(QpSpec {
        srq: (request.has_srq != 0).then_some(SrqId(request.srq)),
        signal_all: request.signal_all != 0,
        ..QpSpec::new(qp_type, PdId(request.pd), send_cq, recv_cq)
    })
}

/// Registers the data area as a region that work requests of this PD can only read; its addresses are offsets.
fn register_data(
    asker: &mut Asker<'_>,
    pd: PdId,
    plan: &QpPlan,
    memory: &Part,
) -> Result<MrKeys, Errno> {
    let region = memory.region(plan.send.data_at, plan.send.data_bytes);
    let region = region.map_err(|_| Errno::NOMEM)?;
    let spec = MrSpec {
        kind: MrKind::User,
        start: 0,
        length: plan.send.data_bytes.into(),
        access: Access::empty(),
        region: Some(Region::File(region)),
    };
    asker.process.core.hca.register(pd, spec).map_err(errno)
}

fn forget_data(asker: &mut Asker<'_>, data: MrId) {
    let _ = asker.process.core.hca.deregister(data);
}

pub(super) fn modify(asker: &mut Asker<'_>, request: ModifyQp) -> Outcome<ModifyQp> {
    let id = QpId(request.qp);
    asker.own(asker.process.core.hca.owner_of_qp(id))?;
    let (attr, mask) = qp_attributes::parse(&request)?;
    let ends = matches!(attr.state, QpState::Reset | QpState::Err);
    if ends && mask.contains(AttrMask::STATE) {
        may_end(asker)?;
    }
    asker.process.grants.forget_qp(id);
    asker
        .process
        .core
        .hca
        .modify_qp(id, &attr, mask)
        .map_err(errno)?;
    match asker.process.core.hca.qp_state(id) {
        Some(QpState::Reset) => asker
            .process
            .qps
            .get_mut(id.0)
            .into_iter()
            .for_each(Qp::restart),
        _ => asker.process.wake(id),
    }
    asker.process.write_qp(id);
    Ok(Done {})
}

pub(super) fn query(asker: &mut Asker<'_>, request: QueryQp) -> Outcome<QueryQp> {
    let id = QpId(request.qp);
    asker.own(asker.process.core.hca.owner_of_qp(id))?;
    let attr = asker.process.core.hca.query_qp(id).map_err(errno)?;
    let qp = asker.process.qps.get(id.0).ok_or(Errno::NOENT)?;
    Ok(QueryQpReply {
        attributes: qp_attributes::encode(&attr),
        capacity: qp.capacity,
    })
}

pub(super) fn destroy(asker: &mut Asker<'_>, request: DestroyQp) -> Outcome<DestroyQp> {
    asker.own(asker.process.core.hca.owner_of_qp(QpId(request.qp)))?;
    may_end(asker)?;
    remove(asker, request)
}

/// Whether a queue pair may end: its buffers are the program's again after the answer, and a late copy would still be
/// written there. The client is to ask again.
fn may_end(asker: &mut Asker<'_>) -> Result<(), Errno> {
    match memory::is_late(asker) {
        true => Err(Errno::AGAIN),
        false => Ok(()),
    }
}

fn remove(asker: &mut Asker<'_>, request: DestroyQp) -> Outcome<DestroyQp> {
    let id = QpId(request.qp);
    let attachments = asker.process.core.hca.groups_of(id).count() as u64;
    asker.process.core.hca.destroy_qp(id).map_err(errno)?;
    asker.process.grants.forget_qp(id);
    asker.process.forget_turn(id);
    asker.process.groups_changed = true;
    let Some(qp) = asker.process.qps.take(id.0) else {
        return Err(Errno::NOENT);
    };
    forget_data(asker, qp.data.0);
    asker.process.forget_record(Record::Mr, qp.data.0.0);
    asker.process.forget_qp(id);
    let context = asker.process.context(asker.owner).ok_or(Errno::NOENT)?;
    context.release_doorbell(qp.doorbell);
    asker.give(&QP)?;
    asker.end_memory(&qp.memory)?;
    asker.process.discard(qp);
    asker.give(&[(Kind::Attachment, attachments)])?;
    Ok(Done {})
}

pub(super) fn attach(asker: &mut Asker<'_>, request: AttachMcast) -> Outcome<AttachMcast> {
    let id = QpId(request.qp);
    asker.own(asker.process.core.hca.owner_of_qp(id))?;
    let group = Gid(request.gid);
    if asker.process.core.hca.groups_of(id).any(|it| it == group) {
        return Ok(Done {});
    }
    asker.afford(&ATTACHMENT)?;
    if attached_by_user(asker, group) >= limits::GROUP_QPS {
        return Err(Errno::NOMEM);
    }
    let attached = asker.process.core.hca.attach_mcast(id, group);
    attached.map_err(errno)?;
    // With one more group the record may need more room than it has.
    if let Err(no_room) = asker.process.record_qp(id) {
        let _ = asker.process.core.hca.detach_mcast(id, group);
        asker.process.write_qp(id);
        return Err(no_room);
    }
    asker.take(&ATTACHMENT)?;
    asker.process.groups_changed = true;
    Ok(Done {})
}

/// Number of the user's queue pairs in a group, which has room for few.
fn attached_by_user(asker: &mut Asker<'_>, group: Gid) -> usize {
    let Ok(user) = asker.holdings().map(|holdings| Arc::clone(holdings.user())) else {
        return 0;
    };
    let (hca, contexts) = (&asker.process.core.hca, &asker.process.contexts);
    let owners = hca.members_of(group).filter_map(|qp| hca.owner_of_qp(qp));
    let members = owners.filter_map(|owner| contexts.get(owner.0));
    members
        .filter(|context| Arc::ptr_eq(context.holdings.user(), &user))
        .count()
}

pub(super) fn detach(asker: &mut Asker<'_>, request: DetachMcast) -> Outcome<DetachMcast> {
    let id = QpId(request.qp);
    asker.own(asker.process.core.hca.owner_of_qp(id))?;
    let detached = asker.process.core.hca.detach_mcast(id, Gid(request.gid));
    detached.map_err(errno)?;
    asker.process.write_qp(id);
    asker.give(&ATTACHMENT)?;
    asker.process.groups_changed = true;
    Ok(Done {})
}
