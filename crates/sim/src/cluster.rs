//! Hosts with a switch each, adapters on them, and the network between: what a daemon's shard does,
//! without threads and sockets.
//!
//! ```text
//!   Hca ── unit ──► Fabric ─┬─ same host ──► other Hca, from memory to memory
//!                           └─ wire ── frame ──► Network ──► Fabric of the other host ──► Hca
//! ```
//! Every adapter stands behind a [`Border`], which breaks it in a chosen way or not at all.

use std::collections::VecDeque;

use vrdma_switch::{Fabric, GroupId, PortId, Way};
use vrdma_verbs::packet::{FrameError, Frames, Link, Reply, reply_frame, request_frame};
use vrdma_verbs::unit::{Request, RequestOp, Route};
use vrdma_verbs::work::Output;
use vrdma_verbs::{Hca, Path, Paths, Source, Time};
use vrdma_wire::{Gid, MAX_FRAME, Mac, Packet};

use crate::border::{Border, Entry};
use crate::memory::{Memory, Region};
use crate::network::Network;
use crate::stranger::Stranger;
use crate::trace::{Trace, describe};
use crate::violation::Violation;

/// Bytes of a unit between two adapters of one host.
const UNIT_BYTES: u32 = 64 * 1024;

/// Bytes of a unit for a wire, where a unit is more than a packet.
const TRAIN_BYTES: u32 = 16 * 1024;

/// Turns of the cluster at one instant. More than a thousand messages take at once; without an end
/// something answers itself for ever.
const TURNS_MAX: usize = 200_000;

/// Units that an adapter sends before the next one has its turn.
const BURST: usize = 16;

/// An adapter's place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) host: usize,
    pub(crate) port: PortId,
    pub(crate) group: GroupId,
    pub(crate) mac: Mac,
    pub(crate) gids: [Gid; 2],
}

pub(crate) struct Cluster {
    pub(crate) now: Time,
    hosts: Vec<Fabric>,
    pub(crate) places: Vec<Place>,
    pub(crate) hcas: Vec<Hca<Region>>,
    pub(crate) memories: Vec<Memory>,
    borders: Vec<Border>,
    pub(crate) network: Network,
    pub(crate) stranger: Stranger,
    /// Completions and events that the owners have not seen yet.
    pub(crate) outputs: VecDeque<(usize, Output)>,
    pub(crate) trace: Trace,
    /// Packets that were dropped before an adapter saw them.
    pub(crate) refused: u64,
}

/// What an adapter's host knows of destinations.
struct View<'a> {
    fabric: &'a Fabric,
    port: PortId,
}

impl Paths for View<'_> {
    fn epoch(&self) -> u64 {
        self.fabric.epoch()
    }

    fn path(&mut self, route: &Route) -> Path {
        match self.fabric.route(self.port, route.sgid, route.dgid) {
            Ok(Way::Port(port)) => Path::Local(port.0),
            _ => Path::Wire(0),
        }
    }

    /// Half of the adapters send several packets as one unit.
    fn train_bytes(&self) -> u32 {
        TRAIN_BYTES * (self.port.0 % 2)
    }
}

impl Cluster {
    pub(crate) fn new(hosts: usize, network: Network, stranger: Stranger, trace: Trace) -> Self {
        Self {
            now: Time(0),
            hosts: (0..hosts).map(|_| Fabric::new()).collect(),
            places: Vec::new(),
            hcas: Vec::new(),
            memories: Vec::new(),
            borders: Vec::new(),
            network,
            stranger,
            outputs: VecDeque::new(),
            trace,
            refused: 0,
        }
    }

    /// Plugs an adapter in.
    pub(crate) fn add(
        &mut self,
        place: Place,
        mut hca: Hca<Region>,
        border: Border,
    ) -> Result<(), Violation> {
        for (index, gid) in (0..).zip(place.gids) {
            hca.bind_gid(index, gid).map_err(Violation::from_error)?;
        }
        self.places.push(place);
        self.hcas.push(hca);
        self.memories.push(Memory::default());
        self.borders.push(border);
        self.attach(self.places.len() - 1)
    }

    fn attach(&mut self, adapter: usize) -> Result<(), Violation> {
        let place = self.places[adapter];
        let fabric = &mut self.hosts[place.host];
        fabric.set_wired(place.group, true);
        let attached = fabric.attach(place.port, place.group, place.mac);
        attached.map_err(Violation::from_error)?;
        for gid in place.gids {
            fabric
                .bind_gid(place.port, gid)
                .map_err(Violation::from_error)?;
        }
        Ok(())
    }

    /// Moves an adapter to another host, as a live migration does: its state is saved and restored, and
    /// what is on the wire is lost.
    pub(crate) fn migrate(&mut self, adapter: usize, host: usize) -> Result<(), Violation> {
        self.collect(adapter);
        let saved = self.hcas[adapter].save(|region| region.to_le_bytes().to_vec());
        let saved = saved.map_err(Violation::from_error)?;
        let find = |name: &[u8]| Some(Region::from_le_bytes(name.try_into().ok()?));
        self.hcas[adapter] = Hca::restore(&saved, find).map_err(Violation::from_error)?;
        let place = self.places[adapter];
        self.hosts[place.host].detach(place.port);
        self.places[adapter].host = host;
        self.say(|| format!("a{adapter} moves from host {} to host {host}", place.host));
        self.attach(adapter)
    }

    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        self.trace.say(self.now, line);
    }

    /// Moves everything that moves at this instant.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        for _ in 0..TURNS_MAX {
            let mut moved = false;
            for adapter in 0..self.hcas.len() {
                moved |= self.transmit(adapter)?;
                moved |= self.answer(adapter)?;
                self.collect(adapter);
            }
            if !moved {
                return Ok(());
            }
        }
        Err(Violation::new(
            "at one instant the adapters never come to rest",
        ))
    }

    /// When something happens by itself.
    pub(crate) fn next(&self) -> Option<Time> {
        let adapters = self.hcas.iter().zip(&self.borders);
        let waits = adapters
            .filter_map(|(hca, border)| border.hears_time().then(|| hca.next_deadline())?);
        waits.chain(self.network.next()).min()
    }

    /// Moves the clock, and what is due by then.
    pub(crate) fn advance(&mut self, now: Time) -> Result<(), Violation> {
        self.now = now.max(self.now);
        while let Some(flight) = self.network.arrive(self.now) {
            self.take_in(flight.to, flight.group, &flight.frame);
            self.settle()?;
            if let Some(forged) = self.stranger.provoked(&flight.frame) {
                self.say(|| "a stranger sends a frame".to_owned());
                self.take_in(flight.to, flight.group, &forged);
                self.settle()?;
            }
        }
        for (adapter, border) in self.borders.iter().enumerate() {
            let due = self.hcas[adapter]
                .next_deadline()
                .is_some_and(|due| due <= self.now);
            if due && border.hears_time() {
                self.hcas[adapter].handle_timeout(self.now);
            }
        }
        self.settle()
    }

    fn transmit(&mut self, adapter: usize) -> Result<bool, Violation> {
        let place = self.places[adapter];
        for sent in 0..BURST {
            let Some(qp) = self.hcas[adapter].next_ready() else {
                return Ok(sent > 0);
            };
            let mut view = View {
                fabric: &self.hosts[place.host],
                port: place.port,
            };
            let unit = self.hcas[adapter].poll_transmit(qp, self.now, UNIT_BYTES, &mut view);
            if let Some(unit) = unit {
                self.dispatch(adapter, &unit)?;
            }
        }
        Ok(true)
    }

    fn dispatch(&mut self, adapter: usize, unit: &Request<Region>) -> Result<(), Violation> {
        let place = self.places[adapter];
        let way = self.hosts[place.host].route(place.port, unit.route.sgid, unit.route.dgid);
        match way {
            Ok(Way::Port(port)) => {
                if let Some(to) = self.adapter_at(place.host, port) {
                    self.deliver(adapter, to, unit);
                }
                Ok(())
            }
            Ok(Way::Wire) => self.put_on_wire(adapter, unit),
            Err(reason) => Err(Violation::new(format!(
                "a{adapter} sends to nobody: {reason}"
            ))),
        }
    }

    fn adapter_at(&self, host: usize, port: PortId) -> Option<usize> {
        let mut places = self.places.iter();
        places.position(|place| place.host == host && place.port == port)
    }

    /// From memory to memory; the answer comes back at once.
    fn deliver(&mut self, from: usize, to: usize, unit: &Request<Region>) {
        let (here, there) = (&self.memories[from], &self.memories[to]);
        let answer = self.hcas[to].deliver(unit, Source::Memory(here), there);
        if let Some(answer) = answer {
            self.hcas[from].respond(&answer, Source::Memory(there), here, self.now);
        }
        self.say(|| {
            format!(
                "a{from} to a{to}, same host: {:?} {:?} PSN {:#x} {} packets",
                unit.service,
                unit.op,
                unit.psn.get(),
                unit.packets
            )
        });
        self.collect(to);
        self.collect(from);
    }

    fn put_on_wire(&mut self, adapter: usize, unit: &Request<Region>) -> Result<(), Violation> {
        if unit.packets > 1 && matches!(unit.op, RequestOp::Send | RequestOp::Write { .. }) {
            return self.put_train_on_wire(adapter, unit);
        }
        let mut buffer = [0; MAX_FRAME];
        let memory = &self.memories[adapter];
        let frame = request_frame(unit, memory, &self.link(adapter), &mut buffer);
        let frame = frame.map_err(Violation::from_error)?;
        self.send(adapter, unit.route.dgid, frame);
        Ok(())
    }

    fn put_train_on_wire(
        &mut self,
        adapter: usize,
        unit: &Request<Region>,
    ) -> Result<(), Violation> {
        let frames = Frames::of_request(unit, &self.link(adapter));
        self.put_frames_on_wire(adapter, unit.route.dgid, frames)
    }

    fn put_frames_on_wire(
        &mut self,
        adapter: usize,
        to: Gid,
        frames: Result<Frames<'_, Region>, FrameError>,
    ) -> Result<(), Violation> {
        let frames = frames.and_then(|frames| frames.to_vecs(&self.memories[adapter]));
        for frame in frames.map_err(Violation::from_error)? {
            self.send(adapter, to, &frame);
        }
        Ok(())
    }

    fn answer(&mut self, adapter: usize) -> Result<bool, Violation> {
        for sent in 0..BURST {
            let place = self.places[adapter];
            let mut view = View {
                fabric: &self.hosts[place.host],
                port: place.port,
            };
            let Some(reply) = self.hcas[adapter].poll_reply(self.now, &mut view) else {
                return Ok(sent > 0);
            };
            self.put_reply_on_wire(adapter, &reply)?;
        }
        Ok(true)
    }

    fn put_reply_on_wire(
        &mut self,
        adapter: usize,
        reply: &Reply<Region>,
    ) -> Result<(), Violation> {
        let link = self.link(adapter);
        let frames = Frames::of_reply(reply, &link).map_err(Violation::from_error)?;
        if let Some(frames) = frames {
            return self.put_frames_on_wire(adapter, reply.route().dgid, Ok(frames));
        }
        let mut buffer = [0; MAX_FRAME];
        let memory = &self.memories[adapter];
        let frame = reply_frame(reply, memory, &self.link(adapter), &mut buffer);
        let frame = frame.map_err(Violation::from_error)?;
        self.send(adapter, reply.route().dgid, frame);
        Ok(())
    }

    fn link(&self, adapter: usize) -> Link {
        Link {
            source: self.places[adapter].mac,
            destination: Mac::BROADCAST,
            vlan: None,
        }
    }

    /// To whichever host the destination is on now. A peer that has moved to this host meanwhile is
    /// not reached by a frame that was made for the wire.
    fn send(&mut self, adapter: usize, dgid: Gid, frame: &[u8]) {
        let Place { host, group, .. } = self.places[adapter];
        let home = self
            .places
            .iter()
            .find(|place| place.group == group && place.gids.contains(&dgid));
        let to = home.map(|place| place.host).filter(|&to| to != host);
        self.trace.keep(self.now, frame);
        let gone = to.is_some_and(|to| self.network.send(self.now, (host, to), group, frame));
        self.say(|| {
            let lost = if gone { "" } else { ", lost" };
            format!("a{adapter} sends {}{lost}", describe(frame))
        });
    }

    /// What a host does with a frame from another.
    fn take_in(&mut self, host: usize, group: GroupId, frame: &[u8]) {
        let Ok(packet) = Packet::parse(frame) else {
            self.refused += 1;
            return self.say(|| format!("host {host} refuses {}", describe(frame)));
        };
        let port = self.hosts[host].arrive(group, packet.sgid(), packet.dgid());
        let Some(to) = port.ok().and_then(|port| self.adapter_at(host, port)) else {
            self.refused += 1;
            return self.say(|| format!("host {host} has nobody for {}", describe(frame)));
        };
        self.say(|| format!("a{to} gets {}", describe(frame)));
        let entry = Entry {
            hca: &mut self.hcas[to],
            memory: &self.memories[to],
            now: self.now,
        };
        let forged = self.borders[to].take_in(&packet, entry);
        if let Some(reply) = forged {
            let _ = self.put_reply_on_wire(to, &reply);
        }
    }

    /// Takes what an adapter has handed out.
    fn collect(&mut self, adapter: usize) {
        while let Some(output) = self.hcas[adapter].poll_output() {
            let border = &mut self.borders[adapter];
            let outputs = &mut self.outputs;
            border.hand_out(output, &mut |output| outputs.push_back((adapter, output)));
        }
    }
}
