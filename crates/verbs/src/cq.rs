//! Completion queues: only their owners and users. Entries and overflow belong to the front end, which calls
//! [`Hca::fail_cq`] when an entry does not fit.

use alloc::vec::Vec;

use crate::error::Error;
use crate::hca::Hca;
use crate::list::{Link, List, Member};
use crate::object::{CqId, Owner, QpId};
use crate::outputs::Subject;
use crate::owner::OfOwner;
use crate::qp::{OfRecvCq, OfSendCq};
use crate::shared::Shared;
use crate::work::Event;

pub(crate) struct Cq {
    pub(crate) owner: Owner,
    /// Queue pairs whose sends complete here.
    pub(crate) senders: List<OfSendCq>,
    /// Queue pairs whose receives complete here.
    pub(crate) receivers: List<OfRecvCq>,
    pub(crate) failed: bool,
    /// Bytes of messages that may still go with its completions.
    pub(crate) room: u32,
    of_owner: Link,
}

impl Cq {
    pub(crate) fn new(owner: Owner) -> Self {
        Self {
            owner,
            senders: List::default(),
            receivers: List::default(),
            failed: false,
            room: 0,
            of_owner: Link::default(),
        }
    }
}

impl Member<OfOwner> for Cq {
    fn link(&self) -> Option<&Link> {
        Some(&self.of_owner)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.of_owner)
    }
}

impl<R> Shared<R> {
    /// Registers a queue, which is in its place in the table, with its owner.
    pub(crate) fn enlist_cq(&mut self, id: CqId) {
        let Some(&Cq { owner, .. }) = self.cqs.get(id.0) else {
            return;
        };
        let Self { owners, cqs, .. } = self;
        owners.add(owner, |all| &mut all.cqs, cqs, id.0);
    }
}

impl<R: Clone> Hca<R> {
    /// Makes a completion queue. Errors: `Leaving`, `Exhausted`.
    pub fn create_cq(&mut self, owner: Owner) -> Result<CqId, Error> {
        self.check_stays(owner)?;
        let id = self.shared.cqs.insert(|_, _| Cq::new(owner)).map(CqId)?;
        self.shared.enlist_cq(id);
        Ok(id)
    }

    /// Destroys a completion queue. Errors: `InvalidHandle`, `InUse` while a QP completes there.
    pub fn destroy_cq(&mut self, id: CqId) -> Result<(), Error> {
        let cq = self.shared.cq(id)?;
        let owner = cq.owner;
        if !(cq.senders.is_empty() && cq.receivers.is_empty()) {
            return Err(Error::InUse);
        }
        let Shared { owners, cqs, .. } = &mut self.shared;
        owners.remove(owner, |all| &mut all.cqs, cqs, id.0);
        cqs.remove(id.0);
        self.shared.outputs.recall(Subject::Cq(id));
        Ok(())
    }

    /// Fails a queue that overflowed or whose ring is unusable: one event is raised, and its QPs go to ERR (IBTA
    /// 11.6.3).
    pub fn fail_cq(&mut self, id: CqId) -> Result<(), Error> {
        let cq = self.shared.cq_mut(id)?;
        if core::mem::replace(&mut cq.failed, true) {
            return Ok(());
        }
        let (senders, receivers) = (cq.senders.first(), cq.receivers.first());
        self.shared.event(Event::CqError(id));
        self.fail_listed::<OfSendCq>(senders);
        self.fail_listed::<OfRecvCq>(receivers);
        Ok(())
    }

    /// Returns the queue pairs that complete into it.
    pub fn qps_of_cq(&self, id: CqId) -> Vec<QpId> {
        let Some(cq) = self.shared.cqs.get(id.0) else {
            return Vec::new();
        };
        let receivers = cq.receivers.iter(&self.qps.table);
        let only = receivers.filter(|(_, qp)| qp.spec.send_cq != id);
        let all = cq.senders.iter(&self.qps.table).chain(only);
        all.map(|(_, qp)| qp.id).collect()
    }
}
