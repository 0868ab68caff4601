//! Incoming responses: their sender, their meaning, and the place of their data.

use vrdma_wire::{Gid, Psn, Qpn};

use crate::buffers::{Carried, MoveError};
use crate::hca::Hca;
use crate::memory::{Memory, Source};
use crate::qp::Qp;
use crate::requester::Pending;
use crate::requester::awaited::Hole;
use crate::requester::start::ATOMIC_BYTES;
use crate::requester::wire::WINDOW_MAX;
use crate::shared::Shared;
use crate::time::Time;
use crate::unit::{Nak, Response, ResponseBody};
use crate::work::{SendOp, Status};

impl<R: Clone> Hca<R> {
    /// Takes in the answer to a request unit. The data of a READ is in `source`: in the memory of the responder's side,
    /// or in the packet that brought it. `memory` is this adapter's. Answers to nothing outstanding are counted and
    /// ignored.
    pub fn respond<M: Memory<Region = R>>(
        &mut self,
        response: &Response<R>,
        source: Source<'_, M>,
        memory: &M,
        now: Time,
    ) {
        let qp = self.qps.named_mut(response.destination);
        let shared = &mut self.shared;
        let answered = qp.and_then(|qp| Some((qp.answered(response, shared)?, qp)));
        let Some((psn, qp)) = answered else {
            shared.counters.drops.stale_response += 1;
            return;
        };
        Answer {
            qp,
            shared,
            now,
            psn,
        }
        .take_in(&response.body, source, memory);
        qp.reschedule(&mut self.schedule);
    }
}

impl<R> Qp<R> {
    /// Returns the outstanding PSN that a response answers, if it comes from the peer.
    #[inline]
    fn answered(&self, response: &Response<R>, shared: &Shared<R>) -> Option<Psn> {
        let (from, to) = (response.route.sgid, response.route.dgid);
        if !self.sends() || !self.is_peer(response.source, from, to, shared) {
            return None;
        }
        let requester = &self.requester;
        let outstanding = requester.sent.since(requester.settled);
        match response.psn.since(requester.settled) < outstanding {
            true => Some(response.psn),
            false => self.answered_before(response),
        }
    }

    /// Returns the newest PSN that was sent, if a response shows that all of it is answered. The peer has executed what
    /// was sent before this process went on, and answers all repeated units with its newest PSN, which may not have
    /// been sent again yet. No more than a window was under way, and a sender that guesses PSNs has no better chance
    /// than otherwise.
    #[cold]
    fn answered_before(&self, response: &Response<R>) -> Option<Psn> {
        let requester = &self.requester;
        let ahead = response.psn.since(requester.sent);
        let is_newer = matches!(response.body, ResponseBody::Ack) && ahead < WINDOW_MAX;
        let newest = requester
            .settled
            .plus(requester.sent.since(requester.settled).checked_sub(1)?);
        (requester.resumed && is_newer).then_some(newest)
    }

    /// Whether a positive answer comes from the peer, to the newest PSN that it has answered or a later one.
    pub(super) fn hears_credits(&self, response: &Response<R>, shared: &Shared<R>) -> bool {
        let requester = &self.requester;
        let (from, to) = (response.route.sgid, response.route.dgid);
        let after = response.psn.plus(1).since(requester.settled);
        self.sends()
            && self.is_peer(response.source, from, to, shared)
            && after <= requester.sent.since(requester.settled)
    }

    /// Whether a unit was sent by the other end of this connection to this end.
    #[inline]
    pub(crate) fn is_peer(&self, source: Qpn, from: Gid, to: Gid, shared: &Shared<R>) -> bool {
        let address = &self.attr.address;
        self.is_connected()
            && self.attr.dest_qpn == source
            && address.dgid == from
            && shared.gid(address.sgid_index) == Some(to)
    }
}

/// One incoming response.
struct Answer<'a, R> {
    qp: &'a mut Qp<R>,
    shared: &'a mut Shared<R>,
    now: Time,
    psn: Psn,
}

impl<R: Clone> Answer<'_, R> {
    fn take_in<M: Memory<Region = R>>(
        mut self,
        body: &ResponseBody<R>,
        source: Source<'_, M>,
        memory: &M,
    ) {
        match body {
            ResponseBody::Ack => self.ack(),
            ResponseBody::Nak(Nak::Sequence) => self.gap(),
            ResponseBody::Nak(Nak::ReceiverNotReady(code)) => self.not_ready(*code),
            ResponseBody::Nak(nak) => self.refused(nak_status(*nak)),
            ResponseBody::Read(data) => self.data(Carried::new(data, source), memory),
            ResponseBody::Atomic(old) => self.word(*old, memory),
            ResponseBody::SourceFault => self.fail_at_psn(Status::LocProt),
        }
        self.qp.note_round_trip(self.now, self.shared);
        if self.qp.sends() {
            self.qp.restart_timer(self.now);
        }
    }

    fn ack(&mut self) {
        self.reached(self.psn.plus(1));
    }

    /// Notes that the peer has executed everything before `limit`. True if all of that is finished and the connection
    /// goes on.
    fn reached(&mut self, limit: Psn) -> bool {
        let requester = &mut self.qp.requester;
        // A READ is never acknowledged in part.
        let limit = requester
            .awaiting
            .hole_at(limit)
            .map_or(limit, |hole| hole.begin);
        requester.advance(limit, self.now);
        self.pass(limit);
        self.qp.complete_finished(self.shared);
        self.qp.sends() && self.qp.requester.settled == limit
    }

    /// Asks again for data that should have come before this answer.
    fn pass(&mut self, psn: Psn) {
        let requester = &mut self.qp.requester;
        let had_lost = requester.awaiting.has_lost();
        requester.awaiting.pass(psn);
        if requester.awaiting.has_lost() && !had_lost {
            self.shared.counters.retries += 1;
            requester.wire_lost();
        }
    }

    fn gap(&mut self) {
        self.shared.counters.sequence_naks_received += 1;
        self.reached(self.psn);
        if self.qp.sends() && self.qp.requester.unacked == self.psn {
            self.qp.go_back_once(self.shared);
        }
    }

    fn not_ready(&mut self, code: u8) {
        self.shared.counters.rnr_naks_received += 1;
        let waits = self.qp.requester.rnr_until.is_some();
        self.reached(self.psn);
        if !waits && self.qp.sends() && self.qp.requester.unacked == self.psn {
            self.qp.wait_for_receiver(code, self.now, self.shared);
        }
    }

    fn refused(&mut self, status: Status) {
        self.shared.counters.naks_received += 1;
        self.fail_at_psn(status);
    }

    /// Fails the request at the PSN, once those before it are finished.
    fn fail_at_psn(&mut self, status: Status) {
        self.reached(self.psn);
        let requester = &self.qp.requester;
        let refused = requester.holding(self.psn);
        if let Some(index) = refused.filter(|_| requester.unacked == self.psn) {
            self.fail_request(index, status);
        }
    }

    /// Fails a request, behind which nothing is sent any more.
    fn fail_request(&mut self, index: usize, status: Status) {
        self.qp.requester.cursor = index;
        self.qp.fail_at_cursor(status, self.shared);
    }

    fn data<M: Memory<Region = R>>(&mut self, data: Carried<'_, R, M>, memory: &M) {
        let Some((index, hole)) = self.awaited(|op| matches!(op, SendOp::Read(_))) else {
            return;
        };
        let reader = &self.qp.requester.queue[index];
        let placed = self.placed(reader, hole, data.length());
        if let Ok((_, end)) = placed
            && !self.qp.requester.awaiting.takes(&hole, self.psn, end)
        {
            self.shared.counters.drops.stale_response += 1;
            return;
        }
        let stored = placed.map_err(Unstored::Failed).and_then(|(offset, end)| {
            let (pd, sges) = (self.qp.spec.pd, &reader.wr.sges);
            let moved = self.shared.scatter(pd, sges, offset, data, memory);
            moved.map(|()| end).map_err(unstored)
        });
        self.stored(stored, index);
    }

    /// Returns the request whose data the PSN names, when that is still missing. Everything before that request was
    /// executed.
    fn awaited(&mut self, wanted: impl Fn(&SendOp<R>) -> bool) -> Option<(usize, Hole)> {
        if let Some(hole) = self.qp.requester.awaiting.hole_at(self.psn) {
            let executes_more = self.qp.requester.unacked.is_before(hole.begin);
            self.qp.requester.advance(hole.begin, self.now);
            self.pass(self.psn);
            if executes_more {
                self.qp.complete_finished(self.shared);
            }
            let index = self.qp.requester.holding(self.psn);
            let right = index.filter(|index| wanted(&self.qp.requester.queue[*index].wr.op));
            if let Some(index) = right {
                return Some((index, hole));
            }
        }
        self.shared.counters.drops.stale_response += 1;
        None
    }

    /// Notes that data has reached its place up to a PSN, or could not.
    fn stored(&mut self, stored: Result<Psn, Unstored>, index: usize) {
        match stored {
            Ok(end) => {
                let requester = &mut self.qp.requester;
                let had_lost = requester.awaiting.has_lost();
                requester.awaiting.take(self.psn, end);
                if requester.awaiting.has_lost() && !had_lost {
                    self.shared.counters.retries += 1;
                    requester.wire_lost();
                }
                if requester.unacked.is_before(end) {
                    requester.advance(end, self.now);
                } else {
                    requester.wire_answered(0, self.now);
                }
                self.qp.complete_finished(self.shared);
            }
            Err(Unstored::Failed(status)) => self.fail_request(index, status),
            Err(Unstored::Late) => self.qp.wait_for_memory(self.now),
        }
    }

    /// Returns the place of `bytes` of READ data in the message, and the PSN after them. Data must fill whole packets
    /// or end the message, and must not be more than was asked for.
    fn placed(&self, reader: &Pending<R>, hole: Hole, bytes: u64) -> Result<(u32, Psn), Status> {
        let mtu = self.qp.attr.path_mtu;
        let offset = self.psn.since(reader.first) * mtu.bytes();
        let length = u32::try_from(bytes).map_err(|_| Status::BadResp)?;
        let ends = u64::from(offset) + bytes == u64::from(reader.length);
        let whole = length > 0 && length % mtu.bytes() == 0;
        let end = self.psn.plus(mtu.packets(length));
        let fits = !hole.end.is_before(end);
        (fits && (ends || whole))
            .then_some((offset, end))
            .ok_or(Status::BadResp)
    }

    fn word<M: Memory<Region = R>>(&mut self, old: u64, memory: &M) {
        let Some((index, _)) = self.awaited(SendOp::is_atomic) else {
            return;
        };
        let reader = &self.qp.requester.queue[index];
        debug_assert_eq!(reader.length, ATOMIC_BYTES);
        let (pd, bytes) = (self.qp.spec.pd, old.to_le_bytes());
        let sges = &reader.wr.sges;
        let stored = self.shared.scatter_bytes(pd, sges, 0, &bytes, memory);
        let end = self.psn.plus(1);
        self.stored(stored.map(|()| end).map_err(unstored), index);
    }
}

/// Reason why data did not reach its place.
enum Unstored {
    /// The request ends with this status.
    Failed(Status),
    /// The data is asked for again later.
    Late,
}

/// Returns what to do with a request whose data could not be stored, or was gone when it was fetched.
fn unstored(fault: MoveError) -> Unstored {
    match fault {
        MoveError::Local => Unstored::Failed(Status::LocProt),
        MoveError::Source => Unstored::Failed(Status::RemOp),
        MoveError::Late => Unstored::Late,
    }
}

/// Returns the status with which a refusal completes at the requester (IBTA 9.9.2).
fn nak_status(nak: Nak) -> Status {
    match nak {
        Nak::RemoteAccess => Status::RemAccess,
        Nak::RemoteOperational => Status::RemOp,
        Nak::InvalidRequest | Nak::Sequence | Nak::ReceiverNotReady(_) => Status::RemInvReq,
    }
}
