//! Queue pairs: creating, modifying, failing and destroying them.

mod attrs;
mod flush;
mod lists;
mod state;

use alloc::boxed::Box;

use vrdma_wire::Qpn;

pub(crate) use attrs::{PORT, values_are_valid};
pub(crate) use lists::{Links, OfRecvCq, OfSendCq, OfSrq};

use crate::attr::{AttrMask, QpAttr, QpState};
use crate::error::Error;
use crate::hca::Hca;
use crate::list::List;
use crate::object::{Owner, QpId, QpSpec, QpType};
use crate::outputs::Subject;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::shared::Shared;
use crate::timers::Scheduled;
use crate::window::OfBinder;
use crate::work::Event;

pub(crate) struct Qp<R> {
    pub(crate) id: QpId,
    pub(crate) qpn: Qpn,
    pub(crate) spec: QpSpec,
    pub(crate) owner: Owner,
    /// Attributes; `attr.state` is the queue pair's state.
    pub(crate) attr: QpAttr,
    pub(crate) requester: Requester<R>,
    pub(crate) responder: Responder,
    pub(crate) scheduled: Scheduled,
    /// Windows that only this queue pair may use.
    pub(crate) windows: List<OfBinder>,
    pub(crate) links: Links,
}

impl<R> Qp<R> {
    pub(crate) fn new(id: QpId, qpn: Qpn, owner: Owner, spec: QpSpec) -> Self {
        Self {
            id,
            qpn,
            spec,
            owner,
            attr: QpAttr::default(),
            requester: Requester::default(),
            responder: Responder::default(),
            scheduled: Scheduled::default(),
            windows: List::default(),
            links: Links::default(),
        }
    }

    pub(crate) fn state(&self) -> QpState {
        self.attr.state
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.spec.qp_type.is_connected()
    }

    /// Whether the peer answers.
    pub(crate) fn is_reliable(&self) -> bool {
        self.spec.qp_type == QpType::Rc
    }

    /// Whether it takes in requests (IBTA 10.3.1).
    #[inline]
    pub(crate) fn receives(&self) -> bool {
        use QpState::{Rtr, Rts, Sqd, Sqe};
        matches!(self.attr.state, Rtr | Rts | Sqd | Sqe)
    }

    /// Does what entering a state takes besides the change of state.
    fn enter(&mut self, from: QpState, to: QpState, shared: &mut Shared<R>) {
        match to {
            QpState::Err => return self.enter_error(shared),
            QpState::Reset => self.forget_work(shared),
            QpState::Rtr => self.responder.start(self.attr.rq_psn),
            QpState::Rts if from == QpState::Rtr => self.requester.start(self.attr.sq_psn),
            QpState::Sqd if from == QpState::Rts => {
                self.requester.ask_drained(self.attr.sqd_event);
            }
            _ => {}
        }
        self.attr.state = to;
        self.note_drained(shared);
    }
}

impl<R: Clone> Hca<R> {
    /// Makes a queue pair in RESET.
    ///
    /// Errors: `InvalidHandle` (PD, CQ or SRQ), `WrongOwner` (they belong to different owners, the
    /// SRQ is in another PD, or a GSI QP is not the kernel's), `InUse` (a second GSI QP),
    /// `InvalidAttribute` (an SRQ on a datagram QP of the GSI), `InvalidState` (a failed CQ or SRQ),
    /// `Leaving`, `Exhausted`.
    pub fn create_qp(&mut self, spec: QpSpec) -> Result<QpId, Error> {
        let owner = self.check_spec(&spec)?;
        let gsi = spec.qp_type == QpType::Gsi;
        self.check_stays(owner)?;
        let is_plain = self.plain_numbers;
        let index = self.qps.table.insert(|slot, name| {
            let qpn = if gsi {
                Qpn::GSI
            } else if is_plain {
                Qpn::from_low_bits(slot)
            } else {
                Qpn::from_low_bits(name.number())
            };
            Box::new(Qp::new(QpId(slot), qpn, owner, spec))
        })?;
        if gsi {
            self.qps.gsi = Some(QpId(index));
        }
        self.enlist_qp(QpId(index));
        Ok(QpId(index))
    }

    fn check_spec(&self, spec: &QpSpec) -> Result<Owner, Error> {
        let owner = self.shared.pd(spec.pd)?.owner;
        for cq in [spec.send_cq, spec.recv_cq] {
            let cq = self.shared.cq(cq)?;
            check(cq.owner == owner, Error::WrongOwner)?;
            check(!cq.failed, Error::InvalidState)?;
        }
        if let Some(srq) = spec.srq {
            let srq = self.shared.srq(srq)?;
            check(srq.pd == spec.pd, Error::WrongOwner)?;
            check(!srq.failed, Error::InvalidState)?;
        }
        if spec.qp_type == QpType::Gsi {
            check(owner == Owner::KERNEL, Error::WrongOwner)?;
            check(spec.srq.is_none(), Error::InvalidAttribute)?;
            check(self.qps.gsi.is_none(), Error::InUse)?;
        }
        Ok(owner)
    }

    /// Changes the attributes that `mask` names, and the state with them, or nothing at all.
    ///
    /// Errors: `InvalidHandle`, `InvalidTransition` (no such transition, an attribute missing or not
    /// allowed, `current_state` wrong), `InvalidAttribute` (a value).
    pub fn modify_qp(&mut self, id: QpId, attr: &QpAttr, mask: AttrMask) -> Result<(), Error> {
        let Self { qps, shared, .. } = self;
        let qp = qps.get_mut(id.0).ok_or(Error::InvalidHandle)?;
        let from = qp.state();
        let to = attrs::target_state(qp.spec.qp_type, from, attr, mask)?;
        attrs::check_values(shared, attr, mask)?;
        attrs::apply(&mut qp.attr, attr, mask);
        qp.enter(from, to, shared);
        self.follow_peer(id);
        if let Some(qp) = self.qps.get_mut(id.0) {
            qp.reschedule(&mut self.schedule);
        }
        Ok(())
    }

    /// Returns all attributes as they are now; the PSNs are the next ones. Errors: `InvalidHandle`.
    pub fn query_qp(&self, id: QpId) -> Result<QpAttr, Error> {
        let qp = self.qps.get(id.0).ok_or(Error::InvalidHandle)?;
        Ok(QpAttr {
            current_state: qp.attr.state,
            sq_psn: qp.requester.next_psn(),
            rq_psn: qp.responder.expected(),
            sq_draining: qp.is_draining(),
            ..qp.attr
        })
    }

    /// Returns the QP's number on the wire.
    pub fn qpn(&self, id: QpId) -> Option<Qpn> {
        Some(self.qps.get(id.0)?.qpn)
    }

    /// Returns the QP's state.
    #[inline]
    pub fn qp_state(&self, id: QpId) -> Option<QpState> {
        Some(self.qps.get(id.0)?.state())
    }

    /// Returns the spec with which the QP was created.
    pub fn qp_spec(&self, id: QpId) -> Option<&QpSpec> {
        Some(&self.qps.get(id.0)?.spec)
    }

    /// Destroys a queue pair. Its outstanding work vanishes, none of its completions and events is
    /// handed out any more, and the windows that only it could use are unbound.
    ///
    /// Errors: `InvalidHandle`, `InUse` while it is attached to a multicast group.
    pub fn destroy_qp(&mut self, id: QpId) -> Result<(), Error> {
        if self.shared.groups.of(id).next().is_some() {
            return Err(Error::InUse);
        }
        let qp = self.qps.get_mut(id.0).ok_or(Error::InvalidHandle)?;
        self.schedule.forget(id, &qp.scheduled);
        self.shared.unbind_windows_of(qp);
        self.shared.outputs.recall(Subject::Qp(id));
        self.delist_qp(id);
        self.qps.table.remove(id.0);
        if self.qps.gsi == Some(id) {
            self.qps.gsi = None;
        }
        Ok(())
    }

    /// Fails a QP whose own queues or memory failed: an event is raised, and the QP goes to ERR. Nothing happens in
    /// RESET and ERR. Errors: `InvalidHandle`.
    pub fn fail_qp(&mut self, id: QpId) -> Result<(), Error> {
        let qp = self.qps.get_mut(id.0).ok_or(Error::InvalidHandle)?;
        if !matches!(qp.state(), QpState::Reset | QpState::Err) {
            self.shared.event(Event::QpFatal(id));
            qp.enter_error(&mut self.shared);
        }
        Ok(())
    }
}

fn check(condition: bool, error: Error) -> Result<(), Error> {
    condition.then_some(()).ok_or(error)
}

#[cfg(test)]
mod tests;
