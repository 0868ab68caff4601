//! An adapter of the simulation as the carrier sees it: an engine behind a [`Border`], whose owner posts and polls by
//! function calls.

use std::collections::VecDeque;
use std::ops::{AddAssign, Sub};
use std::sync::Arc;

use vrdma_adapter::GidChange;
use vrdma_host::{Doorbells, Member};
use vrdma_switch::Policy;
use vrdma_verbs::packet::Reply;
use vrdma_verbs::unit::{Request, RequestOp, Response, Route};
use vrdma_verbs::{Hca, Paths, Source, Time};
use vrdma_wire::{Gid, Mtu, Packet};

use crate::border::{Border, Entry};
use crate::log::Log;
use crate::memory::{Memory, Region};
use crate::trace::describe_packet;
use crate::violation::Violation;

/// Bytes of a unit between two adapters of one host, unless stated otherwise.
pub(crate) const UNIT_BYTES: u32 = 64 * 1024;

/// What was carried for an adapter at its own request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) units: u64,
    /// Units that begin a message.
    pub(crate) messages: u64,
    /// Bytes of payload, in either direction.
    pub(crate) bytes: u64,
}

impl Carried {
    fn by(request: &Request<Region>) -> Self {
        let bytes = match request.op {
            RequestOp::Read { length, .. } => length.into(),
            _ => request.payload.length(),
        };
        Self {
            units: 1,
            messages: u64::from(request.first),
            bytes,
        }
    }
}

impl AddAssign for Carried {
    fn add_assign(&mut self, more: Self) {
        self.units += more.units;
        self.messages += more.messages;
        self.bytes += more.bytes;
    }
}

impl Sub for Carried {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            units: self.units - before.units,
            messages: self.messages - before.messages,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// An adapter; see the module.
pub(crate) struct Adapter {
    number: usize,
    pub(crate) hca: Hca<Region>,
    memory: Memory,
    border: Border,
    gids: Vec<Gid>,
    changes: VecDeque<GidChange>,
    /// Replies that the border sends instead of the engine.
    forged: VecDeque<Reply<Region>>,
    log: Log,
    unit_bytes: u32,
    policy: Option<Arc<Policy>>,
    pub(crate) carried: Carried,
}

/// The parts of an adapter.
pub(crate) struct Parts {
    pub(crate) number: usize,
    pub(crate) hca: Hca<Region>,
    pub(crate) memory: Memory,
    pub(crate) border: Border,
    pub(crate) log: Log,
    /// The longest unit between two adapters of one host.
    pub(crate) unit_bytes: u32,
    /// The policy that limits it.
    pub(crate) policy: Option<Arc<Policy>>,
}

impl Adapter {
    /// Makes an adapter with these addresses.
    pub(crate) fn new(parts: Parts, gids: &[Gid]) -> Result<Self, Violation> {
        let Parts {
            number,
            mut hca,
            memory,
            border,
            log,
            unit_bytes,
            policy,
        } = parts;
        for (index, gid) in (0..).zip(gids) {
            hca.bind_gid(index, *gid).map_err(Violation::from_error)?;
        }
        let mut adapter = Self {
            number,
            hca,
            memory,
            border,
            gids: gids.to_vec(),
            changes: VecDeque::new(),
            forged: VecDeque::new(),
            log,
            unit_bytes,
            policy,
            carried: Carried::default(),
        };
        adapter.tell_gids();
        Ok(adapter)
    }

    fn tell_gids(&mut self) {
        self.changes = self.gids.iter().copied().map(GidChange::Bound).collect();
    }

    /// Saves its state and restores it, as a live migration does.
    pub(crate) fn move_house(&mut self) -> Result<(), Violation> {
        self.collect();
        let saved = self.hca.save(|region| region.to_le_bytes().to_vec());
        let saved = saved.map_err(Violation::from_error)?;
        let find = |name: &[u8]| Some(Region::from_le_bytes(name.try_into().ok()?));
        self.hca = Hca::restore(&saved, find).map_err(Violation::from_error)?;
        self.tell_gids();
        Ok(())
    }

    /// Takes what the engine has handed out, in the order in which it happened.
    fn collect(&mut self) {
        while let Some(output) = self.hca.poll_output() {
            let (log, number) = (&self.log, self.number);
            let hand_out = &mut |output| log.hand_out(number, output);
            self.border.hand_out(output, hand_out);
        }
    }
}

impl Member for Adapter {
    type Region = Region;
    type Memory = Memory;
    type View<'a> = Memory;

    fn name(&self) -> &str {
        "an adapter"
    }

    fn memory(&self) -> Memory {
        self.memory.clone()
    }

    fn view(memory: &Memory) -> Memory {
        memory.clone()
    }

    fn renew_memory(&mut self, _: Time) {}

    fn poll(&mut self, _: &Memory, now: Time) -> bool {
        let due = self.next_deadline().is_some_and(|due| due <= now);
        if due {
            self.hca.handle_timeout(now);
        }
        due
    }

    fn next_request(
        &mut self,
        _: &Memory,
        now: Time,
        paths: &mut impl Paths,
    ) -> Option<Request<Region>> {
        while let Some(qp) = self.hca.next_ready() {
            let request = self.hca.poll_transmit(qp, now, self.unit_bytes, paths);
            if let Some(request) = request {
                self.carried += Carried::by(&request);
                return Some(request);
            }
        }
        None
    }

    fn deliver_in_row(
        &mut self,
        memory: &Memory,
        request: &Request<Region>,
        source: Source<'_, Memory>,
        _: Time,
        unheard: &mut Option<Response<Region>>,
    ) -> Option<Response<Region>> {
        self.log.say(|| {
            format!(
                "a{} gets from its own host: {:?} {:?} PSN {:#x} {} packets",
                self.number,
                request.service,
                request.op,
                request.psn.get(),
                request.packets
            )
        });
        let hca = &mut self.hca;
        let response = hca.deliver_in_row(request, source, memory, unheard);
        self.collect();
        response
    }

    fn respond(
        &mut self,
        memory: &Memory,
        response: &Response<Region>,
        source: Source<'_, Memory>,
        now: Time,
    ) {
        self.hca.respond(response, source, memory, now);
        self.collect();
    }

    fn fan_out(&self, request: &Request<Region>) -> Vec<Request<Region>> {
        self.hca.fan_out(request)
    }

    fn receive(&mut self, memory: &Memory, packet: &Packet<'_>, now: Time) {
        self.log
            .say(|| format!("a{} gets {}", self.number, describe_packet(packet)));
        let entry = Entry {
            hca: &mut self.hca,
            memory,
            now,
        };
        self.forged.extend(self.border.take_in(packet, entry));
        self.collect();
    }

    fn end_train(&mut self, _: Time) {}

    fn next_reply(&mut self, now: Time, paths: &mut impl Paths) -> Option<Reply<Region>> {
        let forged = self.forged.pop_front();
        forged.or_else(|| self.hca.poll_reply(now, paths))
    }

    fn path_has_room(&mut self) {
        self.hca.path_has_room();
    }

    fn peers(&self) -> Vec<Route> {
        self.hca.peers().collect()
    }

    fn has_peer(&self, peer: Gid) -> bool {
        self.hca.has_peer(peer)
    }

    fn pause_peer(&mut self, peer: Gid) {
        self.hca.pause_peer(peer);
    }

    fn resume_peer(&mut self, peer: Gid) {
        self.hca.resume_peer(peer);
    }

    fn publish(&mut self, _: Time) {
        self.collect();
        self.log.show(self.number);
    }

    fn is_runnable(&self) -> bool {
        self.hca.has_ready()
    }

    fn policy(&self) -> Option<&Arc<Policy>> {
        self.policy.as_ref()
    }

    fn doorbells(&self) -> Doorbells {
        Doorbells::Wake
    }

    fn sleep(&mut self) -> bool {
        true
    }

    fn awake(&mut self) {}

    fn next_deadline(&self) -> Option<Time> {
        let deadline = self.hca.next_deadline();
        deadline.filter(|_| self.border.hears_time())
    }

    fn take_gid_change(&mut self) -> Option<GidChange> {
        self.changes.pop_front()
    }

    fn take_groups(&mut self) -> Option<Vec<Gid>> {
        None
    }

    fn set_mtu(&mut self, mtu: Mtu) {
        self.hca.set_port_mtu(mtu);
    }

    fn has_gsi(&self) -> bool {
        true
    }
}
