//! From send rings to requests.
//!
//! Queue pairs with something to fetch wait in the run queue. Each turn of one takes a small batch,
//! so that a long ring holds up nobody. The same turns empty the rings of queue pairs in error: the
//! engine hands every request straight back as flushed.

use vrdma_memory::Region;
use vrdma_provider::daemon::RingError;
use vrdma_verbs::attr::QpState;
use vrdma_verbs::object::QpId;
use vrdma_verbs::unit::Request;
use vrdma_verbs::{Paths, Time};

use super::{Process, UNIT_BYTES};

/// Requests fetched in one turn of a queue pair: enough to pay for the turn, a few microseconds.
const FETCH_BATCH: u32 = 16;

/// Turns within one call: bounds a call that finds nothing to send.
const TURNS: usize = 16;

impl Process {
    /// Gives the queue pair a turn.
    pub(super) fn wake(&mut self, id: QpId) {
        if let Some(qp) = self.qps.get_mut(id.0)
            && !std::mem::replace(&mut qp.queued, true)
        {
            self.run.push_back(id);
        }
    }

    /// Takes the doorbells of all clients.
    pub(super) fn hear_bells(&mut self) -> bool {
        let mut rung = Vec::new();
        for (_, context) in self.contexts.iter() {
            context.doorbells.take(|bit| {
                rung.extend(context.bells.get(bit as usize).copied().flatten());
            });
        }
        rung.iter().for_each(|id| self.wake(*id));
        !rung.is_empty()
    }

    /// Whether queue pairs wait for a turn.
    pub(super) fn is_runnable(&self) -> bool {
        !self.run.is_empty()
    }

    /// The next request unit of any queue pair. Deliver it, or copy its payload, before the next
    /// call: a datagram is complete as soon as it was handed out, and its completion is shown then.
    pub(crate) fn next_request(
        &mut self,
        now: Time,
        paths: &mut impl Paths,
    ) -> Option<Request<Region>> {
        for _ in 0..TURNS {
            while let Some(id) = self.hca.next_ready() {
                self.unsettled += 1;
                let request = self.hca.poll_transmit(id, now, UNIT_BYTES, paths);
                if request.is_some() {
                    return request;
                }
            }
            self.settle(now);
            if !self.run_one(now) {
                return None;
            }
        }
        None
    }

    /// Gives one queue pair its turn; false if none waits.
    pub(super) fn run_one(&mut self, now: Time) -> bool {
        let Some(id) = self.run.pop_front() else {
            return false;
        };
        let Some(qp) = self.qps.get_mut(id.0) else {
            return true;
        };
        qp.queued = false;
        match self.hca.qp_state(id) {
            Some(QpState::Rts | QpState::Sqe) => self.fetch_sends(id),
            Some(QpState::Err) => {
                qp.demand_rings();
                self.fetch_sends(id);
                self.flush_receives(id);
            }
            _ => {}
        }
        self.settle(now);
        true
    }

    fn fetch_sends(&mut self, id: QpId) {
        let room = self.hca.send_room(id);
        for _ in 0..room.min(FETCH_BATCH) {
            match self.fetch_send(id) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.fail_qp(id, error),
            }
        }
        match self.qps.get_mut(id.0) {
            Some(qp) if room == 0 => qp.starved = true,
            _ => self.wake(id),
        }
    }

    fn fetch_send(&mut self, id: QpId) -> Result<bool, RingError> {
        let Some(qp) = self.qps.get_mut(id.0) else {
            return Ok(false);
        };
        let Some(request) = qp.fetch_send()? else {
            return Ok(false);
        };
        // Room was asked for and the state takes work, so the engine cannot refuse.
        let posted = self.hca.post_send(id, request);
        debug_assert_eq!(posted, Ok(()), "the engine had room");
        Ok(true)
    }

    fn flush_receives(&mut self, id: QpId) {
        for _ in 0..FETCH_BATCH {
            match self.stage_own(id) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.fail_qp(id, error),
            }
        }
        self.wake(id);
    }

    /// Moves one receive from the queue pair's ring into the engine, if there is one.
    pub(super) fn stage_own(&mut self, id: QpId) -> Result<bool, RingError> {
        let Some(qp) = self.qps.get_mut(id.0) else {
            return Ok(false);
        };
        let Some(request) = qp.fetch_recv()? else {
            return Ok(false);
        };
        let posted = self.hca.post_recv(id, request);
        debug_assert_eq!(posted, Ok(()), "receives are staged one at a time");
        Ok(true)
    }
}
