//! Requests and responses of peers, timers, and everything that a poll looks at.

use std::time::Duration;

use vrdma_memory::{Region, View};
use vrdma_verbs::object::{QpId, SrqId};
use vrdma_verbs::packet::{Content, Reply};
use vrdma_verbs::unit::{Request, Response};
use vrdma_verbs::{ReceiveQueue, Source, Time};
use vrdma_wire::Packet;

use super::{Adapter, Turn};
use crate::queue::RingError;

/// How soon a full event or notification ring is tried again: the driver empties it in an
/// interrupt handler, which takes microseconds unless the vCPU is not running.
const RING_RETRY: Duration = Duration::from_millis(1);

/// Queue pairs in error that get a turn in one poll.
const FLUSH_TURNS: usize = 4;

impl Adapter {
    /// Responder: stages a receive if the request needs one, and executes it.
    pub(crate) fn deliver(
        &mut self,
        turn: Turn<'_, '_>,
        request: &Request<Region>,
        source: Source<'_, View<'_>>,
    ) -> Option<Response<Region>> {
        if let Some(queue) = self.hca.wants_receive(request) {
            self.stage(turn, queue);
        }
        let response = self.hca.deliver(request, source, turn.memory);
        self.settle_soon(turn);
        response
    }

    /// Requester: takes an answer.
    pub(crate) fn respond(
        &mut self,
        turn: Turn<'_, '_>,
        response: &Response<Region>,
        source: Source<'_, View<'_>>,
    ) {
        self.hca.respond(response, source, turn.memory, turn.now);
        self.settle_soon(turn);
    }

    /// Takes in a packet from a wire.
    pub(crate) fn receive(&mut self, turn: Turn<'_, '_>, packet: &Packet<'_>) {
        let Some(arrival) = self.hca.decode(packet) else {
            return;
        };
        if let Content::Request(request) = &arrival.content
            && let Some(queue) = self.hca.wants_receive(request)
        {
            self.stage(turn, queue);
        }
        self.hca.receive(&arrival, turn.memory, turn.now);
        self.settle_soon(turn);
    }

    /// Wires take packets again.
    pub(crate) fn wire_has_room(&mut self) {
        self.hca.wire_has_room();
    }

    /// What is owed next to a peer behind a wire, READ data of up to `train_bytes`.
    pub(crate) fn next_reply(&mut self, train_bytes: u32, now: Time) -> Option<Reply<Region>> {
        self.hca.poll_reply(train_bytes, now)
    }

    fn stage(&mut self, turn: Turn<'_, '_>, queue: ReceiveQueue) {
        match queue {
            ReceiveQueue::Own(id) => self.stage_for(turn, id),
            ReceiveQueue::Shared(id) => {
                if let Err(error) = self.stage_shared(turn, id) {
                    self.fail_srq(turn, id, error);
                }
            }
        }
    }

    fn stage_for(&mut self, turn: Turn<'_, '_>, id: QpId) {
        if let Err(error) = self.stage_own(turn, id) {
            self.fail_qp(turn, id, error);
        }
    }

    fn stage_shared(&mut self, turn: Turn<'_, '_>, id: SrqId) -> Result<(), RingError> {
        let Some(srq) = self.srqs.get_mut(id.0) else {
            return Ok(());
        };
        let Some(request) = srq.fetch(turn.memory)? else {
            return Ok(());
        };
        let posted = self.hca.post_srq_recv(id, request);
        debug_assert_eq!(posted, Ok(()), "receives are staged one at a time");
        self.check_limit(turn, id)
    }

    /// Lets the engine compare what is left in a shared ring with its armed limit.
    pub(crate) fn check_limit(&mut self, turn: Turn<'_, '_>, id: SrqId) -> Result<(), RingError> {
        let armed = self
            .srqs
            .get_mut(id.0)
            .filter(|srq| srq.limit > 0 && !srq.dead);
        if let Some(srq) = armed {
            let available = srq.available(turn.memory)?;
            let _ = self.hca.srq_available(id, available);
        }
        Ok(())
    }

    /// Looks at doorbell pages, watched queues, timers and waiting events; true if anything was
    /// done or is still to be done at once.
    pub(crate) fn poll(&mut self, turn: Turn<'_, '_>) -> bool {
        let mut busy = self.look_at_pages(turn);
        self.settle(turn);
        busy |= self.run_timers(turn);
        busy |= self.look_at_watched(turn);
        if self.rings_are_full() {
            self.retry_at = Some(turn.now + RING_RETRY);
            self.flush_events(turn);
            self.flush_notifications(turn);
        }
        for _ in 0..FLUSH_TURNS {
            busy |= self.run_one(turn);
        }
        busy || self.is_runnable()
    }

    fn run_timers(&mut self, turn: Turn<'_, '_>) -> bool {
        let due = self
            .hca
            .next_deadline()
            .is_some_and(|deadline| deadline <= turn.now);
        if due {
            self.hca.handle_timeout(turn.now);
            self.settle(turn);
        }
        due
    }

    /// When [`poll`](Self::poll) has something to do without a doorbell.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let retry = self.retry_at.filter(|_| self.rings_are_full());
        let deadlines = [self.hca.next_deadline(), self.watch_deadline(), retry];
        deadlines.into_iter().flatten().min()
    }
}
