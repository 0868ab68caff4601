//! Requests and responses of peers, timers, and everything that a poll looks at.

use std::time::Duration;

use vrdma_memory::{Region, View};
use vrdma_provider::daemon::RingError;
use vrdma_verbs::object::{QpId, SrqId};
use vrdma_verbs::packet::{Arrival, Content, Reply};
use vrdma_verbs::unit::{Request, Response};
use vrdma_verbs::{ReceiveQueue, Source, Time};
use vrdma_wire::{Packet, Qpn};

use super::Process;

/// How soon a full pipe is tried again: its reader is a program that has thousands of records to
/// read.
const PIPE_RETRY: Duration = Duration::from_millis(1);

/// Queue pairs that get a turn in one poll.
const TURNS: usize = 4;

impl Process {
    /// Executes a request that came for this adapter.
    pub(crate) fn deliver(
        &mut self,
        memory: &View<'_>,
        request: &Request<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
    ) -> Option<Response<Region>> {
        if let Some(queue) = self.hca.wants_receive(request) {
            self.stage(queue);
        }
        let response = self.hca.deliver(request, source, memory);
        self.settle_soon(now);
        response
    }

    /// Takes the answer to a request of this adapter.
    pub(crate) fn respond(
        &mut self,
        memory: &View<'_>,
        response: &Response<Region>,
        source: Source<'_, View<'_>>,
        now: Time,
    ) {
        self.hca.respond(response, source, memory, now);
        self.settle_soon(now);
    }

    /// Takes in a packet from a wire. What goes on with the packets before it is kept until the last
    /// one, or until [`end_train`](Self::end_train).
    pub(crate) fn receive(&mut self, memory: &View<'_>, packet: &Packet<'_>, now: Time) {
        let Some(arrival) = self.hca.decode(packet) else {
            return self.end_train(memory, now);
        };
        if self.train.joins(&arrival) {
            if self.train.is_complete() {
                self.end_train(memory, now);
            }
            return;
        }
        self.end_train(memory, now);
        if !self.hca.begins_train(&arrival, &mut self.train) {
            self.take(&arrival, memory, now);
        }
    }

    /// Takes in the packets that were gathered.
    pub(crate) fn end_train(&mut self, memory: &View<'_>, now: Time) {
        if self.train.is_empty() {
            return;
        }
        let mut train = std::mem::take(&mut self.train);
        if let Some(arrival) = train.take() {
            self.take(&arrival, memory, now);
        }
        self.train = train;
    }

    fn take(&mut self, arrival: &Arrival<'_, Region>, memory: &View<'_>, now: Time) {
        match &arrival.content {
            Content::Request(request) if request.destination == Qpn::MULTICAST => {
                for copy in self.hca.fan_out(request) {
                    let content = Content::Request(copy);
                    self.take_in(
                        &Arrival {
                            content,
                            ..*arrival
                        },
                        memory,
                        now,
                    );
                }
            }
            _ => self.take_in(arrival, memory, now),
        }
        self.settle_soon(now);
    }

    fn take_in(&mut self, arrival: &Arrival<'_, Region>, memory: &View<'_>, now: Time) {
        if let Content::Request(request) = &arrival.content
            && let Some(queue) = self.hca.wants_receive(request)
        {
            self.stage(queue);
        }
        self.hca.receive(arrival, memory, now);
    }

    /// Wires take packets again.
    pub(crate) fn wire_has_room(&mut self) {
        self.hca.wire_has_room();
    }

    /// What is owed next to a peer behind a wire, READ data of up to `train_bytes`.
    pub(crate) fn next_reply(&mut self, train_bytes: u32, now: Time) -> Option<Reply<Region>> {
        self.hca.poll_reply(train_bytes, now)
    }

    fn stage(&mut self, queue: ReceiveQueue) {
        match queue {
            ReceiveQueue::Own(id) => self.stage_for(id),
            ReceiveQueue::Shared(id) => {
                if let Err(error) = self.stage_shared(id) {
                    self.fail_srq(id, error);
                }
            }
        }
    }

    fn stage_for(&mut self, id: QpId) {
        if let Err(error) = self.stage_own(id) {
            self.fail_qp(id, error);
        }
    }

    fn stage_shared(&mut self, id: SrqId) -> Result<(), RingError> {
        let Some(srq) = self.srqs.get_mut(id.0) else {
            return Ok(());
        };
        let Some(request) = srq.fetch()? else {
            return Ok(());
        };
        let posted = self.hca.post_srq_recv(id, request);
        debug_assert_eq!(posted, Ok(()), "receives are staged one at a time");
        self.check_limit(id)
    }

    /// Lets the engine compare what is left in a shared ring with its armed limit.
    pub(super) fn check_limit(&mut self, id: SrqId) -> Result<(), RingError> {
        let armed = self
            .srqs
            .get_mut(id.0)
            .filter(|srq| srq.limit > 0 && !srq.dead);
        if let Some(srq) = armed {
            let available = srq.ring.refresh()?;
            let _ = self.hca.srq_available(id, available);
        }
        Ok(())
    }

    /// Looks at doorbells, timers and full pipes; true if anything was done or is still to be done
    /// at once.
    pub(crate) fn poll(&mut self, now: Time) -> bool {
        let mut busy = self.hear_bells();
        busy |= self.run_timers(now);
        if self.retry_at.is_some_and(|time| time <= now) {
            self.flush_channels(now);
        }
        for _ in 0..TURNS {
            busy |= self.run_one(now);
        }
        busy || self.is_runnable()
    }

    fn run_timers(&mut self, now: Time) -> bool {
        let due = self
            .hca
            .next_deadline()
            .is_some_and(|deadline| deadline <= now);
        if due {
            self.hca.handle_timeout(now);
            self.settle(now);
        }
        due
    }

    /// Writes the notifications that wait.
    fn flush_channels(&mut self, now: Time) {
        let channels = self.contexts.iter_mut();
        let channels = channels.flat_map(|(_, context)| context.channels.iter_mut());
        let full = channels.filter_map(|(_, channel)| (!channel.flush()).then_some(()));
        let waits = full.count() > 0;
        self.retry_at = waits.then(|| now + PIPE_RETRY);
    }

    /// A notification found its pipe full.
    pub(super) fn retry_channels(&mut self, now: Time) {
        self.retry_at.get_or_insert(now + PIPE_RETRY);
    }

    /// When [`poll`](Self::poll) has something to do without a doorbell.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        [self.hca.next_deadline(), self.retry_at]
            .into_iter()
            .flatten()
            .min()
    }
}
