//! No sequence of attachments, frames and bindings lets one port group reach another.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;
use vrdma_switch::{Bridge, Fabric, GroupId, NoRoute, PortId, STATION_AGE_NS, Verdict, Way};
use vrdma_wire::{Gid, Mac};

const PORTS: u32 = 8;

/// Makes few MACs for many ports, so that everything collides: some configured, some not.
fn macs() -> impl Strategy<Value = Mac> {
    prop_oneof![
        8 => (0u8..12).prop_map(|last| Mac([2, 0, 0, 0, 0, last])),
        1 => Just(Mac::BROADCAST),
        1 => Just(Mac([0x01, 0x80, 0xc2, 0, 0, 0])),
    ]
}

fn ports() -> impl Strategy<Value = PortId> {
    (0..PORTS).prop_map(PortId)
}

fn groups() -> impl Strategy<Value = GroupId> {
    (0u32..3).prop_map(GroupId)
}

fn gids() -> impl Strategy<Value = Gid> {
    prop_oneof![
        (0u8..6).prop_map(|last| Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, last))),
        macs().prop_map(Gid::link_local),
    ]
}

#[derive(Clone, Debug)]
enum Event {
    Attach(PortId, GroupId, Mac),
    Detach(PortId),
    Frame {
        port: PortId,
        to: Mac,
        from: Mac,
        after: u64,
    },
    Bind(PortId, Gid),
    Unbind(PortId, Gid),
    Clear(PortId),
    Message(PortId, Gid, Gid),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let after = prop_oneof![9 => 0u64..1000, 1 => Just(STATION_AGE_NS)];
    let event = prop_oneof![
        3 => (ports(), groups(), macs()).prop_map(|(port, group, mac)| Event::Attach(port, group, mac)),
        1 => ports().prop_map(Event::Detach),
        10 => (ports(), macs(), macs(), after)
            .prop_map(|(port, to, from, after)| Event::Frame { port, to, from, after }),
        5 => (ports(), gids()).prop_map(|(port, gid)| Event::Bind(port, gid)),
        2 => (ports(), gids()).prop_map(|(port, gid)| Event::Unbind(port, gid)),
        1 => ports().prop_map(Event::Clear),
        10 => (ports(), gids(), gids()).prop_map(|(port, from, to)| Event::Message(port, from, to)),
    ];
    prop::collection::vec(event, 1..200)
}

/// What the switch should know, kept in the simplest form.
#[derive(Default)]
struct Model {
    now: u64,
    ports: BTreeMap<PortId, (GroupId, Mac)>,
    /// Where and when each station was last heard.
    heard: BTreeMap<(GroupId, Mac), (PortId, u64)>,
    bound: Vec<(PortId, Gid)>,
}

impl Model {
    fn configured(&self, group: GroupId, mac: Mac) -> Option<PortId> {
        let mut ports = self.ports.iter();
        ports
            .find(|(_, place)| **place == (group, mac))
            .map(|(&port, _)| port)
    }

    fn others(&self, port: PortId) -> Vec<PortId> {
        let group = self.ports[&port].0;
        let inside = self
            .ports
            .iter()
            .filter(|(other, place)| place.0 == group && **other != port);
        inside.map(|(&port, _)| port).collect()
    }

    fn attach(&mut self, port: PortId, group: GroupId, mac: Mac) {
        self.ports.insert(port, (group, mac));
        self.heard.remove(&(group, mac));
        let ports = &self.ports;
        self.bound
            .retain(|(other, gid)| *gid != Gid::link_local(mac) || ports[other].0 != group);
    }

    fn detach(&mut self, port: PortId) {
        self.ports.remove(&port);
        self.heard.retain(|_, place| place.0 != port);
        self.bound.retain(|(other, _)| *other != port);
    }

    /// Returns the ports that get a frame; `None` if it is dropped.
    fn frame(&mut self, port: PortId, to: Mac, from: Mac) -> Option<Vec<PortId>> {
        let (group, _) = *self.ports.get(&port)?;
        let owner = self.configured(group, from);
        if from.is_group() || owner.is_some_and(|owner| owner != port) {
            return None;
        }
        if owner.is_none() {
            self.heard.insert((group, from), (port, self.now));
        }
        if to.0[0] == 1 {
            return None;
        }
        let heard = self
            .heard
            .get(&(group, to))
            .filter(|it| self.now - it.1 < STATION_AGE_NS);
        match self.configured(group, to).or(heard.map(|it| it.0)) {
            Some(target) => (target != port).then(|| vec![target]),
            None => Some(self.others(port)),
        }
    }

    fn owner(&self, group: GroupId, gid: Gid) -> Option<PortId> {
        let mut bound = self.bound.iter();
        bound
            .find(|it| it.1 == gid && self.ports[&it.0].0 == group)
            .map(|it| it.0)
    }

    fn route(&self, port: PortId, from: Gid, to: Gid) -> Option<PortId> {
        let (group, _) = *self.ports.get(&port)?;
        self.bound
            .contains(&(port, from))
            .then(|| self.owner(group, to))?
    }
}

#[derive(Default)]
struct World {
    bridge: Bridge,
    fabric: Fabric,
    model: Model,
}

impl World {
    fn apply(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match *event {
            Event::Attach(port, group, mac) => {
                let attached = self.bridge.attach(port, group, mac);
                prop_assert_eq!(self.fabric.attach(port, group, mac), attached);
                if attached.is_ok() {
                    self.model.attach(port, group, mac);
                }
            }
            Event::Detach(port) => {
                self.bridge.detach(port);
                self.fabric.detach(port);
                self.model.detach(port);
            }
            Event::Frame {
                port,
                to,
                from,
                after,
            } => {
                self.model.now += after;
                self.frame(port, to, from)?;
            }
            Event::Bind(port, gid) => {
                if self.fabric.bind_gid(port, gid).is_ok() {
                    let group = self.model.ports[&port].0;
                    prop_assert!(
                        self.model
                            .owner(group, gid)
                            .is_none_or(|owner| owner == port)
                    );
                    self.model.bound.push((port, gid));
                }
            }
            Event::Unbind(port, gid) => {
                self.fabric.unbind_gid(port, gid);
                let bound = self.model.bound.iter().position(|it| *it == (port, gid));
                bound.map(|place| self.model.bound.remove(place));
            }
            Event::Clear(port) => {
                self.fabric.clear_gids(port);
                self.model.bound.retain(|it| it.0 != port);
            }
            Event::Message(port, from, to) => self.message(port, from, to)?,
        }
        Ok(())
    }

    fn frame(&mut self, port: PortId, to: Mac, from: Mac) -> Result<(), TestCaseError> {
        let mut frame = [0; 60];
        frame[..6].copy_from_slice(&to.0);
        frame[6..12].copy_from_slice(&from.0);
        let expected = self.model.frame(port, to, from);
        let recipients = match self.bridge.forward(port, &frame, self.model.now) {
            Verdict::Deliver(recipients) => Some(recipients.collect::<Vec<_>>()),
            Verdict::Dropped(_) => None,
        };
        for recipient in recipients.iter().flatten() {
            prop_assert_ne!(*recipient, port);
            prop_assert_eq!(self.bridge.group(*recipient), self.bridge.group(port));
        }
        prop_assert_eq!(recipients, expected);
        Ok(())
    }

    fn message(&self, port: PortId, from: Gid, to: Gid) -> Result<(), TestCaseError> {
        let route = local(self.fabric.route(port, from, to));
        if let Some(receiver) = route {
            prop_assert_eq!(self.fabric.group(receiver), self.fabric.group(port));
        }
        prop_assert_eq!(route, self.model.route(port, from, to));
        Ok(())
    }

    /// Returns all routes, to compare before and after.
    fn routes(&self) -> Vec<Option<PortId>> {
        let gids: Vec<Gid> = (0..PORTS)
            .flat_map(|port| self.fabric.gids(PortId(port)))
            .collect();
        let pairs = gids
            .iter()
            .flat_map(|from| gids.iter().map(move |to| (*from, *to)));
        let pairs: Vec<_> = pairs.collect();
        let one = |port| pairs.iter().map(move |&(from, to)| (port, from, to));
        let all = (0..PORTS).flat_map(|port| one(PortId(port)));
        all.map(|(port, from, to)| local(self.fabric.route(port, from, to)))
            .collect()
    }
}

/// No group is wired here.
fn local(route: Result<Way, NoRoute>) -> Option<PortId> {
    match route {
        Ok(Way::Port(port)) => Some(port),
        Ok(Way::Wire) => panic!("no group has an uplink"),
        Err(_) => None,
    }
}

proptest! {
    #[test]
    fn groups_never_meet(events in events()) {
        let mut world = World::default();
        for event in &events {
            world.apply(event)?;
        }
    }

    #[test]
    fn routes_hold_as_long_as_the_epoch(events in events()) {
        let mut world = World::default();
        for event in &events {
            let (epoch, routes) = (world.fabric.epoch(), world.routes());
            world.apply(event)?;
            prop_assert!(world.fabric.epoch() != epoch || world.routes() == routes);
        }
    }

    #[test]
    fn any_bytes_are_a_frame_or_dropped(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut world = World::default();
        for port in 0..PORTS {
            let mac = Mac([2, 0, 0, 0, 0, port as u8]);
            world.bridge.attach(PortId(port), GroupId(port % 2), mac).unwrap();
        }
        if let Verdict::Deliver(recipients) = world.bridge.forward(PortId(0), &bytes, 0) {
            prop_assert!(recipients.count() < PORTS as usize / 2);
        }
    }
}
