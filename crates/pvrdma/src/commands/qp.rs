//! CREATE_QP, MODIFY_QP, QUERY_QP and DESTROY_QP.

use vrdma_adapter::{RunState, Sending};
use vrdma_memory::PageList;
use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::{CqId, Owner, PdId, QpId, QpSpec, QpType, SrqId};

use super::destroy::forget_qp;
use super::qp_attributes;
use super::qp_geometry::Geometry;
use super::{Body, Errno, Listed, Reply};
use crate::abi::request::{self, CreateQp, ModifyQp, QueryQp, qp_type};
use crate::abi::response::{Created, CreatedQp, CreatedQpV1, QpSizes};
use crate::abi::version;
use crate::adapter::{Adapter, Turn};
use crate::config::DeviceLimits;
use crate::decode::send::SendRules;
use crate::object::qp::Qp;
use crate::queue::work::WorkRing;
use crate::quota::Quota;

pub(super) fn create(
    adapter: &mut Adapter,
    turn: Turn<'_, '_>,
    body: &Body,
) -> Result<Reply, Errno> {
    let request: CreateQp = body.parse();
    let spec = spec(&request)?;
    let owner = adapter
        .core
        .hca
        .owner_of_pd(spec.pd)
        .ok_or(Errno::NoEntry)?;
    let mut qp = make(&adapter.quota, &adapter.config.limits, &request, |list| {
        list.resolve(turn.memory)
    })?;
    let id = adapter.core.hca.create_qp(spec)?;
    qp.rules.owner = owner;
    let sizes = qp.sizes;
    adapter.qps.put(id.0, qp);
    if let Some(context) = adapter.contexts.get_mut(owner) {
        context.qps.push(id);
    }
    adapter.record_new_qp(id);
    Ok(created(adapter, id, sizes))
}

/// Makes the device's part of the queue pair that a request asks for, as if the kernel owned it.
pub(crate) fn make(
    quota: &Quota,
    limits: &DeviceLimits,
    request: &CreateQp,
    resolve: impl FnOnce(Listed) -> Result<PageList, Errno>,
) -> Result<Qp, Errno> {
    let geometry = Geometry::check(request, limits)?;
    let spec = spec(request)?;
    let (directory, pages) = (request.pdir_dma.get(), geometry.pages);
    let charge = quota.take(pages).ok_or(Errno::NoMemory)?;
    let rules = SendRules {
        qp_type: spec.qp_type,
        owner: Owner::KERNEL,
        pd: spec.pd,
        max_sge: geometry.sizes.max_send_sge.get(),
        max_sge_rd: limits.read_sges,
    };
    Ok(Qp {
        rules,
        sizes: geometry.sizes,
        pages: resolve(Listed { directory, pages })?,
        send: WorkRing::new(geometry.send),
        recv: geometry.recv.map(WorkRing::new),
        run: RunState::default(),
        dead: false,
        request: *request,
        _charge: charge,
    })
}

fn spec(request: &CreateQp) -> Result<QpSpec, Errno> {
    let qp_type = match request.qp_type {
        qp_type::GSI => QpType::Gsi,
        qp_type::RC => QpType::Rc,
        qp_type::UD => QpType::Ud,
        _ => return Err(Errno::Invalid),
    };
    let srq = SrqId(request.srq_handle.get());
    let pd = PdId(request.pd_handle.get());
    let send_cq = CqId(request.send_cq_handle.get());
    let recv_cq = CqId(request.recv_cq_handle.get());
    Ok(QpSpec {
        srq: (request.is_srq == 1).then_some(srq),
        signal_all: request.sq_sig_all != 0,
        ..QpSpec::new(qp_type, pd, send_cq, recv_cq)
    })
}

fn created(adapter: &Adapter, id: QpId, sizes: QpSizes) -> Reply {
    let qpn = adapter.core.hca.qpn(id).expect("it was created just now");
    if adapter.driver_version < version::QP_HANDLE {
        // Such a driver takes this number for the handle. They only differ for QP1, whose number everybody knows.
        return Reply::with(&CreatedQpV1 {
            qpn: id.0.into(),
            sizes,
        });
    }
    Reply::with(&CreatedQp {
        qpn: qpn.get().into(),
        qp_handle: id.0.into(),
        sizes,
        ..CreatedQp::default()
    })
}

pub(super) fn modify(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: ModifyQp = body.parse();
    let id = QpId(request.qp_handle.get());
    let (attr, mask) = qp_attributes::parse(&request)?;
    adapter.core.hca.modify_qp(id, &attr, mask)?;
    match adapter.core.hca.qp_state(id) {
        Some(QpState::Reset) => adapter.qps.get_mut(id.0).into_iter().for_each(Qp::restart),
        _ => adapter.wake(id),
    }
    adapter.record_qp(id);
    Ok(Reply::header())
}

pub(super) fn query(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: QueryQp = body.parse();
    let id = QpId(request.qp_handle.get());
    let attr = adapter.core.hca.query_qp(id)?;
    let qp = adapter.qps.get(id.0).ok_or(Errno::NoEntry)?;
    Ok(Reply::with(&qp_attributes::encode(&attr, &qp.sizes)))
}

pub(super) fn destroy(adapter: &mut Adapter, _: Turn<'_, '_>, body: &Body) -> Result<Reply, Errno> {
    let request: request::Handle = body.parse();
    let id = QpId(request.handle.get());
    adapter.core.hca.destroy_qp(id)?;
    forget_qp(adapter, id);
    Ok(Reply::with(&Created::default()))
}
