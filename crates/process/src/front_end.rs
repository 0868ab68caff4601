//! The front end of client processes: their rings, for the machine that runs an adapter.

use std::time::Duration;

use vrdma_adapter::{Client, Core, FrontEnd, RunState, Sending};
use vrdma_memory::{Region, View};
use vrdma_provider::daemon::RingError;
use vrdma_provider::message::{AsyncEvent, element};
use vrdma_verbs::object::{CqId, Owner, QpId, SrqId};
use vrdma_verbs::work::{Completion, Event, RecvWr, SendWr};
use vrdma_verbs::{Reaped, Time};

use super::kept::Kind as Record;
use super::{Process, Turn, completion};
use crate::channel::ChannelOf;

/// Pause before a full pipe is tried again: its reader is a program with thousands of records to read.
const PIPE_RETRY: Duration = Duration::from_millis(1);

impl FrontEnd for Process {
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

    fn client_of(&self, id: QpId) -> Option<Client> {
        let owner = self.qps.get(id.0)?.owner;
        let user = self.contexts.get(owner.0)?.uid;
        Some(Client { user, owner })
    }

    fn take_doorbells(&mut self, turn: Turn<'_, '_>) -> bool {
        self.take_rung(turn.now)
    }

    fn run_deferred(&mut self, turn: Turn<'_, '_>) -> bool {
        if self.retry_at.is_some_and(|time| time <= turn.now) {
            self.flush_channels(turn.now);
        }
        false
    }

    fn deferred_until(&self) -> Option<Time> {
        self.retry_at
    }

    #[inline]
    fn fetch_send(
        &mut self,
        _: Turn<'_, '_>,
        id: QpId,
    ) -> Result<Option<SendWr<Region>>, RingError> {
        match self.qps.get_mut(id.0) {
            Some(qp) => qp.fetch_send(),
            None => Ok(None),
        }
    }

    fn fetch_recv(&mut self, _: Turn<'_, '_>, id: QpId) -> Result<Option<RecvWr>, RingError> {
        match self.qps.get_mut(id.0) {
            Some(qp) => qp.fetch_recv(),
            None => Ok(None),
        }
    }

    fn fetch_shared_recv(
        &mut self,
        _: Turn<'_, '_>,
        id: SrqId,
    ) -> Result<Option<RecvWr>, RingError> {
        match self.srqs.get_mut(id.0) {
            Some(srq) => srq.fetch(),
            None => Ok(None),
        }
    }

    fn left_of_armed(&mut self, _: Turn<'_, '_>, id: SrqId) -> Result<Option<u32>, RingError> {
        let srq = self.srqs.get_mut(id.0);
        match srq.filter(|srq| srq.limit > 0 && !srq.dead) {
            Some(srq) => srq.ring.refresh().map(Some),
            None => Ok(None),
        }
    }

    fn release_sends(&mut self, id: QpId, count: u32) {
        if let Some(qp) = self.qps.get_mut(id.0) {
            (0..count).for_each(|_| qp.send.release());
        }
    }

    fn release_recv(&mut self, id: QpId) -> bool {
        let recv = self.qps.get_mut(id.0).and_then(|qp| qp.recv.as_mut());
        recv.map(|recv| recv.release()).is_some()
    }

    fn publish_released(&mut self, _: Turn<'_, '_>, id: QpId) -> Result<(), RingError> {
        if let Some(qp) = self.qps.get_mut(id.0) {
            qp.show_released();
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
        let mut entry = completion::encode(completion, qp.qpn, turn.now);
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return Ok(false);
        };
        if let Some((sges, bytes)) = self.core.hca.enclosed(completion) {
            let buffers = sges.iter().map(completion::buffer);
            cq.ring.enclose(&mut entry, buffers, bytes)?;
            let regions = &mut self.mrs;
            for sge in sges {
                let named = self.core.hca.named_by(sge.lkey);
                let mr = named.and_then(|id| regions.get_mut(id.0));
                if let Some(known) = mr.and_then(|mr| mr.enclosed_in.as_mut()) {
                    known.insert(id);
                }
            }
        }
        cq.urgent |= urgent;
        let first = !std::mem::replace(&mut cq.unpublished, true);
        cq.ring.write(&entry)?;
        Ok(first)
    }

    fn publish_written(&mut self, turn: Turn<'_, '_>, id: CqId) -> Result<(), RingError> {
        let Some(cq) = self.cqs.get_mut(id.0) else {
            return Ok(());
        };
        let urgent = std::mem::take(&mut cq.urgent);
        if std::mem::take(&mut cq.unpublished) {
            cq.ring.publish();
            let is_awaited = cq.ring.take_armed(urgent);
            if cq.ring.encloses() {
                let room = cq.ring.enclosing_room()?;
                self.core.hca.set_enclosing_room(id, room);
            }
            if is_awaited {
                self.notify(id, turn.now);
            }
        }
        Ok(())
    }

    #[inline]
    fn keeps_records(&self) -> bool {
        self.recorder.is_some()
    }

    fn note_progress(&mut self, id: QpId) {
        self.write_qp_progress(id);
    }

    fn note_written(&mut self, id: CqId) {
        self.write_cq_progress(id);
    }

    fn note_key(&mut self, slot: u32) {
        self.write_window(slot);
    }

    fn commit(&mut self) {
        self.commit_records();
    }

    fn post_event(&mut self, _: Turn<'_, '_>, event: Event) {
        if let Event::SrqLimitReached(id) = event
            && let Some(srq) = self.srqs.get_mut(id.0)
        {
            srq.limit = 0;
        }
        let described = self.described_event(event);
        let context =
            described.and_then(|(owner, event)| Some((self.contexts.get_mut(owner.0)?, event)));
        if let Some((context, event)) = context {
            context.announce(event);
        }
    }

    fn forget(&mut self, reaped: Reaped) {
        match reaped {
            Reaped::Qp(id) => {
                self.forget_turn(id);
                self.forget_qp(id);
                let qp = self.qps.take(id.0);
                self.discard(qp);
            }
            Reaped::Srq(id) => {
                self.forget_srq(id);
                let srq = self.srqs.take(id.0);
                self.discard(srq);
            }
            Reaped::Cq(id) => {
                self.forget_cq(id);
                let cq = self.cqs.take(id.0);
                self.discard(cq);
            }
            Reaped::Mr(id) => {
                self.forget_record(Record::Mr, id.0);
                let mr = self.mrs.take(id.0);
                self.discard(mr);
            }
            Reaped::Owner(owner) => drop(self.leaving.remove(&owner)),
            Reaped::Mw(id) => self.forget_record(Record::Mr, id.0),
            Reaped::Pd(id) => self.forget_record(Record::Pd, id.0),
        }
    }

    fn qp_stopped(&mut self, id: QpId) {
        self.grants.forget_qp(id);
    }

    fn qp_flushing(&mut self, id: QpId) {
        if let Some(qp) = self.qps.get_mut(id.0) {
            qp.demand_rings();
        }
    }

    fn qp_failed(&mut self, _: Turn<'_, '_>, id: QpId, error: RingError) -> bool {
        let Some(qp) = self.qps.get_mut(id.0).filter(|qp| !qp.dead) else {
            return false;
        };
        qp.dead = true;
        let (owner, qpn) = (qp.owner, qp.qpn.get());
        self.tell_failed(owner, "queue pair", qpn, error);
        true
    }

    fn cq_failed(&mut self, _: Turn<'_, '_>, id: CqId, error: RingError) -> bool {
        let Some(cq) = self.cqs.get_mut(id.0).filter(|cq| !cq.dead) else {
            return false;
        };
        cq.dead = true;
        let owner = cq.owner;
        self.tell_failed(owner, "completion queue", id.0, error);
        true
    }

    fn srq_failed(&mut self, _: Turn<'_, '_>, id: SrqId, error: RingError) -> bool {
        let Some(srq) = self.srqs.get_mut(id.0).filter(|srq| !srq.dead) else {
            return false;
        };
        srq.dead = true;
        let owner = srq.owner;
        self.tell_failed(owner, "shared receive queue", id.0, error);
        true
    }
}

impl Process {
    /// Writes a warning to the log; a client can make as many failing queues as it likes.
    fn tell_failed(&self, owner: Owner, kind: &str, number: u32, error: RingError) {
        let context = self.contexts.get(owner.0);
        if context.is_some_and(|context| context.holdings.user().may_tell()) {
            tracing::warn!(adapter = %self.spec.name, number, %error, "a client's {kind} failed");
        }
    }

    pub(crate) fn notify(&mut self, id: CqId, now: Time) {
        let Some(cq) = self.cqs.get(id.0) else { return };
        let (owner, channel, cookie) = (cq.owner, cq.channel, cq.cookie);
        let channel = channel.map(|number| ChannelOf { owner, number });
        let contexts = &mut self.contexts;
        let channel_there = channel.and_then(|it| it.find(contexts));
        if channel_there.is_none_or(|channel| channel.notify(cookie)) {
            cq.ring.notified();
            return;
        }
        // The notification is still owed: if this worker ends before there is room, the next worker notifies.
        self.full_channels.extend(channel);
        self.retry_at.get_or_insert(now + PIPE_RETRY);
    }

    /// Writes the notifications that wait; channels with room are not looked at.
    fn flush_channels(&mut self, now: Time) {
        let contexts = &mut self.contexts;
        self.full_channels.retain(|channel| {
            let channel = channel.find(contexts);
            channel.is_some_and(|channel| !channel.flush())
        });
        let waits = !self.full_channels.is_empty();
        self.retry_at = waits.then(|| now + PIPE_RETRY);
    }

    /// The client that an event concerns, and the event in the library's format.
    fn described_event(&self, event: Event) -> Option<(Owner, AsyncEvent)> {
        let told = |event, element, cookie| AsyncEvent {
            event,
            element,
            cookie,
        };
        let (number, kind) = numbered(event);
        Some(match kind {
            Subject::Cq(id) => {
                let cq = self.cqs.get(id.0)?;
                (cq.owner, told(number, element::CQ, cq.cookie))
            }
            Subject::Qp(id) => {
                let qp = self.qps.get(id.0)?;
                (qp.owner, told(number, element::QP, qp.cookie))
            }
            Subject::Srq(id) => {
                let srq = self.srqs.get(id.0)?;
                (srq.owner, told(number, element::SRQ, srq.cookie))
            }
        })
    }
}

enum Subject {
    Cq(CqId),
    Qp(QpId),
    Srq(SrqId),
}

/// `enum ibv_event_type`.
fn numbered(event: Event) -> (u32, Subject) {
    match event {
        Event::CqError(id) => (0, Subject::Cq(id)),
        Event::QpFatal(id) => (1, Subject::Qp(id)),
        Event::QpRequestError(id) => (2, Subject::Qp(id)),
        Event::QpAccessError(id) => (3, Subject::Qp(id)),
        Event::CommEstablished(id) => (4, Subject::Qp(id)),
        Event::SqDrained(id) => (5, Subject::Qp(id)),
        Event::SrqError(id) => (14, Subject::Srq(id)),
        Event::SrqLimitReached(id) => (15, Subject::Srq(id)),
        Event::LastWqeReached(id) => (16, Subject::Qp(id)),
    }
}
