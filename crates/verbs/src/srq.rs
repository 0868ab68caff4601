//! Shared receive queues: receives that the front end staged, and the limit that warns it.

use alloc::collections::VecDeque;

use crate::error::Error;
use crate::hca::Hca;
use crate::object::{Owner, PdId, SrqId};
use crate::work::{Event, Output, RecvWr};

/// Receives that one queue holds inside the engine. The rest waits in the front end's ring.
pub const RECEIVE_WINDOW: usize = 1024;

pub(crate) struct Srq {
    pub(crate) owner: Owner,
    pub(crate) pd: PdId,
    /// QPs attached.
    pub(crate) users: u32,
    /// Armed when not zero.
    pub(crate) limit: u32,
    pub(crate) failed: bool,
    pub(crate) receives: VecDeque<RecvWr>,
}

impl<R: Clone> Hca<R> {
    /// Makes a shared receive queue; `limit` arms the warning when it is not zero.
    /// Errors: `InvalidHandle` (no such PD), `Exhausted`.
    pub fn create_srq(&mut self, pd: PdId, limit: u32) -> Result<SrqId, Error> {
        let srq = Srq {
            owner: self.shared.pd(pd)?.owner,
            pd,
            users: 0,
            limit,
            failed: false,
            receives: VecDeque::new(),
        };
        let index = self.shared.srqs.insert(|_, _| srq)?;
        self.shared.pd_mut(pd)?.users += 1;
        Ok(SrqId(index))
    }

    /// Arms the warning anew, or disarms it with zero.
    pub fn modify_srq_limit(&mut self, id: SrqId, limit: u32) -> Result<(), Error> {
        self.shared.srq_mut(id)?.limit = limit;
        Ok(())
    }

    /// Errors: `InvalidHandle`, `InUse` while a QP is attached.
    pub fn destroy_srq(&mut self, id: SrqId) -> Result<(), Error> {
        let srq = self.shared.srq(id)?;
        let pd = srq.pd;
        if srq.users > 0 {
            return Err(Error::InUse);
        }
        self.shared.srqs.remove(id.0);
        self.shared.pd_mut(pd)?.users -= 1;
        let outputs = &mut self.shared.outputs;
        outputs.retain(|output| !names_srq(output, id));
        Ok(())
    }

    /// The queue's ring is unusable: once, an event, and the attached QPs go to ERR.
    pub fn fail_srq(&mut self, id: SrqId) -> Result<(), Error> {
        let srq = self.shared.srq_mut(id)?;
        if core::mem::replace(&mut srq.failed, true) {
            return Ok(());
        }
        srq.receives.clear();
        self.shared.event(Event::SrqError(id));
        self.fail_where(|qp| qp.spec.srq == Some(id));
        Ok(())
    }

    /// The front end tells how many receives its ring still holds: fewer than an armed limit raises
    /// the event and disarms it (IBTA 10.2.9).
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
        Ok(())
    }
}

fn names_srq(output: &Output, id: SrqId) -> bool {
    matches!(output, Output::Event(Event::SrqError(srq) | Event::SrqLimitReached(srq)) if *srq == id)
}
