//! The guest's rings, as the front end of the machine that runs an adapter.

use std::time::Duration;

use vrdma_adapter::{Client, Core, Failing, FrontEnd, Publishing, RunState};
use vrdma_memory::{Region, View};
use vrdma_verbs::object::{CqId, QpId, SrqId};
use vrdma_verbs::work::{Completion, Event, RecvWr, SendWr};
use vrdma_verbs::{Reaped, Time};

use super::{Adapter, Turn, completion};
use crate::arming::{CqState, Touches};
use crate::commands::destroy;
use crate::object::cq::Unpublished;
use crate::queue::RingError;

/// How soon a full event or notification ring is tried again: the driver empties it in an
/// interrupt handler, which takes microseconds unless the vCPU is not running.
const RING_RETRY: Duration = Duration::from_millis(1);

impl FrontEnd for Adapter {
    type Region = Region;
    type Memory<'m> = View<'m>;
    type Error = RingError;

    fn is_overflow(error: RingError) -> bool {
        error == RingError::Full
    }

    fn core(&self) -> &Core<Region> {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core<Region> {
        &mut self.core
    }

    fn run_state(&mut self, id: QpId) -> Option<&mut RunState> {
        Some(&mut self.qps.get_mut(id.0)?.run)
    }

    /// The client that a queue pair belongs to: a guest is one user, and its programs are clients.
    fn client_of(&self, id: QpId) -> Option<Client> {
        let owner = self.qps.get(id.0)?.owner();
        Some(Client { user: 0, owner })
    }

    fn take_doorbells(&mut self, turn: Turn<'_, '_>) -> bool {
        let busy = self.look_at_pages(turn);
        self.publish(turn);
        busy
    }

    fn run_deferred(&mut self, turn: Turn<'_, '_>) -> bool {
        let busy = self.look_at_watched(turn);
        if self.rings_are_full() {
            self.retry_at = Some(turn.now + RING_RETRY);
            self.flush_events(turn);
            self.flush_notifications(turn);
        }
        busy
    }

    fn deferred_until(&self) -> Option<Time> {
        let retry = self.retry_at.filter(|_| self.rings_are_full());
        [self.watch_deadline(), retry].into_iter().flatten().min()
    }

    #[inline]
    fn fetch_send(
        &mut self,
        turn: Turn<'_, '_>,
        id: QpId,
    ) -> Result<Option<SendWr<Region>>, RingError> {
        match self.qps.get_mut(id.0) {
            Some(qp) => qp.fetch_send(turn.memory),
            None => Ok(None),
        }
    }

    fn fetch_recv(&mut self, turn: Turn<'_, '_>, id: QpId) -> Result<Option<RecvWr>, RingError> {
        match self.qps.get_mut(id.0) {
            Some(qp) => qp.fetch_recv(turn.memory),
            None => Ok(None),
        }
    }

    fn fetch_shared_recv(
        &mut self,
        turn: Turn<'_, '_>,
        id: SrqId,
    ) -> Result<Option<RecvWr>, RingError> {
        let Some(srq) = self.srqs.get_mut(id.0) else {
            return Ok(None);
        };
        let fetched = srq.fetch(turn.memory)?;
        // With a journal, released slots are shown with the completion, after they are recorded.
        if self.journal.is_none() {
            srq.show_released(turn.memory)?;
        }
        Ok(fetched)
    }

    fn left_of_armed(&mut self, turn: Turn<'_, '_>, id: SrqId) -> Result<Option<u32>, RingError> {
        let srq = self.srqs.get_mut(id.0);
        match srq.filter(|srq| srq.limit > 0 && !srq.dead) {
            Some(srq) => srq.available(turn.memory).map(Some),
            None => Ok(None),
        }
    }

    fn release_sends(&mut self, id: QpId, count: u32) {
        if let Some(qp) = self.qps.get_mut(id.0) {
            qp.send.release(count);
        }
    }

    fn release_recv(&mut self, id: QpId) -> bool {
        let Some(qp) = self.qps.get_mut(id.0) else {
            return false;
        };
        match &mut qp.recv {
            Some(recv) => {
                recv.release(1);
                true
            }
            None => self.journal.is_some(),
        }
    }

    fn publish_released(&mut self, turn: Turn<'_, '_>, id: QpId) -> Result<(), RingError> {
        let Some(qp) = self.qps.get_mut(id.0) else {
            return Ok(());
        };
        qp.show_released(turn.memory)?;
        if qp.recv.is_none()
            && let Some(id) = self.core.hca.qp_spec(id).and_then(|spec| spec.srq)
            && let Some(srq) = self.srqs.get_mut(id.0)
            && let Err(error) = srq.show_released(turn.memory)
        {
            self.fail_srq(turn, id, error);
        }
        Ok(())
    }

    fn write_completion(
        &mut self,
        turn: Turn<'_, '_>,
        id: CqId,
        completion: &Completion,
        urgent: bool,
    ) -> Result<bool, RingError> {
        let Some(qp) = self.qps.get(completion.qp.0) else {
            return Ok(false);
        };
        let entry = completion::encode(completion, &qp.rules);
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return Ok(false);
        };
        let first = cq.unpublished.is_none();
        if first {
            let before = cq.state(turn.memory, Touches::default())?;
            let urgent = false;
            cq.unpublished = Some(Unpublished { before, urgent });
        }
        if let Some(unpublished) = &mut cq.unpublished {
            unpublished.urgent |= urgent;
        }
        cq.ring.write(turn.memory, &entry)?;
        Ok(first)
    }

    fn publish_written(&mut self, turn: Turn<'_, '_>, id: CqId) -> Result<(), RingError> {
        let Some(cq) = self.cqs.get_mut(id.0) else {
            return Ok(());
        };
        let (owner, Some(unpublished)) = (cq.owner, cq.unpublished.take()) else {
            return Ok(());
        };
        if cq.dead {
            return Ok(());
        }
        cq.ring.publish(turn.memory)?;
        let touches = self.hear(turn, owner);
        if let Some(cq) = self.cqs.get_mut(id.0) {
            let before = CqState {
                touches,
                ..unpublished.before
            };
            let verdict = cq.arming.published(before, unpublished.urgent, turn.now);
            self.obey(turn, id, verdict);
        }
        Ok(())
    }

    #[inline]
    fn keeps_records(&self) -> bool {
        self.journal.is_some()
    }

    fn note_progress(&mut self, id: QpId) {
        self.record_qp_progress(id);
    }

    fn note_written(&mut self, id: CqId) {
        self.record_cq_progress(id);
    }

    fn note_key(&mut self, slot: u32) {
        self.record_mr(slot);
    }

    fn commit(&mut self) {
        self.commit_records();
    }

    fn post_event(&mut self, turn: Turn<'_, '_>, event: Event) {
        if let Event::SrqLimitReached(id) = event
            && let Some(srq) = self.srqs.get_mut(id.0)
        {
            srq.limit = 0;
        }
        self.write_event(turn, event);
    }

    fn forget(&mut self, reaped: Reaped) {
        destroy::forget(self, reaped);
    }

    fn qp_failed(&mut self, turn: Turn<'_, '_>, id: QpId, error: RingError) -> bool {
        let qp = self.qps.get_mut(id.0);
        let alive = qp.is_some_and(|qp| !std::mem::replace(&mut qp.dead, true));
        if alive {
            self.report_failed(turn, "queue pair", id.0, error);
        }
        alive
    }

    fn cq_failed(&mut self, turn: Turn<'_, '_>, id: CqId, error: RingError) -> bool {
        let cq = self.cqs.get_mut(id.0);
        let alive = cq.is_some_and(|cq| !std::mem::replace(&mut cq.dead, true));
        if alive {
            self.report_failed(turn, "completion queue", id.0, error);
        }
        alive
    }

    fn srq_failed(&mut self, turn: Turn<'_, '_>, id: SrqId, error: RingError) -> bool {
        let srq = self.srqs.get_mut(id.0);
        let alive = srq.is_some_and(|srq| !std::mem::replace(&mut srq.dead, true));
        if alive {
            self.report_failed(turn, "shared receive queue", id.0, error);
        }
        alive
    }
}

impl Adapter {
    /// Stops the use of a queue that the guest destroys although it is in use: the command is refused, but the guest
    /// frees the pages all the same, so they are not touched any more.
    pub(crate) fn withdraw_cq(&mut self, turn: Turn<'_, '_>, id: CqId) {
        self.fail_cq(turn, id, RingError::Withdrawn);
    }

    /// Like [`withdraw_cq`](Self::withdraw_cq), for a shared receive queue.
    pub(crate) fn withdraw_srq(&mut self, turn: Turn<'_, '_>, id: SrqId) {
        self.fail_srq(turn, id, RingError::Withdrawn);
    }

    fn report_failed(&mut self, turn: Turn<'_, '_>, kind: &str, handle: u32, error: RingError) {
        self.violations.queues += 1;
        if self.log_limit.allows(turn.now) {
            tracing::warn!(handle, %error, "a guest's {kind} failed");
        }
    }
}
