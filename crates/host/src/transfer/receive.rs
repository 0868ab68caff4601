//! Transfers that come.

use vrdma_adapter::ShardId;
use vrdma_switch::{Fabric, PortId, Way};
use vrdma_verbs::memory::{Fault, Gather};
use vrdma_verbs::unit::{Nak, Request, Response, ResponseBody};
use vrdma_verbs::{Source, Time};
use vrdma_wire::{Qpn, Service};

use super::send::read_all;
use super::{Answer, AnswerBody, Carried, Lane, Transfer};
use crate::budget;
use crate::event::Event;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;

/// What comes by a lane from a shard.
struct Incoming<'a, N> {
    shard: ShardId,
    lane: Lane,
    next: &'a mut N,
}

impl<M: Member, P: Port> Host<M, P> {
    /// Takes in what `next` has of the lanes from another shard, of each as much as its budget of this turn
    /// allows; `true` if there was any, or may be more. [`turn`](Self::turn) afterwards.
    pub fn take_from(
        &mut self,
        shard: ShardId,
        mut next: impl FnMut(Lane) -> Option<Transfer<M>>,
        now: Time,
    ) -> bool {
        let mut worked = false;
        for lane in [Lane::Answers, Lane::Units] {
            self.lanes.renew(shard, lane);
            let mut incoming = Incoming {
                shard,
                lane,
                next: &mut next,
            };
            let mut transfer = self.next_of(&mut incoming);
            while let Some(next) = transfer.take() {
                worked = true;
                transfer = match next {
                    Transfer::Request(first) if self.is_plain(&first) => {
                        self.take_run(first, &mut incoming, now)
                    }
                    other => {
                        self.take_in(other, now);
                        self.next_of(&mut incoming)
                    }
                };
            }
            worked |= self.lanes.is_spent(shard, lane);
        }
        worked
    }

    /// The next transfer of a lane, as far as its budget goes.
    fn next_of<N>(&mut self, incoming: &mut Incoming<'_, N>) -> Option<Transfer<M>>
    where
        N: FnMut(Lane) -> Option<Transfer<M>>,
    {
        let (shard, lane) = (incoming.shard, incoming.lane);
        if !self.lanes.takes(shard, lane) {
            return None;
        }
        let transfer = (incoming.next)(lane)?;
        self.lanes.charge(shard, lane, cost(&transfer));
        Some(transfer)
    }

    /// Whether a request is for a member that is here and its route still leads there, and no datagram to many.
    fn is_plain(&self, carried: &Carried<M>) -> bool {
        self.member(carried.to).is_some()
            && carried.request.destination != Qpn::MULTICAST
            && self.is_still_right(carried)
    }

    /// Delivers a request and those behind it that go the same way, with one view of each memory. What comes behind
    /// them is handed back.
    fn take_run<N>(
        &mut self,
        first: Carried<M>,
        incoming: &mut Incoming<'_, N>,
        now: Time,
    ) -> Option<Transfer<M>>
    where
        N: FnMut(Lane) -> Option<Transfer<M>>,
    {
        let own = self.member(first.to).map(M::memory)?;
        let theirs = first.memory.clone();
        let own = M::view(&own);
        let theirs = theirs.as_ref().map(M::view);
        let (from, to) = (first.from, first.to);
        let mut carried = first;
        let mut unheard = None;
        loop {
            if let Some(peer) = self.members.touch(to, now) {
                let source = Source::Memory(theirs.as_ref().unwrap_or(&own));
                let response = peer.deliver(&own, &carried.request, source, now);
                carried.put_answer(response, &own);
            }
            self.answer_in_turn(&mut unheard, carried);
            match self.next_of(incoming) {
                Some(Transfer::Request(next))
                    if (next.from, next.to) == (from, to)
                        && next.memory.is_some() == theirs.is_some()
                        && self.is_plain(&next) =>
                {
                    carried = next;
                }
                behind => {
                    unheard.into_iter().for_each(|last| self.answer(last));
                    return behind;
                }
            }
        }
    }

    /// Sends a request back, or keeps it if the next one's answer may stand for its.
    fn answer_in_turn(&mut self, unheard: &mut Option<Carried<M>>, carried: Carried<M>) {
        if let Some(before) = unheard.take_if(|before| !carried.stands_for(before)) {
            self.answer(before);
        }
        match carried.is_acknowledged() {
            true => *unheard = Some(carried),
            false => self.answer(carried),
        }
    }

    fn take_in(&mut self, mut transfer: Transfer<M>, now: Time) {
        if let Transfer::Answer(carried) = &mut transfer
            && carried.memory.take().is_some()
        {
            self.lanes.has_read(carried.from);
        }
        if let Some(port) = addressee(&transfer)
            && self.member(port).is_none()
        {
            return self.forward(port, transfer);
        }
        match transfer {
            Transfer::Request(carried) => self.take_request(carried, now),
            Transfer::Answer(carried) => self.take_answer(&carried, now),
            Transfer::Packet {
                port,
                uplink,
                frame,
            } => self.take_packet(port, uplink, &frame, now),
            Transfer::Received(datagram) => self.hand_to_owner(*datagram),
            Transfer::Send(datagram) => self.send_datagram(&datagram, now),
            Transfer::Notice(heard) => self.hear_notice(&heard, now),
            Transfer::Plugged(at) => {
                self.uplinks.segments.plug(at.port, at.group, at.marks);
                self.rewire_group(at.group);
            }
            Transfer::Unplugged(port) => self.uplinks.segments.unplug(port),
            Transfer::PathMtu { port, mtu } => {
                self.events.push_back(Event::PathMtu { port, mtu });
            }
        }
    }

    /// A member that is not here: it has moved, is on its way, or is gone.
    fn forward(&mut self, port: PortId, transfer: Transfer<M>) {
        let home = self.shared.home(port);
        match (home, transfer) {
            (Some(home), transfer) if home.shard == self.id => self.lanes.keep_early(transfer),
            (Some(home), answer @ Transfer::Answer(_)) => {
                self.lanes.push_answer(home.shard, answer)
            }
            (Some(home), unit) => self.lanes.push_unit(home.shard, unit),
            (None, Transfer::Request(carried)) => self.answer(carried),
            (None, _) => {}
        }
    }

    /// A datagram to many, or a request whose way has changed.
    fn take_request(&mut self, carried: Carried<M>, now: Time) {
        if carried.request.destination == Qpn::MULTICAST && self.is_still_right(&carried) {
            let member = self.member(carried.to);
            let copies = member.map(|member| member.fan_out(&carried.request));
            for copy in copies.unwrap_or_default() {
                self.deliver(&carried, &copy, now);
            }
        }
        self.answer(carried);
    }

    /// The fabric may have changed on the way, and a number may be another member's by now.
    fn is_still_right(&self, carried: &Carried<M>) -> bool {
        self.shared.epoch() == carried.epoch || leads_there(&self.shared.read(), carried)
    }

    fn deliver(&mut self, carried: &Carried<M>, copy: &Request<M::Region>, now: Time) {
        let Some(peer) = self.members.touch(carried.to, now) else {
            return;
        };
        let own = peer.memory();
        let own = M::view(&own);
        let theirs = carried.memory.as_ref().map(M::view);
        let source = Source::Memory(theirs.as_ref().unwrap_or(&own));
        // Nobody answers a datagram.
        let _ = peer.deliver(&own, copy, source, now);
    }

    /// Sends a request back with the answer, which says too that the sender's memory is no longer read.
    fn answer(&mut self, carried: Carried<M>) {
        if carried.answer.is_none() && carried.memory.is_none() {
            return;
        }
        let origin = carried.origin;
        self.lanes.push_answer(origin, Transfer::Answer(carried));
    }

    fn take_answer(&mut self, carried: &Carried<M>, now: Time) {
        let Some(response) = carried.response() else {
            return;
        };
        if let Some(member) = self.members.touch(carried.from, now) {
            let memory = member.memory();
            let memory = M::view(&memory);
            let source = match response.body {
                ResponseBody::Read(_) => Source::Bytes(&carried.data),
                _ => Source::Memory(&memory),
            };
            member.respond(&memory, &response, source, now);
        }
    }

    /// A member that moved here is served what came before it.
    pub(crate) fn take_early(&mut self, now: Time) {
        for transfer in self.lanes.take_early() {
            self.take_in(transfer, now);
        }
    }
}

impl<M: Member> Carried<M> {
    /// Whether nothing comes back but an acknowledgement.
    fn is_acknowledged(&self) -> bool {
        let is_ack = |answer: &Answer| matches!(answer.body, AnswerBody::Ack);
        self.memory.is_none() && self.answer.as_ref().is_some_and(is_ack)
    }

    /// Whether its acknowledgement stands for that of one before it, which was [`acknowledged`](Self::is_acknowledged), too
    /// (IBTA 9.7.5).
    fn stands_for(&self, before: &Self) -> bool {
        let (later, earlier) = (&self.request, &before.request);
        let psns = self.answer.zip(before.answer);
        self.is_acknowledged()
            && (later.source, later.destination) == (earlier.source, earlier.destination)
            && psns.is_some_and(|(answer, before)| !answer.psn.is_before(before.psn))
    }

    /// Notes what the responder said. READ data is copied: only its own shard touches the member's memory.
    fn put_answer(&mut self, response: Option<Response<M::Region>>, own: &M::View<'_>) {
        let Some(Response { psn, msn, body, .. }) = response else {
            return;
        };
        let body = match body {
            ResponseBody::Ack => AnswerBody::Ack,
            ResponseBody::Nak(nak) => AnswerBody::Nak(nak),
            ResponseBody::Atomic(word) => AnswerBody::Atomic(word),
            ResponseBody::SourceFault => AnswerBody::SourceFault,
            ResponseBody::Read(stretches) => match read_all(&stretches, own) {
                Ok(data) => {
                    self.data = data;
                    AnswerBody::Read
                }
                Err(Fault::Gone) => AnswerBody::Nak(Nak::RemoteOperational),
                Err(Fault::Late) => AnswerBody::Nak(Nak::LATE),
            },
        };
        self.answer = Some(Answer { psn, msn, body });
    }

    /// What the responder said, as if it had come from this shard.
    fn response(&self) -> Option<Response<M::Region>> {
        let Answer { psn, msn, body } = self.answer?;
        let body = match body {
            AnswerBody::Ack => ResponseBody::Ack,
            AnswerBody::Nak(nak) => ResponseBody::Nak(nak),
            AnswerBody::Atomic(word) => ResponseBody::Atomic(word),
            AnswerBody::SourceFault => ResponseBody::SourceFault,
            AnswerBody::Read => ResponseBody::Read(Gather::new()),
        };
        Some(self.request.answered(psn, msn, body))
    }
}

/// What it costs to take a transfer in.
fn cost<M: Member>(transfer: &Transfer<M>) -> u64 {
    match transfer {
        Transfer::Request(carried) => budget::cost(&carried.request),
        Transfer::Answer(carried) => budget::cost_of(carried.data.len()),
        Transfer::Packet { frame, .. } => budget::cost_of(frame.len()),
        _ => budget::cost_of(0),
    }
}

/// The member that a transfer is for, if it has to be here.
fn addressee<M: Member>(transfer: &Transfer<M>) -> Option<PortId> {
    match transfer {
        Transfer::Request(carried) => Some(carried.to),
        Transfer::Answer(carried) => Some(carried.from),
        Transfer::Packet { port, .. } => Some(*port),
        Transfer::Send(datagram) => Some(datagram.port),
        Transfer::Notice(heard) => Some(heard.port),
        _ => None,
    }
}

fn leads_there<M: Member>(fabric: &Fabric, carried: &Carried<M>) -> bool {
    let request = &carried.request;
    if request.destination == Qpn::MULTICAST && request.service == Service::Ud {
        let group = fabric.group(carried.from);
        return group.is_some() && group == fabric.group(carried.to);
    }
    let route = &request.route;
    fabric.way(carried.from, route.sgid, route.dgid) == Ok(Way::Port(carried.to))
}
