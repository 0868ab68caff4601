//! One adapter: its tables, its GIDs, and what it hands out.

use alloc::vec::Vec;

use vrdma_wire::{Gid, Mtu, Qpn};

use crate::counters::{Counters, Counts};
use crate::error::Error;
use crate::object::{CqId, Identity, Limits, MrId, MwId, Owner, PdId, QpId, SrqId};
use crate::qp::Qp;
use crate::shared::{Pd, Shared};
use crate::table::Table;
use crate::time::Time;
use crate::timers::Schedule;
use crate::work::Output;

use alloc::boxed::Box;

/// First slot of the QP table: PVRDMA guests take QP handle 0 for "none".
const FIRST_QP: u32 = 1;

/// The same where a QP's slot is its number: 0 and 1 are not for ordinary QPs.
const FIRST_PLAIN_QP: u32 = 2;

/// Slots that fit into a QPN below its generation.
const QP_SLOTS: u32 = 1 << 16;

/// The last slot stays empty, or its last generation would have the number of multicast groups.
const QP_SLOTS_MAX: u32 = QP_SLOTS - 1;

/// A whole host channel adapter. `R` names registered memory, see [`crate::memory::Memory`].
///
/// Call [`Hca::next_ready`], [`Hca::poll_output`] and [`Hca::next_deadline`] again after every call
/// that changes something.
pub struct Hca<R> {
    pub(crate) identity: Identity,
    pub(crate) shared: Shared<R>,
    pub(crate) qps: Table<Box<Qp<R>>>,
    pub(crate) gsi: Option<QpId>,
    pub(crate) schedule: Schedule,
    /// Numbers of QPs are their slots.
    pub(crate) plain_numbers: bool,
}

impl<R: Clone> Hca<R> {
    /// An adapter without objects.
    pub fn new(identity: Identity, limits: Limits) -> Self {
        Self {
            identity,
            shared: Shared::new(identity, limits),
            qps: Table::new(FIRST_QP, limits.qps.min(QP_SLOTS_MAX), identity.seed),
            gsi: None,
            schedule: Schedule::default(),
            plain_numbers: false,
        }
    }

    /// Gives every QP its slot as its number, for owners that know only one number for both. What
    /// is sent to a QP that is gone may then reach its successor.
    ///
    /// # Panics
    /// If there are QPs.
    pub fn number_plainly(&mut self) {
        assert_eq!(self.qps.len(), 0, "numbers are for life");
        let limit = self.shared.limits.qps.min(QP_SLOTS_MAX);
        self.qps = Table::without_generations(FIRST_PLAIN_QP, limit);
        self.plain_numbers = true;
    }

    /// What it was made with.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// What it was made with.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Changes the MTU of the port. Queue pairs that are connected keep their path MTU.
    pub fn set_port_mtu(&mut self, mtu: Mtu) {
        self.shared.limits.port_mtu = mtu;
    }

    /// Makes a protection domain. Errors: `Exhausted`.
    pub fn create_pd(&mut self, owner: Owner) -> Result<PdId, Error> {
        let pd = Pd { owner, users: 0 };
        self.shared.pds.insert(|_, _| pd).map(PdId)
    }

    /// Errors: `InvalidHandle`, `InUse` while a region, SRQ or QP is in it.
    pub fn destroy_pd(&mut self, id: PdId) -> Result<(), Error> {
        if self.shared.pd(id)?.users > 0 {
            return Err(Error::InUse);
        }
        self.shared.pds.remove(id.0);
        Ok(())
    }

    /// Fills an entry of the GID table. Errors: `InvalidAttribute` (index beyond the table, zero or
    /// multicast GID).
    pub fn bind_gid(&mut self, index: u8, gid: Gid) -> Result<(), Error> {
        if gid.is_zero() || gid.is_multicast() {
            return Err(Error::InvalidAttribute);
        }
        *self.gid_entry(index)? = Some(gid);
        self.wake_all();
        Ok(())
    }

    /// Empties an entry of the GID table and answers what it held. Connections that use it stop
    /// sending and receiving until it is bound again. Errors: `InvalidAttribute` (index).
    pub fn unbind_gid(&mut self, index: u8) -> Result<Option<Gid>, Error> {
        Ok(self.gid_entry(index)?.take())
    }

    fn gid_entry(&mut self, index: u8) -> Result<&mut Option<Gid>, Error> {
        let entry = self.shared.gids.get_mut(usize::from(index));
        entry.ok_or(Error::InvalidAttribute)
    }

    /// An entry of the GID table.
    pub fn gid(&self, index: u8) -> Option<Gid> {
        self.shared.gid(index)
    }

    /// The owner of a protection domain.
    pub fn owner_of_pd(&self, id: PdId) -> Option<Owner> {
        Some(self.shared.pds.get(id.0)?.owner)
    }

    /// The owner of a completion queue.
    pub fn owner_of_cq(&self, id: CqId) -> Option<Owner> {
        Some(self.shared.cqs.get(id.0)?.owner)
    }

    /// The owner of a shared receive queue.
    pub fn owner_of_srq(&self, id: SrqId) -> Option<Owner> {
        Some(self.shared.srqs.get(id.0)?.owner)
    }

    /// The owner of a queue pair: that of its protection domain.
    pub fn owner_of_qp(&self, id: QpId) -> Option<Owner> {
        Some(self.qps.get(id.0)?.owner)
    }

    /// Destroys everything that belongs to one context; what it had outstanding vanishes.
    pub fn destroy_owner(&mut self, owner: Owner) {
        for qp in self.qps_where(|qp| qp.owner == owner) {
            self.shared.groups.leave_all(qp);
            let _ = self.destroy_qp(qp);
        }
        for srq in ids(&self.shared.srqs, |srq| srq.owner == owner) {
            let _ = self.destroy_srq(SrqId(srq));
        }
        for cq in ids(&self.shared.cqs, |cq| cq.owner == owner) {
            let _ = self.destroy_cq(CqId(cq));
        }
        let pds = ids(&self.shared.pds, |pd| pd.owner == owner);
        let keys = ids(&self.shared.mrs, |mr| pds.contains(&mr.pd.0));
        for window in &keys {
            let _ = self.free_mw(MwId(*window));
        }
        for mr in keys {
            let _ = self.deregister(MrId(mr));
        }
        for pd in pds {
            let _ = self.destroy_pd(PdId(pd));
        }
    }

    /// Live objects.
    pub fn counts(&self) -> Counts {
        Counts {
            pds: self.shared.pds.len(),
            mrs: self.shared.mrs.len() - self.shared.windows,
            mws: self.shared.windows,
            cqs: self.shared.cqs.len(),
            qps: self.qps.len(),
            srqs: self.shared.srqs.len(),
        }
    }

    /// What it has done so far.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// The next completion or event. Payloads of units polled before are read from the owner's
    /// memory when they are delivered, so deliver (or put on the wire) what was polled before
    /// handing the completions to the owner: what no peer answers completes when it is polled.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.shared.outputs.pop_front()
    }

    /// A moment at which to call [`Hca::handle_timeout`]; it may be earlier than necessary.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        self.schedule.next_deadline()
    }

    /// Gives back queue memory that bursts left behind. [`Hca::handle_timeout`] does so for a
    /// connection that has been quiet for its time-out.
    pub fn trim(&mut self) {
        self.qps.iter_mut().for_each(|(_, qp)| qp.trim());
        let outputs = &mut self.shared.outputs;
        outputs.shrink_to(outputs.len());
    }

    /// Every QP with something to send is ready.
    pub(crate) fn wake_all(&mut self) {
        let Self { qps, schedule, .. } = self;
        qps.iter_mut().for_each(|(_, qp)| qp.reschedule(schedule));
    }

    /// The QPs that a predicate picks.
    pub(crate) fn qps_where(&self, wanted: impl Fn(&Qp<R>) -> bool) -> Vec<QpId> {
        let picked = self.qps.iter().filter(|(_, qp)| wanted(qp));
        picked.map(|(index, _)| QpId(index)).collect()
    }

    /// Sends QPs to ERR whose queue failed.
    pub(crate) fn fail_where(&mut self, wanted: impl Fn(&Qp<R>) -> bool) {
        let Self { qps, shared, .. } = self;
        for (_, qp) in qps.iter_mut().filter(|(_, qp)| wanted(qp)) {
            qp.enter_error(shared);
        }
    }

    /// The slot that a number on the wire names, whatever its generation.
    #[inline]
    pub(crate) fn slot_of(&self, qpn: Qpn) -> Option<QpId> {
        if qpn == Qpn::GSI {
            return self.gsi;
        }
        Some(QpId(qpn.get() & (QP_SLOTS - 1)))
    }
}

fn ids<T>(table: &Table<T>, wanted: impl Fn(&T) -> bool) -> Vec<u32> {
    let picked = table.iter().filter(|(_, object)| wanted(object));
    picked.map(|(index, _)| index).collect()
}
