//! From send rings to requests.
//!
//! Queue pairs with something to fetch wait in the run queue. Each turn of one takes a small batch
//! out of its ring, so that a long ring holds up nobody. The same turns empty the rings of queue
//! pairs in error: the engine hands every request straight back as flushed.

use vrdma_memory::Region;
use vrdma_verbs::Paths;
use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::QpId;
use vrdma_verbs::unit::Request;

use super::{Adapter, Turn};
use crate::queue::RingError;

/// Requests fetched in one turn of a queue pair: enough to pay for the turn, a few microseconds.
const FETCH_BATCH: u32 = 16;

/// Turns within one call: bounds a call that finds nothing to send.
const TURNS: usize = 16;

impl Adapter {
    /// Gives the queue pair a turn.
    pub(crate) fn wake(&mut self, id: QpId) {
        if let Some(qp) = self.qps.get_mut(id.0)
            && !std::mem::replace(&mut qp.queued, true)
        {
            self.run.push_back(id);
        }
    }

    /// Forgets a queue pair that is gone, so that the run queue is no longer than its table.
    pub(crate) fn forget_turn(&mut self, id: QpId) {
        self.run.retain(|other| *other != id);
    }

    /// Whether queue pairs wait for a turn.
    pub(crate) fn is_runnable(&self) -> bool {
        !self.run.is_empty()
    }

    /// The next request unit of any queue pair. `None` may also mean that the work found was not
    /// to be sent; [`is_runnable`](Self::is_runnable) tells.
    ///
    /// A datagram is complete as soon as the engine has handed it out, but its payload is read when
    /// it is delivered. So what a unit caused is shown with a later call, when it was delivered.
    pub(crate) fn next_request(
        &mut self,
        turn: Turn<'_, '_>,
        paths: &mut impl Paths,
    ) -> Option<Request<Region>> {
        for _ in 0..TURNS {
            while let Some(id) = self.hca.next_ready() {
                self.unsettled += 1;
                let unit_bytes = self.config.unit_bytes;
                let request = self.hca.poll_transmit(id, turn.now, unit_bytes, paths);
                if request.is_some() {
                    return request;
                }
            }
            self.settle(turn);
            if !self.run_one(turn) {
                return None;
            }
        }
        None
    }

    /// Gives one queue pair its turn; false if none waits.
    pub(super) fn run_one(&mut self, turn: Turn<'_, '_>) -> bool {
        let Some(id) = self.run.pop_front() else {
            return false;
        };
        let Some(qp) = self.qps.get_mut(id.0) else {
            return true;
        };
        qp.queued = false;
        match self.hca.qp_state(id) {
            Some(QpState::Rts | QpState::Sqe) => self.fetch_sends(turn, id),
            Some(QpState::Err) => {
                self.fetch_sends(turn, id);
                self.flush_receives(turn, id);
            }
            _ => {}
        }
        self.settle(turn);
        true
    }

    fn fetch_sends(&mut self, turn: Turn<'_, '_>, id: QpId) {
        let room = self.hca.send_room(id);
        for _ in 0..room.min(FETCH_BATCH) {
            match self.fetch_send(turn, id) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.fail_qp(turn, id, error),
            }
        }
        match self.qps.get_mut(id.0) {
            Some(qp) if room == 0 => qp.starved = true,
            _ => self.wake(id),
        }
    }

    fn fetch_send(&mut self, turn: Turn<'_, '_>, id: QpId) -> Result<bool, RingError> {
        let Some(qp) = self.qps.get_mut(id.0) else {
            return Ok(false);
        };
        let Some(request) = qp.fetch_send(turn.memory)? else {
            return Ok(false);
        };
        // Room was asked for and the state takes work, so the engine cannot refuse.
        let posted = self.hca.post_send(id, request);
        debug_assert_eq!(posted, Ok(()), "the engine had room");
        Ok(true)
    }

    fn flush_receives(&mut self, turn: Turn<'_, '_>, id: QpId) {
        for _ in 0..FETCH_BATCH {
            match self.stage_own(turn, id) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.fail_qp(turn, id, error),
            }
        }
        self.wake(id);
    }

    /// Moves one receive from the queue pair's ring into the engine, if there is one.
    pub(super) fn stage_own(&mut self, turn: Turn<'_, '_>, id: QpId) -> Result<bool, RingError> {
        let Some(qp) = self.qps.get_mut(id.0) else {
            return Ok(false);
        };
        let Some(request) = qp.fetch_recv(turn.memory)? else {
            return Ok(false);
        };
        let posted = self.hca.post_recv(id, request);
        debug_assert_eq!(posted, Ok(()), "receives are staged one at a time");
        Ok(true)
    }
}
