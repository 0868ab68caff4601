//! Completion queues: only who owns them and who uses them. Entries and overflow are the front
//! end's, which calls [`Hca::fail_cq`] when an entry does not fit.

use alloc::vec::Vec;

use crate::error::Error;
use crate::hca::Hca;
use crate::object::{CqId, Owner, QpId};
use crate::work::{Event, Output};

pub(crate) struct Cq {
    pub(crate) owner: Owner,
    /// QPs' queues that complete here.
    pub(crate) users: u32,
    pub(crate) failed: bool,
}

impl<R: Clone> Hca<R> {
    /// Makes a completion queue. Errors: `Exhausted`.
    pub fn create_cq(&mut self, owner: Owner) -> Result<CqId, Error> {
        let cq = Cq {
            owner,
            users: 0,
            failed: false,
        };
        self.shared.cqs.insert(|_, _| cq).map(CqId)
    }

    /// Errors: `InvalidHandle`, `InUse` while a QP completes there.
    pub fn destroy_cq(&mut self, id: CqId) -> Result<(), Error> {
        if self.shared.cq(id)?.users > 0 {
            return Err(Error::InUse);
        }
        self.shared.cqs.remove(id.0);
        let dead = Output::Event(Event::CqError(id));
        self.shared.outputs.retain(|output| *output != dead);
        Ok(())
    }

    /// The queue overflowed or its ring is unusable: once, an event, and its QPs go to ERR
    /// (IBTA 11.6.3).
    pub fn fail_cq(&mut self, id: CqId) -> Result<(), Error> {
        let cq = self.shared.cq_mut(id)?;
        if core::mem::replace(&mut cq.failed, true) {
            return Ok(());
        }
        self.shared.event(Event::CqError(id));
        self.fail_where(|qp| qp.spec.send_cq == id || qp.spec.recv_cq == id);
        Ok(())
    }

    /// The queue pairs that complete into it.
    pub fn qps_of_cq(&self, id: CqId) -> Vec<QpId> {
        self.qps_where(|qp| qp.spec.send_cq == id || qp.spec.recv_cq == id)
    }
}
