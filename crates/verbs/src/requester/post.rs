//! Taking in send work requests.

use vrdma_wire::Psn;

use crate::attr::QpState;
use crate::error::Error;
use crate::hca::Hca;
use crate::object::QpId;
use crate::requester::{Pending, Phase};
use crate::work::{SendWr, Status};

/// Most send work requests that one QP holds inside the engine; the others wait in the front end's ring. It is enough
/// to keep a wire busy, and little enough that a flood on one QP costs little memory.
pub const SEND_WINDOW: usize = 256;

impl<R> Pending<R> {
    fn new(wr: SendWr<R>, phase: Phase) -> Self {
        Self {
            wr,
            phase,
            length: 0,
            first: Psn::default(),
            packets: 0,
        }
    }
}

impl<R: Clone> Hca<R> {
    /// Returns how many send work requests the QP takes now; zero before RTS.
    #[inline]
    pub fn send_room(&self, id: QpId) -> u32 {
        let Some(qp) = self.qps.get(id.0) else {
            return 0;
        };
        match qp.state() {
            QpState::Reset | QpState::Init | QpState::Rtr => 0,
            _ => (SEND_WINDOW - qp.requester.queue.len()) as u32,
        }
    }

    /// Appends a send work request. In ERR and SQE it comes back flushed at once.
    ///
    /// Errors: `InvalidHandle`, `InvalidState` (before RTS), `Exhausted` (see [`Hca::send_room`]),
    /// `InvalidAttribute` (an inline payload that is too long, or not of a SEND or WRITE).
    #[inline]
    pub fn post_send(&mut self, id: QpId, wr: SendWr<R>) -> Result<(), Error> {
        let qp = self.qps.get_mut(id.0).ok_or(Error::InvalidHandle)?;
        if !wr.inline_is_valid() {
            return Err(Error::InvalidAttribute);
        }
        match qp.state() {
            QpState::Reset | QpState::Init | QpState::Rtr => return Err(Error::InvalidState),
            QpState::Sqe | QpState::Err => {
                qp.send_failed(&mut self.shared, &wr, Status::WrFlush);
                return Ok(());
            }
            QpState::Rts | QpState::Sqd => {}
        }
        if qp.requester.queue.len() >= SEND_WINDOW {
            return Err(Error::Exhausted);
        }
        debug_assert!(qp.sends(), "other states have answered");
        let phase = qp.requester.take_done_before();
        qp.requester.queue.push_back(Pending::new(wr, phase));
        qp.make_ready(&mut self.schedule);
        Ok(())
    }
}
