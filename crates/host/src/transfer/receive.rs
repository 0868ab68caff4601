//! Transfers that come.

use vrdma_adapter::ShardId;
use vrdma_switch::{Fabric, PortId, Way};
use vrdma_verbs::unit::{Nak, Request, Response, ResponseBody};
use vrdma_verbs::{Source, Time};
use vrdma_wire::{Qpn, Service};

use super::send::read_all;
use super::{Carried, Lane, Transfer};
use crate::budget;
use crate::event::Event;
use crate::host::Host;
use crate::member::Member;
use crate::port::Port;

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
            while self.lanes.takes(shard, lane)
                && let Some(transfer) = next(lane)
            {
                self.lanes.charge(shard, lane, cost(&transfer));
                self.take_in(transfer, now);
                worked = true;
            }
            worked |= self.lanes.is_spent(shard, lane);
        }
        worked
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
            Transfer::Received(datagram) => self.datagrams.push(*datagram),
            Transfer::Send(datagram) => self.send_datagram(&datagram, now),
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

    fn take_request(&mut self, mut carried: Carried<M>, now: Time) {
        if !self.is_still_right(&carried) {
            return self.answer(carried);
        }
        if carried.request.destination == Qpn::MULTICAST {
            let member = self.member(carried.to);
            let copies = member.map(|member| member.fan_out(&carried.request));
            for copy in copies.unwrap_or_default() {
                self.deliver(&carried, &copy, now);
            }
            return self.answer(carried);
        }
        carried.response = self.deliver(&carried, &carried.request, now);
        self.fetch_data(&mut carried);
        self.answer(carried);
    }

    /// The fabric may have changed on the way, and a number may be another member's by now.
    fn is_still_right(&self, carried: &Carried<M>) -> bool {
        self.shared.epoch() == carried.epoch || leads_there(&self.shared.read(), carried)
    }

    fn deliver(
        &mut self,
        carried: &Carried<M>,
        request: &Request<M::Region>,
        now: Time,
    ) -> Option<Response<M::Region>> {
        let peer = self.members.touch(carried.to, now)?;
        let own = peer.memory();
        let own = M::view(&own);
        match &carried.memory {
            Some(theirs) => {
                let theirs = M::view(theirs);
                peer.deliver(&own, request, Source::Memory(&theirs), now)
            }
            None => peer.deliver(&own, request, Source::Memory(&own), now),
        }
    }

    /// Sends a request back with the answer, which says too that the sender's memory is no longer read.
    fn answer(&mut self, carried: Carried<M>) {
        if carried.response.is_none() && carried.memory.is_none() {
            return;
        }
        let origin = carried.origin;
        self.lanes.push_answer(origin, Transfer::Answer(carried));
    }

    /// Copies READ data into the answer: only this shard touches the member's memory.
    fn fetch_data(&self, carried: &mut Carried<M>) {
        let Some(response) = &mut carried.response else {
            return;
        };
        let ResponseBody::Read(stretches) = &mut response.body else {
            return;
        };
        let memory = self.member(carried.to).map(M::memory);
        let data = memory.map(|memory| read_all(stretches, &M::view(&memory)));
        match data {
            Some(Ok(data)) => {
                stretches.clear();
                carried.data = data;
            }
            _ => response.body = ResponseBody::Nak(Nak::RemoteOperational),
        }
    }

    fn take_answer(&mut self, carried: &Carried<M>, now: Time) {
        let Some(response) = &carried.response else {
            return;
        };
        if let Some(member) = self.members.touch(carried.from, now) {
            let memory = member.memory();
            let memory = M::view(&memory);
            let source = match response.body {
                ResponseBody::Read(_) => Source::Bytes(&carried.data),
                _ => Source::Memory(&memory),
            };
            member.respond(&memory, response, source, now);
        }
    }

    /// A member that moved here is served what came before it.
    pub(crate) fn take_early(&mut self, now: Time) {
        for transfer in self.lanes.take_early() {
            self.take_in(transfer, now);
        }
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
