//! The objects of an adapter, in the words of the control API.

use vrdma_api::{CqState, MrState, OBJECTS_TOLD_MAX, ObjectStates, QpState, SrqState};
use vrdma_verbs::attr::{Access, QpState as State};
use vrdma_verbs::object::{MrKind, QpType, WindowKind};
use vrdma_verbs::outline::{MemoryKind, MrOutline, Outline, QpOutline};

use super::adapter::Adapter;

/// Returns the objects; an adapter that no process has used yet has none.
pub(super) fn objects(adapter: &Adapter) -> ObjectStates {
    let outline = match adapter {
        Adapter::Vm(vm) => Some(vm.outline(OBJECTS_TOLD_MAX)),
        Adapter::Process { process, .. } => process
            .get()
            .map(|process| process.hca().outline(OBJECTS_TOLD_MAX)),
    };
    outline.as_ref().map(told).unwrap_or_default()
}

fn told(outline: &Outline) -> ObjectStates {
    let cqs = outline.cqs.iter().map(|cq| CqState {
        number: cq.id.0,
        owner: cq.owner.0,
        failed: cq.failed,
    });
    let srqs = outline.srqs.iter().map(|srq| SrqState {
        number: srq.id.0,
        owner: srq.owner.0,
        pd: srq.pd.0,
        limit: srq.limit,
        failed: srq.failed,
        receives: srq.receives,
    });
    ObjectStates {
        qps: outline.qps.iter().map(qp).collect(),
        cqs: cqs.collect(),
        srqs: srqs.collect(),
        mrs: outline.mrs.iter().map(mr).collect(),
    }
}

fn qp(qp: &QpOutline) -> QpState {
    QpState {
        number: qp.qpn.get(),
        service: service(qp.qp_type).to_owned(),
        state: state(qp.state).to_owned(),
        owner: qp.owner.0,
        send_cq: qp.send_cq.0,
        recv_cq: qp.recv_cq.0,
        srq: qp.srq.map(|srq| srq.0),
        peer: qp.peer.map(|(gid, _)| gid.to_string()),
        peer_number: qp.peer.map(|(_, number)| number.get()),
        mtu: qp.path_mtu.bytes(),
        unacked_psn: qp.unacked.get(),
        next_psn: qp.next.get(),
        expected_psn: qp.expected.get(),
        msn: qp.msn,
        sends: qp.sends,
        receives: qp.receives,
        retries: qp.retries,
        rnr_retries: qp.rnr_retries,
    }
}

fn service(qp_type: QpType) -> &'static str {
    match qp_type {
        QpType::Gsi => "gsi",
        QpType::Rc => "rc",
        QpType::Uc => "uc",
        QpType::Ud => "ud",
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Reset => "reset",
        State::Init => "init",
        State::Rtr => "rtr",
        State::Rts => "rts",
        State::Sqd => "sqd",
        State::Sqe => "sqe",
        State::Err => "err",
    }
}

fn mr(mr: &MrOutline) -> MrState {
    let kind = match mr.kind {
        MemoryKind::Region(MrKind::User) => "user",
        MemoryKind::Region(MrKind::Dma) => "dma",
        MemoryKind::Region(MrKind::FastRegister { .. }) => "fast-register",
        MemoryKind::Window(WindowKind::One) => "window-1",
        MemoryKind::Window(WindowKind::Two) => "window-2",
    };
    let rights = mr.access.iter_names();
    MrState {
        slot: mr.slot,
        pd: mr.pd.0,
        kind: kind.to_owned(),
        bytes: mr.length,
        access: rights
            .map(|(name, _): (_, Access)| name.to_lowercase().replace('_', "-"))
            .collect(),
        valid: mr.is_valid,
    }
}
