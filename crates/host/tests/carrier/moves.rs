//! A station goes to the other host while a peer is connected to it, like a machine that is saved here and restored
//! there: its queue pair keeps its number there and goes on where it was.

use std::time::Duration;

use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_verbs::object::QpId;
use vrdma_verbs::work::{SendOp, Status};

use crate::world::*;

/// Longer than an acknowledgement waits for an answer to leave with.
const REST: Duration = Duration::from_micros(100);

/// Messages of single packets, before the move and after it.
const MESSAGES: u64 = 3;

const BYTES: u32 = 64;

/// Two hosts and a wire. The first station stays at the first host; the second one comes and goes.
struct World {
    hosts: [Carrier; 2],
    wires: [Wire; 2],
    ports: [PortId; 2],
    qps: [QpId; 2],
    /// The host of each station.
    places: [usize; 2],
    /// Whether anything went over the wire.
    crossed: bool,
    now: Time,
}

impl World {
    fn new(place: usize) -> Self {
        let mut hosts = [Carrier::new(1), Carrier::new(2)];
        let ports = [add(&mut hosts[0], 1, 0), add(&mut hosts[place], 2, 0)];
        let wires = hosts.each_mut().map(|host| add_uplink(host, 0));
        let mut world = Self {
            hosts,
            wires,
            ports,
            qps: [QpId(0); 2],
            places: [0, place],
            crossed: false,
            now: Time(0),
        };
        world.qps = [0, 1].map(|at| world.station(at).create_qp());
        let qps = world.qps;
        let names = [0, 1].map(|at| world.station(at).name(qps[at]));
        world.station(0).connect(qps[0], names[1]);
        world.station(1).connect(qps[1], names[0]);
        world
    }

    fn station(&mut self, at: usize) -> &mut Station {
        station(&mut self.hosts[self.places[at]], self.ports[at])
    }

    /// Runs until nothing moves, then once more a while later.
    fn run(&mut self) {
        self.run_now();
        self.now = self.now + REST;
        self.run_now();
    }

    fn run_now(&mut self) {
        loop {
            self.hosts.iter_mut().for_each(|host| run(host, self.now));
            let [a, b] = &self.wires;
            if [a.move_to(b), b.move_to(a)] == [false, false] {
                return;
            }
            self.crossed = true;
        }
    }

    /// Lets messages arrive in both directions; whether they went over the wire.
    fn talk(&mut self, first: u8) -> bool {
        self.crossed = false;
        for (byte, from) in (first..).zip([0, 1].repeat(MESSAGES as usize)) {
            let (to, qp) = (1 - from, self.qps[from]);
            let remote = self.station(to).remote();
            let sender = self.station(from);
            sender.memory.fill(0, byte);
            sender.post(qp, 1, SendOp::Write(remote), BYTES);
            self.run();
            assert_eq!(self.station(from).completed(), [(1, Status::Success)]);
            let arrived = self.station(to).memory.bytes(0);
            assert_eq!(arrived[..BYTES as usize], [byte; BYTES as usize]);
        }
        self.crossed
    }

    /// Makes the second station go on at another host.
    fn go(&mut self, to: usize) {
        let mut station = self.hosts[self.places[1]].remove(self.ports[1]).unwrap();
        station.come_anew();
        let attachment = attachment(&station, 2, 0);
        self.hosts[to].add(attachment, station).unwrap();
        self.places[1] = to;
    }
}

#[test]
fn a_connection_goes_from_local_to_wire_and_back() {
    let mut world = World::new(0);
    assert!(!world.talk(1));
    world.go(1);
    assert!(world.talk(11));
    world.go(0);
    assert!(!world.talk(21));
}

#[test]
fn a_connection_goes_from_wire_to_local_and_back() {
    let mut world = World::new(1);
    assert!(world.talk(1));
    world.go(0);
    assert!(!world.talk(11));
    world.go(1);
    assert!(world.talk(21));
}
