//! The requester: send work requests become units, responses become completions.

use alloc::collections::VecDeque;

use vrdma_wire::Psn;

use crate::error::Error;
use crate::hca::Hca;
use crate::memory::Memory;
use crate::object::QpId;
use crate::qp::Qp;
use crate::shared::Shared;
use crate::time::Time;
use crate::timers::Schedule;
use crate::unit::{Request, Response};
use crate::work::{SendOp, SendWr, WcOp};

/// Send work requests that one QP holds inside the engine; the rest waits in the front end's ring.
/// Enough to keep a wire busy, little enough that a flood on one QP costs little memory.
pub const SEND_WINDOW: usize = 256;

pub(crate) struct Requester<R> {
    queue: VecDeque<SendWr<R>>,
}

impl<R> Default for Requester<R> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
        }
    }
}

impl<R> Requester<R> {
    pub(crate) fn start(&mut self, _psn: Psn) {}
    pub(crate) fn ask_drained(&mut self, _event: bool) {}
    pub(crate) fn rest(&mut self) {}
    pub(crate) fn next_psn(&self) -> Psn {
        Psn::new(0)
    }
    pub(crate) fn take_oldest(&mut self) -> Option<SendWr<R>> {
        self.queue.pop_front()
    }
}

impl<R> SendOp<R> {
    pub(crate) fn completes_as(&self) -> WcOp {
        WcOp::Send
    }
}

impl<R> Qp<R> {
    pub(crate) fn note_drained(&mut self, _shared: &mut Shared<R>) {}
    pub(crate) fn reschedule(&mut self, _schedule: &mut Schedule) {}
}

impl<R: Clone> Hca<R> {
    /// How many send work requests the QP takes now; zero unless it is in RTS, SQD, SQE or ERR.
    pub fn send_room(&self, _id: QpId) -> u32 {
        SEND_WINDOW as u32
    }

    /// Appends a send work request. In ERR and SQE it comes back flushed at once.
    ///
    /// Errors: `InvalidHandle`, `InvalidState` (before RTS), `Exhausted` (see [`Hca::send_room`]).
    pub fn post_send(&mut self, _id: QpId, _wr: SendWr<R>) -> Result<(), Error> {
        Ok(())
    }

    /// A QP that may have units to send; ask it with [`Hca::poll_transmit`]. QPs take turns.
    pub fn next_ready(&mut self) -> Option<QpId> {
        self.schedule.pop_ready()
    }

    /// The next unit of a QP, of at most `unit_bytes` (rounded down to whole packets, at least one).
    pub fn poll_transmit(&mut self, _id: QpId, _now: Time, _unit_bytes: u32) -> Option<Request<R>> {
        None
    }

    /// Takes in the answer to a request unit. `source` is the memory of the responder's side, for
    /// READ data; `memory` is ours.
    pub fn respond<M: Memory<Region = R>>(
        &mut self,
        _response: &Response<R>,
        _source: &M,
        _memory: &M,
        _now: Time,
    ) {
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, _now: Time) {}
}
