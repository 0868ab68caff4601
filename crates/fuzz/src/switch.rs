//! Frames of guests and of other hosts, and addresses that guests bind: where frames are delivered, and what is
//! answered.

use std::net::Ipv4Addr;

use vrdma_switch::{
    Bridge, Claim, Fabric, GroupId, Host, Kept, Listener, Neighbour, Neighbours, Oversize, PortId,
    Reports, Sources, UplinkId, Verdict, question, sender,
};
use vrdma_wire::{Gid, Mac};

use crate::frames::frame;
use crate::input::Input;

const PORTS: u32 = 6;
const GROUPS: u32 = 3;
const UPLINK: UplinkId = UplinkId(0);
/// MTU of an uplink.
const MTU: usize = 1500;

/// Runs an input as a script of attachments, frames and addresses.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut world = World::new();
    while !input.is_empty() {
        world.step(&mut input);
    }
}

/// Learns the first address that it is asked for.
struct First(Option<Gid>);

impl Claim for First {
    fn claim(&mut self, gid: Gid) -> bool {
        *self.0.get_or_insert(gid) == gid
    }
}

struct World {
    bridge: Bridge,
    fabric: Fabric,
    reports: Reports,
    neighbours: Neighbours,
    host: Host,
    now: u64,
}

fn mac(input: &mut Input<'_>) -> Mac {
    match input.byte() {
        last @ 0..16 => Mac([2, 0, 0, 0, 0, last]),
        16 => Mac::BROADCAST,
        _ => Mac(std::array::from_fn(|_| input.byte())),
    }
}

fn gid(input: &mut Input<'_>) -> Gid {
    match input.byte() {
        last @ 0..8 => Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, last)),
        last @ 8..16 => Gid::link_local(Mac([2, 0, 0, 0, 0, last])),
        last @ 16..24 => Gid::from_ipv4(Ipv4Addr::new(239, 1, 2, last)),
        _ => Gid(std::array::from_fn(|_| input.byte())),
    }
}

fn port(input: &mut Input<'_>) -> PortId {
    PortId(u32::from(input.byte()) % PORTS)
}

fn group(input: &mut Input<'_>) -> GroupId {
    GroupId(u32::from(input.byte()) % GROUPS)
}

impl World {
    /// Two ports in one group, one in another, and an uplink of both groups.
    fn new() -> Self {
        let station = Mac([2, 0, 0, 0, 0, 1]);
        let own = Gid::from_ipv4(Ipv4Addr::new(10, 0, 0, 1));
        let mut world = Self {
            bridge: Bridge::new(),
            fabric: Fabric::new(),
            reports: Reports::default(),
            neighbours: Neighbours::new(),
            host: Host::new(station, vec![own, Gid::link_local(station)]),
            now: 0,
        };
        world.bridge.attach_uplink(UPLINK);
        for (number, group) in [(0, 0), (1, 0), (2, 1)] {
            world.attach(
                PortId(number),
                GroupId(group),
                Mac([2, 0, 0, 0, 0, number as u8]),
            );
        }
        world
    }

    fn attach(&mut self, port: PortId, group: GroupId, mac: Mac) {
        let attached = self.bridge.attach(port, group, mac);
        assert_eq!(self.fabric.attach(port, group, mac), attached);
        self.bridge.join(UPLINK, group);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(12) {
            0 => self.attach(port(input), group(input), mac(input)),
            1 => {
                let port = port(input);
                self.bridge.detach(port);
                self.fabric.detach(port);
                self.reports.forget(port);
            }
            2 => self.now += input.number().min(1 << 40),
            3 => self.forward(port(input), &frame(input)),
            4 => self.arrive(group(input), &frame(input)),
            5 => self.address(input),
            6 => self.route(input),
            7 => self.report(input),
            8 => self.question(&frame(input)),
            9 => self.cut(&frame(input)),
            10 => self.hear(group(input), &frame(input)),
            _ => self.listen(input),
        }
    }

    fn forward(&mut self, from: PortId, frame: &[u8]) {
        if let Verdict::Deliver(recipients) = self.bridge.forward(from, frame, self.now) {
            let recipients: Vec<_> = recipients.collect();
            self.check(recipients, self.bridge.group(from), Some(from));
        }
    }

    fn arrive(&mut self, group: GroupId, frame: &[u8]) {
        if let Verdict::Deliver(recipients) = self.bridge.arrive(UPLINK, group, frame, self.now) {
            let recipients: Vec<_> = recipients.collect();
            self.check(recipients, Some(group), None);
        }
    }

    /// Checks that a frame stays in its group and does not come back.
    fn check(&self, to: Vec<PortId>, group: Option<GroupId>, from: Option<PortId>) {
        for port in to {
            assert_eq!(self.bridge.group(port), group);
            assert_ne!(Some(port), from);
        }
    }

    fn address(&mut self, input: &mut Input<'_>) {
        let (port, gid) = (port(input), gid(input));
        match input.below(8) {
            0 => self.fabric.unbind_gid(port, gid),
            1 => self.fabric.clear_gids(port),
            2 => {
                let gids = [gid, self::gid(input)];
                let (kept, sources) = match input.below(4) {
                    0 => (Kept::Any, Sources::Any),
                    3 => (Kept::Learned, Sources::Learned(Box::new(First(None)))),
                    some => {
                        let gids: Box<[Gid]> = gids[..some].into();
                        (Kept::Stated(gids.clone()), Sources::Stated(gids))
                    }
                };
                self.fabric.keep(port, &kept);
                self.bridge.pin(port, sources);
            }
            3 => self.bridge.allow_roce(port),
            4 => {
                let group = group(input);
                self.fabric.set_wired(group, input.is_odd());
            }
            5 => self.learn(port, gid),
            6 => self.fabric.forget_learned(port),
            _ => {
                // An address that is taken or beyond the limit is refused.
                let _bound = self.fabric.bind_gid(port, gid);
            }
        }
    }

    /// Checks that a learned address belongs to no other port.
    fn learn(&mut self, port: PortId, gid: Gid) {
        if self.fabric.learn(port, gid) == Some(gid)
            && let Some(group) = self.fabric.group(port)
        {
            let others = (0..PORTS).map(PortId).filter(|&other| other != port);
            let in_group = others.filter(|&other| self.fabric.group(other) == Some(group));
            for other in in_group.collect::<Vec<_>>() {
                assert!(self.fabric.gids(other).all(|bound| bound != gid));
                assert_ne!(self.fabric.learn(other, gid), Some(gid));
            }
        }
    }

    fn route(&self, input: &mut Input<'_>) {
        let (port, from, to) = (port(input), gid(input), gid(input));
        if let Ok(vrdma_switch::Way::Port(found)) = self.fabric.route(port, from, to) {
            assert_eq!(self.fabric.group(found), self.fabric.group(port));
        }
        let group = group(input);
        if let Ok(found) = self.fabric.arrive(group, from, to) {
            assert_eq!(self.fabric.group(found), Some(group));
        }
    }

    /// Handles queries for the groups that adapters listen to; the reports are forwarded as frames.
    fn report(&mut self, input: &mut Input<'_>) {
        let port = port(input);
        let heard = frame(input);
        let was_query = Reports::is_query(&heard);
        let (group, random) = (self.group(port), input.word());
        let heard = self.reports.hear(group, &heard, self.now, || random);
        assert_eq!(heard, was_query);
        for (port, report) in self.reports.poll(self.now) {
            self.forward(port, &report);
        }
    }

    fn group(&self, port: PortId) -> GroupId {
        self.fabric.group(port).unwrap_or(GroupId(0))
    }

    fn listen(&mut self, input: &mut Input<'_>) {
        let port = port(input);
        let who = Listener {
            group: self.group(port),
            mac: mac(input),
            ip: gid(input).to_ipv4(),
        };
        let groups: Vec<_> = (0..input.below(4)).map(|_| gid(input)).collect();
        self.reports.listen(port, who, &groups, self.now);
        // Addresses that are no groups are refused.
        let _listens = self.fabric.listen(port, groups);
    }

    fn question(&self, frame: &[u8]) {
        if let Some(answer) = self.host.answer(frame) {
            assert!(answer.len() <= frame.len(), "an answer amplifies");
        }
    }

    fn cut(&self, frame: &[u8]) {
        if let Oversize::Cut(pieces) = Oversize::of(frame, MTU / 3) {
            assert!(pieces.iter().all(|piece| piece.len() <= MTU / 3 + 14));
        }
    }

    fn hear(&mut self, group: GroupId, frame: &[u8]) {
        let Some((gid, mac)) = sender(frame) else {
            return;
        };
        let neighbour = Neighbour {
            mac,
            uplink: UPLINK,
        };
        self.neighbours.hear(group, gid, neighbour, self.now);
        self.neighbours.guess(group, gid, neighbour, self.now);
        self.neighbours.contradicts(group, gid, mac, self.now);
        self.neighbours.find(group, gid, self.now);
        question(mac, gid, Gid::link_local(mac));
    }
}
