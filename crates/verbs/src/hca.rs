//! One adapter: its tables, its GIDs, and its outputs.

use alloc::vec::Vec;

use vrdma_wire::{Gid, Mtu, Qpn};

use crate::counters::{Counters, Counts};
use crate::error::Error;
use crate::object::{CqId, Identity, Limits, Owner, PdId, QpId, SrqId};
use crate::outputs::Subject;
use crate::peers::Peers;
use crate::qps::{QP_SLOTS_MAX, Qps};
use crate::shared::{Pd, Shared};
use crate::table::Table;
use crate::time::Time;
use crate::timers::Schedule;
use crate::work::Output;

/// First slot of the QP table: PVRDMA guests take QP handle 0 for "none".
const FIRST_QP: u32 = 1;

/// First slot where a QP's slot is its number: 0 and 1 are not for ordinary QPs.
const FIRST_PLAIN_QP: u32 = 2;

/// The stream from which numbers of queue pairs are drawn.
const QP_NAMES: u64 = 1;

/// Returns the first slot of its QPs.
pub(crate) fn first_qp(plain_numbers: bool) -> u32 {
    match plain_numbers {
        true => FIRST_PLAIN_QP,
        false => FIRST_QP,
    }
}

/// A whole host channel adapter. `R` names registered memory, see [`crate::memory::Memory`].
///
/// Call [`Hca::next_ready`], [`Hca::poll_output`] and [`Hca::next_deadline`] again after every call
/// that changes something.
pub struct Hca<R> {
    pub(crate) identity: Identity,
    pub(crate) shared: Shared<R>,
    pub(crate) qps: Qps<R>,
    /// The owner whose objects are freed at the moment.
    pub(crate) reaping: Owner,
    pub(crate) schedule: Schedule,
    pub(crate) peers: Peers,
    /// Whether the slots of QPs are their numbers.
    pub(crate) plain_numbers: bool,
}

impl<R: Clone> Hca<R> {
    /// Makes an adapter without objects.
    pub fn new(identity: Identity, limits: Limits) -> Self {
        Self {
            identity,
            shared: Shared::new(identity, limits),
            qps: Qps::new(Table::named(
                FIRST_QP,
                limits.qps.min(QP_SLOTS_MAX),
                identity.names(QP_NAMES),
            )),
            reaping: Owner::KERNEL,
            schedule: Schedule::default(),
            peers: Peers::default(),
            plain_numbers: false,
        }
    }

    /// Makes the slot of every QP its number, for owners that know only one number for both. A message to a QP that is
    /// gone may then reach its successor.
    ///
    /// # Panics
    /// If there are QPs.
    pub fn number_plainly(&mut self) {
        assert_eq!(self.qps.table.len(), 0, "numbers are for life");
        let limit = self.shared.limits.qps.min(QP_SLOTS_MAX);
        self.qps = Qps::new(Table::new(FIRST_PLAIN_QP, limit));
        self.plain_numbers = true;
    }

    /// Returns the identity that it was made with.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns the limits that it was made with.
    pub fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// Changes the MTU of the port. Queue pairs that are connected keep their path MTU.
    pub fn set_port_mtu(&mut self, mtu: Mtu) {
        self.shared.limits.port_mtu = mtu;
    }

    /// Makes a protection domain. Errors: `Leaving`, `Exhausted`.
    pub fn create_pd(&mut self, owner: Owner) -> Result<PdId, Error> {
        self.check_stays(owner)?;
        let id = self.shared.pds.insert(|_, _| Pd::new(owner)).map(PdId)?;
        self.shared.enlist_pd(id);
        Ok(id)
    }

    /// Destroys a protection domain. Errors: `InvalidHandle`, `InUse` while a region, SRQ or QP is in it.
    pub fn destroy_pd(&mut self, id: PdId) -> Result<(), Error> {
        let pd = self.shared.pd(id)?;
        let owner = pd.owner;
        if pd.users > 0 {
            return Err(Error::InUse);
        }
        let Shared { owners, pds, .. } = &mut self.shared;
        owners.remove(owner, |all| &mut all.pds, pds, id.0);
        pds.remove(id.0);
        Ok(())
    }

    /// Fills an entry of the GID table. Errors: `InvalidAttribute` (index beyond the table, zero or
    /// multicast GID).
    pub fn bind_gid(&mut self, index: u8, gid: Gid) -> Result<(), Error> {
        if gid.is_zero() || gid.is_multicast() {
            return Err(Error::InvalidAttribute);
        }
        *self.gid_entry(index)? = Some(gid);
        self.wake_unaddressed();
        Ok(())
    }

    /// Wakes queue pairs that have units and had no source address; those that still have none wait on.
    fn wake_unaddressed(&mut self) {
        while let Some(id) = self.schedule.pop_unaddressed() {
            if let Some(qp) = self.qps.get_mut(id.0) {
                qp.scheduled.unaddressed = false;
                qp.reschedule(&mut self.schedule);
            }
        }
    }

    /// Empties an entry of the GID table and returns its GID. Connections that use it stop sending and receiving until
    /// it is bound again. Errors: `InvalidAttribute` (index).
    pub fn unbind_gid(&mut self, index: u8) -> Result<Option<Gid>, Error> {
        Ok(self.gid_entry(index)?.take())
    }

    fn gid_entry(&mut self, index: u8) -> Result<&mut Option<Gid>, Error> {
        let entry = self.shared.gids.get_mut(usize::from(index));
        entry.ok_or(Error::InvalidAttribute)
    }

    /// Returns an entry of the GID table.
    pub fn gid(&self, index: u8) -> Option<Gid> {
        self.shared.gid(index)
    }

    /// Returns all protection domains.
    pub fn pds(&self) -> impl Iterator<Item = PdId> {
        self.shared.pds.iter().map(|(id, _)| PdId(id))
    }

    /// Returns the owner of a protection domain.
    pub fn owner_of_pd(&self, id: PdId) -> Option<Owner> {
        Some(self.shared.pds.get(id.0)?.owner)
    }

    /// Returns the owner of a completion queue.
    pub fn owner_of_cq(&self, id: CqId) -> Option<Owner> {
        Some(self.shared.cqs.get(id.0)?.owner)
    }

    /// Returns the owner of a shared receive queue.
    pub fn owner_of_srq(&self, id: SrqId) -> Option<Owner> {
        Some(self.shared.srqs.get(id.0)?.owner)
    }

    /// Returns the queue pair that a number on the wire names.
    #[inline]
    pub fn qp_named(&self, qpn: Qpn) -> Option<QpId> {
        Some(self.qps.named(qpn)?.id)
    }

    /// Returns the owner of a queue pair, which is the owner of its protection domain.
    pub fn owner_of_qp(&self, id: QpId) -> Option<Owner> {
        Some(self.qps.get(id.0)?.owner)
    }

    /// Returns the queue pairs that are, or are about to be, connected to a peer.
    pub fn connections(&self) -> Vec<QpId> {
        let all = self.qps.table.iter();
        let connected = all.filter(|(_, qp)| qp.is_connected() && (qp.receives() || qp.sends()));
        connected.map(|(id, _)| QpId(id)).collect()
    }

    /// Returns all owners of objects.
    pub fn owners(&self) -> Vec<Owner> {
        self.shared.owners.all().collect()
    }

    /// Counts live objects, including those of leaving owners.
    pub fn counts(&self) -> Counts {
        Counts {
            pds: self.shared.pds.len(),
            mrs: self.shared.mrs.len() - self.shared.windows,
            mws: self.shared.windows,
            cqs: self.shared.cqs.len(),
            qps: self.qps.table.len(),
            srqs: self.shared.srqs.len(),
        }
    }

    /// Returns the counters of what it has done so far.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Takes the next completion or event. Payloads of polled units are read from the owner's memory at their delivery.
    /// So deliver the polled units (or put them on the wire) before the owner gets the completions: a request that no
    /// peer answers completes when it is polled.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output> {
        match self.shared.outputs.is_selective() {
            true => self.poll_kept_output(),
            false => self.shared.outputs.pop(),
        }
    }

    #[cold]
    #[inline(never)]
    fn poll_kept_output(&mut self) -> Option<Output> {
        let Self { qps, shared, .. } = self;
        let Shared {
            outputs, cqs, srqs, ..
        } = shared;
        outputs.pop_kept(|subject| {
            let owner = match subject {
                Subject::Qp(id) => qps.get(id.0).map(|qp| qp.owner),
                Subject::Cq(id) => cqs.get(id.0).map(|cq| cq.owner),
                Subject::Srq(id) => srqs.get(id.0).map(|srq| srq.owner),
            };
            owner.is_some_and(|owner| qps.leaving.has(owner))
        })
    }

    /// Whether [`Hca::poll_output`] or [`Hca::take_changed_key`] may have something.
    #[inline]
    pub fn has_output(&self) -> bool {
        self.shared.outputs.has_entries() || !self.shared.changed_keys.is_empty()
    }

    /// Takes the slot of a window that was bound or unbound, or of a fast-register region that was filled or emptied,
    /// since the last call. It may be gone by now. Call it until there is none.
    #[inline]
    pub fn take_changed_key(&mut self) -> Option<u32> {
        self.shared.changed_keys.pop()
    }

    /// Forgets changed keys: nobody needs them.
    pub fn forget_changed_keys(&mut self) {
        self.shared.changed_keys.clear();
    }

    /// Returns a time at which to call [`Hca::handle_timeout`]; it may be earlier than necessary.
    #[inline]
    pub fn next_deadline(&self) -> Option<Time> {
        self.schedule.next_deadline()
    }

    /// Makes every QP with something to send ready, after restoring.
    pub(crate) fn wake_all(&mut self) {
        let Self { qps, schedule, .. } = self;
        qps.table
            .iter_mut()
            .for_each(|(_, qp)| qp.reschedule(schedule));
    }
}
