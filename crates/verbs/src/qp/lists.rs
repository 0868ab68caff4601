//! The lists that a queue pair is in: those of its owner, its completion queues, its shared receive queue and its peer.
//! So each of these finds its queue pairs without a look at others.

use alloc::boxed::Box;

use crate::hca::Hca;
use crate::list::{Link, List, Member};
use crate::object::QpId;
use crate::owner::OfOwner;
use crate::peers::Ends;
use crate::qp::Qp;

/// Lists of queue pairs whose sends complete at one queue.
pub(crate) struct OfSendCq;

/// Lists of queue pairs whose receives complete at one queue.
pub(crate) struct OfRecvCq;

/// Lists of queue pairs that take receives from one shared queue.
pub(crate) struct OfSrq;

/// A queue pair's places in its lists.
#[derive(Default)]
pub(crate) struct Links {
    of_owner: Link,
    of_send_cq: Link,
    of_recv_cq: Link,
    of_srq: Link,
    pub(crate) of_peer: Link,
    /// Peer whose list it is in.
    pub(crate) peer: Option<Ends>,
}

impl<R> Member<OfOwner> for Box<Qp<R>> {
    fn link(&self) -> Option<&Link> {
        Some(&self.links.of_owner)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.links.of_owner)
    }
}

impl<R> Member<OfSendCq> for Box<Qp<R>> {
    fn link(&self) -> Option<&Link> {
        Some(&self.links.of_send_cq)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.links.of_send_cq)
    }
}

impl<R> Member<OfRecvCq> for Box<Qp<R>> {
    fn link(&self) -> Option<&Link> {
        Some(&self.links.of_recv_cq)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.links.of_recv_cq)
    }
}

impl<R> Member<OfSrq> for Box<Qp<R>> {
    fn link(&self) -> Option<&Link> {
        Some(&self.links.of_srq)
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        Some(&mut self.links.of_srq)
    }
}

impl<R: Clone> Hca<R> {
    /// Registers a queue pair, which is in its place in the table, with the objects that it uses.
    pub(crate) fn enlist_qp(&mut self, id: QpId) {
        let (qps, shared) = (&mut self.qps.table, &mut self.shared);
        let Some((owner, spec)) = qps.get(id.0).map(|qp| (qp.owner, qp.spec)) else {
            return;
        };
        shared.owners.add(owner, |all| &mut all.qps, qps, id.0);
        shared.count_user(spec.pd, |users| *users += 1);
        if let Ok(cq) = shared.cq_mut(spec.send_cq) {
            cq.senders.push(qps, id.0);
        }
        if let Ok(cq) = shared.cq_mut(spec.recv_cq) {
            cq.receivers.push(qps, id.0);
        }
        if let Some(Ok(srq)) = spec.srq.map(|srq| shared.srq_mut(srq)) {
            srq.qps.push(qps, id.0);
        }
        self.follow_peer(id);
    }

    /// Removes a queue pair from its lists, before it goes.
    pub(super) fn delist_qp(&mut self, id: QpId) {
        self.leave_peer(id);
        let (qps, shared) = (&mut self.qps.table, &mut self.shared);
        let Some((owner, spec)) = qps.get(id.0).map(|qp| (qp.owner, qp.spec)) else {
            return;
        };
        shared.owners.remove(owner, |all| &mut all.qps, qps, id.0);
        shared.count_user(spec.pd, |users| *users -= 1);
        if let Ok(cq) = shared.cq_mut(spec.send_cq) {
            cq.senders.remove(qps, id.0);
        }
        if let Ok(cq) = shared.cq_mut(spec.recv_cq) {
            cq.receivers.remove(qps, id.0);
        }
        if let Some(Ok(srq)) = spec.srq.map(|srq| shared.srq_mut(srq)) {
            srq.qps.remove(qps, id.0);
        }
    }

    /// Sends the queue pairs of a list to ERR, oldest first.
    pub(crate) fn fail_listed<K>(&mut self, first: Option<u32>)
    where
        Box<Qp<R>>: Member<K>,
    {
        let mut next = first;
        while let Some(qp) = next.and_then(|id| self.qps.table.get_mut(id)) {
            qp.enter_error(&mut self.shared);
            next = List::<K>::after(qp);
        }
    }
}
