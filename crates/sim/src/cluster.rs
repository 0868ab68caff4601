//! Hosts that each have the shipped carrier, adapters on them, and the network between: what daemons do, without
//! threads and sockets.
//!
//! ```text
//!   Adapter ── unit ──► vrdma_host::Host ─┬─ same host ──► other Adapter, from memory to memory
//!                                         └─ frame ──► SimPort ──► Network ──► SimPort of another Host
//! ```
//! Each uplink of a host is on a network of its own, and every host is on all networks.

use vrdma_host::{Attachment, Event, Host, Marks, Member, Segment};
use vrdma_switch::{GroupId, Host as Kernel, Neighbour, PortId, UplinkId, sender};
use vrdma_verbs::{Hca, Time};
use vrdma_wire::{Gid, Mac};

use crate::log::Log;
use crate::member::Adapter;
use crate::memory::{Memory, Region};
use crate::network::{Ends, Flight, Network};
use crate::plan::UplinkPlan;
use crate::port::SimPort;
use crate::stranger::Stranger;
use crate::trace::describe;
use crate::violation::{Violation, check};

/// Rounds of turns at one instant: more than a thousand messages take at once. Beyond it, something answers itself
/// forever.
const ROUNDS_MAX: usize = 200_000;

/// Added to a group's number for its marks.
const VLAN_BASE: u32 = 10;
const VNI_BASE: u32 = 5000;

/// The place of an adapter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) host: usize,
    pub(crate) port: PortId,
    pub(crate) group: GroupId,
    pub(crate) mac: Mac,
    pub(crate) gids: [Gid; 2],
}

/// One host.
struct SimHost<M: Member> {
    carrier: Host<M, SimPort>,
    ports: Vec<SimPort>,
    /// Uplinks of which the carrier wants to know when they take frames again.
    watched: Vec<bool>,
}

/// The hosts and what connects them; the adapters are engines unless stated otherwise.
pub(crate) struct Cluster<M: Member = Adapter> {
    pub(crate) now: Time,
    hosts: Vec<SimHost<M>>,
    uplinks: UplinkPlan,
    pub(crate) places: Vec<Endpoint>,
    /// Memories of adapters that are engines.
    pub(crate) memories: Vec<Memory>,
    pub(crate) network: Network,
    pub(crate) stranger: Stranger,
    pub(crate) log: Log,
    /// Number of times that an uplink was found full.
    pub(crate) held_up: u64,
}

impl<M: Member> SimHost<M> {
    fn new(number: usize, plan: &UplinkPlan) -> Self {
        let ports = plan.kinds.iter().map(|_| SimPort::default());
        Self::at(number, ports.collect(), plan, Time(0))
    }

    /// Makes a host without adapters.
    fn at(number: usize, ports: Vec<SimPort>, plan: &UplinkPlan, now: Time) -> Self {
        let mut carrier = Host::new(number as u64);
        for ((id, port), is_tunnel) in (0..).zip(&ports).zip(&plan.kinds) {
            carrier.add_uplink(UplinkId(id), *is_tunnel, port.clone(), now);
        }
        Self {
            carrier,
            watched: vec![false; ports.len()],
            ports,
        }
    }

    /// Does what the carrier asks for.
    fn take_events(&mut self) {
        while let Some(event) = self.carrier.poll_event() {
            if let Event::Watch { uplink, writable } = event {
                self.watched[uplink.0 as usize] = writable;
            }
        }
    }
}

impl Cluster {
    /// Plugs an adapter in.
    pub(crate) fn add(
        &mut self,
        place: Endpoint,
        memory: Memory,
        adapter: Adapter,
    ) -> Result<(), Violation> {
        self.places.push(place);
        self.memories.push(memory);
        self.attach(place, place.host, adapter)
    }

    /// Moves an adapter to another host as a live migration does: its state is saved and restored, and frames on the
    /// wire are lost.
    pub(crate) fn migrate(&mut self, number: usize, host: usize) -> Result<(), Violation> {
        let place = self.places[number];
        let adapter = self.hosts[place.host].carrier.remove(place.port);
        let mut adapter = adapter.ok_or_else(|| Violation::new("an adapter is nowhere"))?;
        adapter.move_house()?;
        self.places[number].host = host;
        self.say(|| format!("a{number} moves from host {} to host {host}", place.host));
        self.attach(place, host, adapter)
    }

    /// Returns the engine of an adapter, for its owner.
    ///
    /// # Panics
    /// If the adapter is nowhere.
    pub(crate) fn hca(&mut self, adapter: usize) -> &mut Hca<Region> {
        let place = self.places[adapter];
        let carrier = &mut self.hosts[place.host].carrier;
        let member = carrier.touch(place.port, self.now);
        &mut member.expect("adapters are plugged in").hca
    }
}

impl<M: Member> Cluster<M> {
    pub(crate) fn new(
        hosts: usize,
        uplinks: UplinkPlan,
        network: Network,
        stranger: Stranger,
        log: Log,
    ) -> Self {
        let hosts = (0..hosts).map(|number| SimHost::new(number, &uplinks));
        Self {
            now: Time(0),
            hosts: hosts.collect(),
            uplinks,
            places: Vec::new(),
            memories: Vec::new(),
            network,
            stranger,
            log,
            held_up: 0,
        }
    }

    /// Plugs the adapter of a place in at a host.
    pub(crate) fn attach(
        &mut self,
        place: Endpoint,
        host: usize,
        adapter: M,
    ) -> Result<(), Violation> {
        let attachment = Attachment {
            port: place.port,
            group: place.group,
            marks: Marks {
                vlan: Some((VLAN_BASE + place.group.0) as u16),
                vni: Some(VNI_BASE + place.group.0),
            },
            mac: place.mac,
        };
        let carrier = &mut self.hosts[host].carrier;
        let added = carrier.add(attachment, adapter);
        added.map_err(Violation::from_error)
    }

    /// Replaces the carrier of a host whose process has ended. The new one serves the same uplinks and adapters;
    /// `revive` makes each adapter from what was left of it.
    pub(crate) fn restart(
        &mut self,
        host: usize,
        mut revive: impl FnMut(usize, M) -> Result<M, Violation>,
    ) -> Result<(), Violation> {
        let ports = self.hosts[host].ports.clone();
        ports.iter().for_each(SimPort::forget_queued);
        let next = SimHost::at(host, ports, &self.uplinks, self.now);
        let mut ended = std::mem::replace(&mut self.hosts[host], next);
        for (number, place) in self.places.clone().into_iter().enumerate() {
            let Some(member) = ended.carrier.remove(place.port) else {
                continue;
            };
            self.attach(place, host, revive(number, member)?)?;
            let now = self.now;
            let carrier = self.carrier(host);
            if place.host != host {
                carrier.set_away(place.port, true, now);
            }
            carrier.touch(place.port, now);
        }
        Ok(())
    }

    /// Returns the carrier of a host.
    pub(crate) fn carrier(&mut self, host: usize) -> &mut Host<M, SimPort> {
        &mut self.hosts[host].carrier
    }

    /// Returns an adapter at its current host, without making it run.
    ///
    /// # Panics
    /// If the adapter is nowhere.
    pub(crate) fn member(&self, adapter: usize) -> &M {
        let place = self.places[adapter];
        let member = self.hosts[place.host].carrier.member(place.port);
        member.expect("adapters are plugged in")
    }

    pub(crate) fn say(&self, line: impl FnOnce() -> String) {
        self.log.say(line);
    }

    /// Returns every adapter.
    pub(crate) fn adapters(&self) -> impl Iterator<Item = &M> {
        let placed = self.places.iter();
        placed.filter_map(|place| self.hosts[place.host].carrier.member(place.port))
    }

    /// Moves everything that moves at this instant.
    pub(crate) fn run_until_quiet(&mut self) -> Result<(), Violation> {
        for _ in 0..ROUNDS_MAX {
            let mut moved = false;
            for host in 0..self.hosts.len() {
                moved |= self.turn(host)?;
            }
            if !moved {
                let unshown = self.log.unshown();
                return check(unshown.is_none(), || {
                    format!("the owner of {unshown:?} is never told what happened")
                });
            }
        }
        Err(Violation::new(
            "at one instant the adapters never come to rest",
        ))
    }

    /// Makes one turn of one host; `true` if anything moved.
    pub(crate) fn turn(&mut self, number: usize) -> Result<bool, Violation> {
        let host = &mut self.hosts[number];
        let mut moved = host.carrier.turn(self.now);
        moved |= host.carrier.flush(self.now);
        host.take_events();
        for uplink in 0..host.ports.len() {
            let host = &self.hosts[number];
            let stuck = host.ports[uplink].is_stuck();
            self.held_up += u64::from(stuck && moved);
            check(!stuck || host.watched[uplink], || {
                format!("uplink {uplink} of host {number} is full, and nobody waits for room")
            })?;
            for (segment, frame) in host.ports[uplink].take_sent() {
                moved = true;
                self.send(number, uplink, segment, &frame);
            }
        }
        Ok(moved)
    }

    /// When the next thing happens by itself.
    pub(crate) fn next(&self) -> Option<Time> {
        let hosts = self.hosts.iter();
        let waits = hosts.filter_map(|host| host.carrier.next_deadline());
        let room = self.uplinks.next_change(self.now);
        waits.chain(self.network.next()).chain(room).min()
    }

    /// Moves the clock alone.
    pub(crate) fn reach(&mut self, now: Time) {
        self.now = now;
        self.log.reach(now);
    }

    /// Moves the clock, and delivers what is due by then.
    pub(crate) fn advance(&mut self, now: Time) -> Result<(), Violation> {
        self.now = now.max(self.now);
        self.log.reach(self.now);
        self.fill_uplinks();
        while let Some(flight) = self.network.arrive(self.now) {
            if self.hear(&flight) {
                continue;
            }
            let port = &self.hosts[flight.ends.to].ports[flight.ends.uplink];
            let provoked = self.stranger.provoked(&flight.frame);
            port.arrive((flight.segment, flight.frame));
            if let Some(forged) = provoked {
                self.log.say(|| "a stranger sends a frame".to_owned());
                port.arrive((flight.segment, forged));
            }
            // Half of the frames arrive together with the next ones of the same instant.
            if flight.number % 2 == 0 {
                self.run_until_quiet()?;
            }
        }
        self.run_until_quiet()
    }

    /// Does the work of Ethernet threads and kernels of guests: hears which station says where it is, and answers
    /// questions. `false` for any other frame.
    fn hear(&mut self, flight: &Flight) -> bool {
        let Some((gid, mac)) = sender(&flight.frame) else {
            return false;
        };
        let Ends { to, uplink, .. } = flight.ends;
        let group = group_of(flight.segment);
        let neighbour = Neighbour {
            mac,
            uplink: UplinkId(uplink as u32),
        };
        let carrier = &mut self.hosts[to].carrier;
        carrier.learn(group, gid, neighbour, self.now);
        let here = self.places.iter().filter(|place| place.host == to);
        let mut kernels = here.filter(|place| place.group == group);
        let answer = kernels.find_map(|place| {
            let kernel = Kernel::new(place.mac, place.gids.to_vec());
            kernel.answer(&flight.frame)
        });
        if let Some(answer) = answer {
            self.send(to, uplink, flight.segment, &answer);
        }
        true
    }

    /// Makes uplinks full, or take frames again.
    fn fill_uplinks(&mut self) {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            for uplink in 0..host.ports.len() {
                let port = &host.ports[uplink];
                let was_full = port.is_full();
                port.set_full(self.uplinks.is_full(number, uplink, self.now));
                if was_full && !port.is_full() && host.watched[uplink] {
                    host.carrier.make_room(UplinkId(uplink as u32));
                }
            }
        }
    }

    /// Sends a frame to the host where its station is now; a question for an address goes to all other hosts. If the
    /// peer has meanwhile moved to this host, a frame that was made for the wire does not reach it.
    fn send(&mut self, from: usize, uplink: usize, segment: Segment, frame: &[u8]) {
        self.log.keep(frame);
        let group = group_of(segment);
        let is_for_all = frame[0] & 1 == 1;
        let at_home = |place: &&Endpoint| place.group == group && frame[..6] == place.mac.0;
        let home = self.places.iter().find(at_home).map(|place| place.host);
        let to: Vec<_> = (0..self.hosts.len())
            .filter(|&to| to != from && (is_for_all || home == Some(to)))
            .collect();
        let mut gone = false;
        for to in to {
            let ends = Ends { from, to, uplink };
            gone |= self.network.send(self.now, ends, segment, frame);
        }
        self.say(|| {
            let lost = if gone { "" } else { ", lost" };
            format!("host {from} sends by {uplink} {}{lost}", describe(frame))
        });
    }

    /// Returns the number of frames that hosts refused.
    pub(crate) fn refused(&self) -> u64 {
        let uplinks = self.hosts.iter().flat_map(|host| host.carrier.uplinks());
        let counts = uplinks.flat_map(|uplink| uplink.counts().by_reason().into_values());
        counts.sum()
    }

    /// Returns the number of frames that did not fit into uplinks.
    pub(crate) fn overrun(&self) -> u64 {
        let ports = self.hosts.iter().flat_map(|host| &host.ports);
        ports.map(SimPort::lost).sum()
    }

    /// Returns the units of an adapter that its host dropped.
    pub(crate) fn dropped(&self, adapter: usize) -> Option<String> {
        let place = self.places[adapter];
        let mut drops = self.hosts[place.host].carrier.drops(place.port);
        drops
            .next()
            .map(|(reason, count)| format!("{count} times {reason}"))
    }
}

/// Returns the group of a segment of [`Cluster::attach`].
fn group_of(segment: Segment) -> GroupId {
    GroupId(match segment {
        Segment::Vlan(vlan) => u32::from(vlan) - VLAN_BASE,
        Segment::Vni(vni) => vni - VNI_BASE,
        Segment::Untagged => u32::MAX,
    })
}
