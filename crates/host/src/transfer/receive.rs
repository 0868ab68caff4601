//! Transfers that arrive.

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

/// Requests between two members that follow each other.
struct Run<'v, M: Member> {
    own: M::View<'v>,
    /// View of the sender's memory, if the payload is there.
    theirs: Option<M::View<'v>>,
    /// The acknowledgement of the requests that were not answered yet.
    unheard: Option<Response<M::Region>>,
    /// The first of these requests: it goes back with the acknowledgement.
    row: Option<Carried<M>>,
}

/// The transfers that come by a lane from a shard.
struct Incoming<I> {
    shard: ShardId,
    lane: Lane,
    transfers: I,
}

impl<M: Member, P: Port> Host<M, P> {
    /// Takes in what came by a lane from another shard, in order, as far as the lane's budget of this turn goes. The
    /// transfers that were asked for are taken and may be dropped in place. `true` if there were any, or may be more.
    /// Call [`turn`](Self::turn) afterwards.
    pub fn take_from<'t>(
        &mut self,
        shard: ShardId,
        lane: Lane,
        transfers: impl Iterator<Item = &'t mut Transfer<M>>,
        now: Time,
    ) -> bool
    where
        M: 't,
    {
        self.lanes.renew(shard, lane);
        let mut incoming = Incoming {
            shard,
            lane,
            transfers,
        };
        let mut worked = false;
        let mut transfer = self.next_of(&mut incoming);
        while let Some(next) = transfer.take() {
            worked = true;
            transfer = match next {
                Transfer::Request(carried) if self.is_plain(carried) => {
                    self.take_run(next, &mut incoming, now)
                }
                other => {
                    self.take_in(other, now);
                    self.next_of(&mut incoming)
                }
            };
        }
        worked || self.lanes.is_spent(shard, lane)
    }

    /// Returns the next transfer of a lane, as far as its budget goes.
    fn next_of<'t, I>(&mut self, incoming: &mut Incoming<I>) -> Option<&'t mut Transfer<M>>
    where
        I: Iterator<Item = &'t mut Transfer<M>>,
        M: 't,
    {
        let (shard, lane) = (incoming.shard, incoming.lane);
        if !self.lanes.takes(shard, lane) {
            return None;
        }
        let transfer = incoming.transfers.next()?;
        self.lanes.charge(shard, lane, cost(transfer));
        Some(transfer)
    }

    /// Whether a request is for a member that is here, its route still leads there, and it is no multicast.
    fn is_plain(&self, carried: &Carried<M>) -> bool {
        self.member(carried.to).is_some()
            && carried.request.destination != Qpn::MULTICAST
            && self.is_still_right(carried)
    }

    /// Delivers a request and those behind it that go the same way, with one view of each memory. Hands back the first
    /// transfer that goes elsewhere.
    fn take_run<'t, I>(
        &mut self,
        first: &'t mut Transfer<M>,
        incoming: &mut Incoming<I>,
        now: Time,
    ) -> Option<&'t mut Transfer<M>>
    where
        I: Iterator<Item = &'t mut Transfer<M>>,
        M: 't,
    {
        let Transfer::Request(Carried {
            from, to, memory, ..
        }) = first
        else {
            return Some(first);
        };
        let (from, to) = (*from, *to);
        let own = self.member(to).map(M::memory)?;
        let theirs = memory.clone();
        let mut run = Run {
            own: M::view(&own),
            theirs: theirs.as_ref().map(M::view),
            unheard: None,
            row: None,
        };
        let mut transfer = first;
        loop {
            self.deliver_in_run(&mut run, transfer, to, now);
            transfer = match self.next_of(incoming) {
                Some(next) if self.continues(next, (from, to), run.theirs.is_some()) => next,
                behind => {
                    self.answer_row(&mut run, to);
                    return behind;
                }
            };
        }
    }

    /// Whether a transfer is a request that goes the same way as those of a run.
    fn continues(&self, transfer: &Transfer<M>, way: (PortId, PortId), has_memory: bool) -> bool {
        let Transfer::Request(next) = transfer else {
            return false;
        };
        (next.from, next.to) == way && next.memory.is_some() == has_memory && self.is_plain(next)
    }

    /// Delivers a request. It stays in place if an acknowledgement of an earlier one stands for its own.
    fn deliver_in_run(
        &mut self,
        run: &mut Run<'_, M>,
        transfer: &mut Transfer<M>,
        to: PortId,
        now: Time,
    ) {
        let Transfer::Request(carried) = transfer else {
            return;
        };
        let Some(peer) = self.members.touch(to, now) else {
            return self.send_back(transfer);
        };
        let is_read = carried.memory.is_some();
        let source = Source::Memory(run.theirs.as_ref().unwrap_or(&run.own));
        // A sender that waits for its memory to be read gets each answer.
        let unheard = if is_read { &mut None } else { &mut run.unheard };
        let answer = peer.deliver_in_row(&run.own, &carried.request, source, now, unheard);
        if answer.is_none() && !is_read {
            return;
        }
        self.answer_row(run, to);
        match answer {
            Some(acknowledgement) if acknowledgement.is_ack() && !is_read => {
                run.unheard = Some(acknowledgement);
                run.row = transfer.take_request();
            }
            answer => {
                carried.put_answer(answer, &run.own);
                self.send_back(transfer);
            }
        }
    }

    fn send_back(&mut self, transfer: &mut Transfer<M>) {
        if let Some(carried) = transfer.take_request() {
            self.answer(carried);
        }
    }

    /// Sends back the acknowledgement of all requests of a row, if there are any.
    fn answer_row(&mut self, run: &mut Run<'_, M>, to: PortId) {
        if let Some(member) = self.members.get_mut(to) {
            member.end_row();
        }
        if let Some(mut carried) = run.row.take() {
            carried.put_answer(run.unheard.take(), &run.own);
            self.answer(carried);
        }
    }

    fn take_in(&mut self, transfer: &mut Transfer<M>, now: Time) {
        if let Transfer::Answer(carried) = transfer
            && carried.memory.take().is_some()
        {
            self.lanes.has_read(carried.from);
        }
        if let Some(port) = addressee(transfer)
            && self.member(port).is_none()
        {
            return self.forward(port, transfer.take());
        }
        match transfer.take() {
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
            Transfer::Unplugged(port) => self.uplinks.unplug(port),
            Transfer::PathMtu { port, mtu } => {
                self.events.push_back(Event::PathMtu { port, mtu });
            }
            Transfer::Taken => {}
        }
    }

    /// Takes care of a transfer for a member that is not here: it has moved, is on its way, or is gone.
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

    /// Takes a multicast datagram, or a request whose route has changed.
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

    /// Whether the route still holds: the fabric may have changed meanwhile, and the number may be another member's by
    /// now.
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
        // Datagrams are not answered.
        let _ = peer.deliver(&own, copy, source, now);
    }

    /// Sends a request back with the answer, which also says that the sender's memory is no longer read.
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

    /// Gives a member that moved here the transfers that came before it.
    pub(crate) fn take_early(&mut self, now: Time) {
        for mut transfer in self.lanes.take_early() {
            self.take_in(&mut transfer, now);
        }
    }
}

impl<M: Member> Carried<M> {
    /// Notes the responder's answer. READ data is copied: only the member's own shard accesses its memory.
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

    /// Returns the responder's answer, as if it had come from this shard.
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

/// Returns the cost of taking a transfer in.
fn cost<M: Member>(transfer: &Transfer<M>) -> u64 {
    match transfer {
        Transfer::Request(carried) => budget::cost(&carried.request),
        Transfer::Answer(carried) => budget::cost_of(carried.data.len()),
        Transfer::Packet { frame, .. } => budget::cost_of(frame.len()),
        _ => budget::cost_of(0),
    }
}

/// Returns the member that has to be here for a transfer, if any.
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
