//! Shared receive queues: staged receives, and the limit that warns the front end.

use alloc::collections::VecDeque;

use crate::error::Error;
use crate::hca::Hca;
use crate::list::{Link, List, Member};
use crate::object::{Owner, PdId, SrqId};
use crate::outputs::Subject;
use crate::owner::OfOwner;
use crate::qp::OfSrq;
use crate::shared::Shared;
use crate::work::{Event, RecvWr};

/// Most receives that one queue holds inside the engine. The others wait in the front end's ring.
pub const RECEIVE_WINDOW: usize = 1024;

pub(crate) struct Srq {
    pub(crate) owner: Owner,
    pub(crate) pd: PdId,
    /// Queue pairs that take their receives from it.
    pub(crate) qps: List<OfSrq>,
    /// The limit; armed when not zero.
    pub(crate) limit: u32,
    pub(crate) failed: bool,
    pub(crate) receives: VecDeque<RecvWr>,
    of_owner: Link,
}

impl Srq {
    pub(crate) fn new(owner: Owner, pd: PdId, limit: u32) -> Self {
        Self {
            owner,
            pd,
            qps: List::default(),
            limit,
            failed: false,
            receives: VecDeque::new(),
            of_owner: Link::default(),
        }
    }
}

impl Member<OfOwner> for Srq {
    fn link(&self) -> Option<&Link> {
        Some(&self.of_owner)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.of_owner)
    }
}

impl<R> Shared<R> {
    /// Registers a queue, which is in its place in the table, with its owner and its domain.
    pub(crate) fn enlist_srq(&mut self, id: SrqId) {
        let Some(&Srq { owner, pd, .. }) = self.srqs.get(id.0) else {
            return;
        };
        let Self { owners, srqs, .. } = self;
        owners.add(owner, |all| &mut all.srqs, srqs, id.0);
        self.count_user(pd, |users| *users += 1);
    }
}

impl<R: Clone> Hca<R> {
    /// Makes a shared receive queue; `limit` arms the warning when it is not zero.
    /// Errors: `InvalidHandle` (no such PD), `Leaving`, `Exhausted`.
    pub fn create_srq(&mut self, pd: PdId, limit: u32) -> Result<SrqId, Error> {
        let owner = self.shared.pd(pd)?.owner;
        self.check_stays(owner)?;
        let srq = Srq::new(owner, pd, limit);
        let id = self.shared.srqs.insert(|_, _| srq).map(SrqId)?;
        self.shared.enlist_srq(id);
        Ok(id)
    }

    /// Arms the warning anew, or disarms it with zero.
    pub fn modify_srq_limit(&mut self, id: SrqId, limit: u32) -> Result<(), Error> {
        self.shared.srq_mut(id)?.limit = limit;
        Ok(())
    }

    /// Destroys a shared receive queue. Errors: `InvalidHandle`, `InUse` while a QP is attached.
    pub fn destroy_srq(&mut self, id: SrqId) -> Result<(), Error> {
        let srq = self.shared.srq(id)?;
        let (owner, pd) = (srq.owner, srq.pd);
        if !srq.qps.is_empty() {
            return Err(Error::InUse);
        }
        let Shared { owners, srqs, .. } = &mut self.shared;
        owners.remove(owner, |all| &mut all.srqs, srqs, id.0);
        srqs.remove(id.0);
        self.shared.count_user(pd, |users| *users -= 1);
        self.shared.outputs.recall(Subject::Srq(id));
        Ok(())
    }

    /// Fails a queue whose ring is unusable: one event is raised, and the attached QPs go to ERR.
    pub fn fail_srq(&mut self, id: SrqId) -> Result<(), Error> {
        let srq = self.shared.srq_mut(id)?;
        if core::mem::replace(&mut srq.failed, true) {
            return Ok(());
        }
        srq.receives.clear();
        debug_assert!(srq.failed, "it takes no more receives");
        let first = srq.qps.first();
        self.shared.event(Event::SrqError(id));
        self.fail_listed::<OfSrq>(first);
        Ok(())
    }

    /// Takes the number of receives that the front end's ring still holds. Fewer than an armed limit raise the event
    /// and disarm the limit (IBTA 10.2.9).
    pub fn srq_available(&mut self, id: SrqId, count: u32) -> Result<(), Error> {
        let srq = self.shared.srq_mut(id)?;
        if count < srq.limit {
            srq.limit = 0;
            self.shared.event(Event::SrqLimitReached(id));
        }
        Ok(())
    }

    /// Stages a receive. Errors: `InvalidHandle`, `InvalidState` (the queue failed), `Exhausted`
    /// ([`RECEIVE_WINDOW`] are staged).
    pub fn post_srq_recv(&mut self, id: SrqId, wr: RecvWr) -> Result<(), Error> {
        let srq = self.shared.srq_mut(id)?;
        if srq.failed {
            return Err(Error::InvalidState);
        }
        if srq.receives.len() >= RECEIVE_WINDOW {
            return Err(Error::Exhausted);
        }
        srq.receives.push_back(wr);
        debug_assert!(
            srq.receives.len() <= RECEIVE_WINDOW,
            "what is staged is bounded"
        );
        Ok(())
    }
}
