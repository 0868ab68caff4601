//! Responses on their way in: who sent them, what they say, where their data goes.

use vrdma_wire::{Gid, Psn, Qpn};

use crate::buffers::{Carried, MoveError};
use crate::hca::Hca;
use crate::memory::{Memory, Source};
use crate::qp::Qp;
use crate::requester::start::ATOMIC_BYTES;
use crate::requester::{Pending, Phase};
use crate::shared::Shared;
use crate::time::Time;
use crate::unit::{Nak, Response, ResponseBody};
use crate::work::{Status, WcOp};

impl<R: Clone> Hca<R> {
    /// Takes in the answer to a request unit. `source` is where READ data is: in the memory of the
    /// responder's side, or in the packet that brought it; `memory` is ours. Answers to nothing outstanding are counted and ignored.
    pub fn respond<M: Memory<Region = R>>(
        &mut self,
        response: &Response<R>,
        source: Source<'_, M>,
        memory: &M,
        now: Time,
    ) {
        let qp = self.slot_of(response.destination);
        let qp = qp.and_then(|id| self.qps.get_mut(id.0));
        let shared = &mut self.shared;
        let Some(qp) = qp.filter(|qp| qp.awaits(response, shared)) else {
            shared.counters.drops.stale_response += 1;
            return;
        };
        Answer {
            qp,
            shared,
            now,
            psn: response.psn,
        }
        .take_in(&response.body, source, memory);
        qp.reschedule(&mut self.schedule);
    }
}

impl<R> Qp<R> {
    /// Whether the response comes from our peer and names something outstanding.
    #[inline]
    fn awaits(&self, response: &Response<R>, shared: &Shared<R>) -> bool {
        let requester = &self.requester;
        let outstanding = requester.next.since(requester.unacked);
        self.sends()
            && self.qpn == response.destination
            && self.is_peer(
                response.source,
                response.route.sgid,
                response.route.dgid,
                shared,
            )
            && response.psn.since(requester.unacked) < outstanding
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

/// One response on its way in.
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
        if self.qp.sends() {
            self.qp.restart_timer(self.now);
        }
    }

    fn ack(&mut self) {
        self.reached(self.psn.plus(1));
    }

    /// Whether everything before `limit` is answered; otherwise the requester has gone back.
    fn reached(&mut self, limit: Psn) -> bool {
        let reached = self.qp.requester.acknowledge_before(limit);
        self.qp.settle(self.shared);
        if !reached && self.qp.sends() {
            self.qp.go_back_once(self.shared);
        }
        reached && self.qp.sends()
    }

    fn gap(&mut self) {
        self.shared.counters.sequence_naks_received += 1;
        if self.reached(self.psn) {
            self.qp.go_back_once(self.shared);
        }
    }

    fn not_ready(&mut self, code: u8) {
        self.shared.counters.rnr_naks_received += 1;
        if self.reached(self.psn) {
            self.qp.wait_for_receiver(code, self.now, self.shared);
        }
    }

    fn refused(&mut self, status: Status) {
        self.shared.counters.naks_received += 1;
        self.fail_at_psn(status);
    }

    fn fail_at_psn(&mut self, status: Status) {
        if self.reached(self.psn) {
            self.qp.fail_oldest(status, self.shared);
        }
    }

    /// The oldest request, when it is the one whose data the PSN names.
    fn reader(&self) -> Option<&Pending<R>> {
        let requester = &self.qp.requester;
        let awaited = requester.awaited.front()?;
        let oldest = requester.queue.front()?;
        (awaited.begin == self.psn && oldest.phase == Phase::Started).then_some(oldest)
    }

    fn data<M: Memory<Region = R>>(&mut self, data: Carried<'_, R, M>, memory: &M) {
        if !self.reached(self.psn) {
            return;
        }
        let Some(reader) = self
            .reader()
            .filter(|oldest| oldest.wr.op.completes_as() == WcOp::Read)
        else {
            self.shared.counters.drops.stale_response += 1;
            return;
        };
        let stored = self
            .placed(reader, data.length())
            .and_then(|(offset, end)| {
                let to = (&reader.wr.sges[..], offset);
                let moved = self.shared.scatter(self.qp.spec.pd, to, data, memory);
                moved.map(|()| end).map_err(read_status)
            });
        self.stored(stored);
    }

    /// Data has reached its place up to a PSN, or could not.
    fn stored(&mut self, stored: Result<Psn, Status>) {
        match stored {
            Ok(end) => {
                self.qp.requester.take_awaited(end);
                self.qp.settle(self.shared);
            }
            Err(status) => self.qp.fail_oldest(status, self.shared),
        }
    }

    /// Where `bytes` of READ data go in the message, and the PSN after them. Data must fill whole
    /// packets or end the message, and must not be more than was asked for.
    fn placed(&self, reader: &Pending<R>, bytes: u64) -> Result<(u32, Psn), Status> {
        let mtu = self.qp.attr.path_mtu;
        let offset = self.psn.since(reader.first) * mtu.bytes();
        let length = u32::try_from(bytes).map_err(|_| Status::BadResp)?;
        let ends = u64::from(offset) + bytes == u64::from(reader.length);
        let whole = length > 0 && length % mtu.bytes() == 0;
        let end = self.psn.plus(mtu.packets(length));
        let asked = self.qp.requester.awaited.front();
        let fits = asked.is_some_and(|read| !read.end.is_before(end));
        (fits && (ends || whole))
            .then_some((offset, end))
            .ok_or(Status::BadResp)
    }

    fn word<M: Memory<Region = R>>(&mut self, old: u64, memory: &M) {
        if !self.reached(self.psn) {
            return;
        }
        let Some(reader) = self.reader().filter(|oldest| oldest.wr.op.is_atomic()) else {
            self.shared.counters.drops.stale_response += 1;
            return;
        };
        debug_assert_eq!(reader.length, ATOMIC_BYTES);
        let (pd, bytes) = (self.qp.spec.pd, old.to_le_bytes());
        let to = (&reader.wr.sges[..], 0);
        let stored = self.shared.scatter_bytes(pd, to, &bytes, memory);
        let end = self.psn.plus(1);
        self.stored(stored.map(|()| end).map_err(read_status));
    }
}

/// How a request ends whose data could not be stored, or was gone when it was fetched.
fn read_status(fault: MoveError) -> Status {
    match fault {
        MoveError::Local => Status::LocProt,
        MoveError::Source => Status::RemOp,
    }
}

/// How a refusal completes at the requester (IBTA 9.9.2.4.2, table 56).
fn nak_status(nak: Nak) -> Status {
    match nak {
        Nak::RemoteAccess => Status::RemAccess,
        Nak::RemoteOperational => Status::RemOp,
        Nak::InvalidRequest | Nak::Sequence | Nak::ReceiverNotReady(_) => Status::RemInvReq,
    }
}
