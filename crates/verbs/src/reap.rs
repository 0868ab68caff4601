//! The end of an owner: at once for everybody else, piece by piece for the adapter.
//!
//! ```text
//!   retire_owner ──► leaving: numbers and keys are taken, and nobody reaches anything
//!                       │ reap, a bounded number of steps a call, between other work
//!                       ▼
//!                    queue pairs ─► shared receive queues ─► CQs ─► windows ─► regions ─► domains ─► gone
//! ```
//!
//! While an owner leaves, its queue pairs neither send nor answer. Units and packets to them are dropped and counted as
//! if the queue pair did not exist, answers to their units under way are ignored, and their timers have no effect. The
//! owner's keys are out of reach, too, since a key opens only to queue pairs of its domain. None of its completions and
//! events is handed out, and it gets no new objects. The part of [`crate::object::Limits`] that an object takes is
//! returned when it is freed.
//!
//! The front end is told of each freed object, because its number may be used again from then on. It then frees its own
//! half of the object and what the owner paid for it, and with [`Reaped::Owner`] the owner's name.

use crate::error::Error;
use crate::hca::Hca;
use crate::list::List;
use crate::object::{CqId, MrId, MwId, Owner, PdId, QpId, SrqId};
use crate::owner::{Belongings, OfOwner};

/// A freed object, or an owner that is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reaped {
    /// A queue pair.
    Qp(QpId),
    /// A shared receive queue.
    Srq(SrqId),
    /// A completion queue.
    Cq(CqId),
    /// A memory region.
    Mr(MrId),
    /// A memory window.
    Mw(MwId),
    /// A protection domain.
    Pd(PdId),
    /// The owner has no objects any more and is no longer leaving: its name may be used again.
    Owner(Owner),
}

impl<R: Clone> Hca<R> {
    /// Retires an owner that is gone: from now on none of its objects can be reached, which takes no longer than a
    /// lookup of its name. [`Hca::reap`] frees its objects. Until that reports [`Reaped::Owner`], no objects of this
    /// owner can be made ([`Error::Leaving`]).
    ///
    /// The front end takes nothing more from the owner's rings, and forgets its half of an object when
    /// [`Hca::reap`] names it.
    pub fn retire_owner(&mut self, owner: Owner) {
        self.qps.leaving.add(owner);
        self.shared.outputs.mute(true);
    }

    /// Frees objects of leaving owners, in at most `budget` steps, and reports each to `freed`. True while there are
    /// more: call it between other work until it returns false. A step frees one object, or a part of one: a window's
    /// binding, a multicast attachment, an unfinished request.
    pub fn reap(&mut self, budget: u32, mut freed: impl FnMut(Reaped)) -> bool {
        let mut left = budget;
        while left > 0
            && let Some(owner) = self.qps.leaving.next_from(self.reaping)
        {
            self.reaping = owner;
            if let Some(reaped) = self.reap_of(owner, &mut left) {
                freed(reaped);
            }
        }
        self.is_reaping()
    }

    /// Whether [`Hca::reap`] has something to do.
    pub fn is_reaping(&self) -> bool {
        !self.qps.leaving.is_empty()
    }

    /// Whether an owner is leaving.
    pub fn is_leaving(&self, owner: Owner) -> bool {
        self.qps.leaving.has(owner)
    }

    /// Does [`Hca::retire_owner`] and [`Hca::reap`] to the end, in one go. It is for callers that hold up nobody:
    /// tests, simulators, an adapter that is reset as a whole. Other callers free piece by piece.
    pub fn destroy_owner(&mut self, owner: Owner) {
        self.retire_owner(owner);
        while self.reap(u32::MAX, |_| {}) {}
    }

    /// Checks that an owner is not leaving, so that it may have new objects.
    pub(crate) fn check_stays(&self, owner: Owner) -> Result<(), Error> {
        let leaving = self.qps.leaving.has(owner);
        (!leaving).then_some(()).ok_or(Error::Leaving)
    }

    /// Takes some steps, at least one; returns the object that the last of them freed.
    fn reap_of(&mut self, owner: Owner, left: &mut u32) -> Option<Reaped> {
        if let Some(qp) = self.first_of(owner, |all| &all.qps) {
            return self.reap_qp(QpId(qp), left).map(Reaped::Qp);
        }
        if let Some(srq) = self.first_of(owner, |all| &all.srqs) {
            return self.reap_srq(SrqId(srq), left).map(Reaped::Srq);
        }
        *left -= 1;
        if let Some(cq) = self.first_of(owner, |all| &all.cqs).map(CqId) {
            let destroyed = self.destroy_cq(cq);
            debug_assert_eq!(destroyed, Ok(()), "its queue pairs are gone");
            return Some(Reaped::Cq(cq));
        }
        if let Some(pd) = self.first_of(owner, |all| &all.pds) {
            return Some(self.reap_of_pd(PdId(pd)));
        }
        self.qps.leaving.remove(owner);
        self.shared.outputs.mute(self.is_reaping());
        Some(Reaped::Owner(owner))
    }

    fn first_of(&self, owner: Owner, part: fn(&Belongings) -> &List<OfOwner>) -> Option<u32> {
        part(self.shared.owners.get(owner)?).first()
    }

    /// Frees a queue pair, but first what belongs to it.
    fn reap_qp(&mut self, id: QpId, left: &mut u32) -> Option<QpId> {
        let shared = &mut self.shared;
        let qp = self.qps.get_mut(id.0)?;
        let dropped = qp.drop_work(*left);
        *left -= dropped;
        if *left == 0 {
            return None;
        }
        *left -= 1;
        if let Some(window) = qp.windows.first() {
            shared.unbind_of(qp, window);
            return None;
        }
        if shared.groups.leave_one(id) {
            return None;
        }
        let destroyed = self.destroy_qp(id);
        debug_assert_eq!(destroyed, Ok(()), "nothing hangs on it");
        Some(id)
    }

    fn reap_srq(&mut self, id: SrqId, left: &mut u32) -> Option<SrqId> {
        let srq = self.shared.srq_mut(id).ok()?;
        let kept = srq.receives.len().saturating_sub(*left as usize);
        *left -= (srq.receives.len() - kept) as u32;
        srq.receives.truncate(kept);
        if *left == 0 {
            return None;
        }
        *left -= 1;
        let destroyed = self.destroy_srq(id);
        debug_assert_eq!(destroyed, Ok(()), "its queue pairs are gone");
        Some(id)
    }

    /// Frees a domain, but first its windows, since they hold on to their regions, and then the regions.
    fn reap_of_pd(&mut self, id: PdId) -> Reaped {
        let pd = self.shared.pds.get(id.0);
        let window = pd.and_then(|pd| pd.windows.first()).map(MwId);
        let region = pd.and_then(|pd| pd.regions.first()).map(MrId);
        let (ended, reaped) = match (window, region) {
            (Some(mw), _) => (self.free_mw(mw), Reaped::Mw(mw)),
            (None, Some(mr)) => (self.deregister(mr), Reaped::Mr(mr)),
            (None, None) => (self.destroy_pd(id), Reaped::Pd(id)),
        };
        debug_assert_eq!(ended, Ok(()), "nothing else is in the domain");
        reaped
    }
}
