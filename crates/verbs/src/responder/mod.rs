//! The responder: request units become memory accesses, completions and responses.

use alloc::collections::VecDeque;

use vrdma_wire::Psn;

use crate::error::Error;
use crate::hca::Hca;
use crate::memory::Memory;
use crate::object::{QpId, SrqId};
use crate::time::Time;
use crate::unit::{Request, Response};
use crate::work::RecvWr;

/// Where a receive for a unit is to come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveQueue {
    /// The QP's own receive queue.
    Own(QpId),
    /// A shared one.
    Shared(SrqId),
}

#[derive(Default)]
pub(crate) struct Responder {
    queue: VecDeque<RecvWr>,
}

impl Responder {
    pub(crate) fn start(&mut self, _psn: Psn) {}
    pub(crate) fn expected(&self) -> Psn {
        Psn::new(0)
    }
    pub(crate) fn take_oldest(&mut self) -> Option<RecvWr> {
        self.queue.pop_front()
    }
}

impl<R: Clone> Hca<R> {
    /// Appends a receive. In ERR it comes back flushed at once.
    ///
    /// Errors: `InvalidHandle`, `InvalidState` (in RESET, or the QP has a shared queue), `Exhausted`
    /// ([`crate::srq::RECEIVE_WINDOW`] are staged).
    pub fn post_recv(&mut self, _id: QpId, _wr: RecvWr) -> Result<(), Error> {
        Ok(())
    }

    /// Whether delivering `request` would take a receive and none is staged: the front end then
    /// fetches one and posts it before [`Hca::deliver`].
    pub fn wants_receive(&self, _request: &Request<R>) -> Option<ReceiveQueue> {
        None
    }

    /// Takes in a request unit. `source` is the memory of the requester's side, where its payload
    /// is; `memory` is ours. The response goes back along its own route; an ignored unit has none.
    pub fn deliver<M: Memory<Region = R>>(
        &mut self,
        _request: &Request<R>,
        _source: &M,
        _memory: &M,
        _now: Time,
    ) -> Option<Response<R>> {
        None
    }
}
