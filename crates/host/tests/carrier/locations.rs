//! A station stands still and goes on elsewhere: the stations connected to it wait, and find it.

use std::time::Duration;

use vrdma_host::Member;
use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_verbs::object::QpId;
use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::{Notice, NoticeKind, NoticePacket};

use crate::world::*;

/// How long a station is away: longer than two time-outs of 67 ms.
const AWAY: Duration = Duration::from_millis(900);

const BYTES: u32 = 64;

/// Tells which frames are lost.
type Loses = Box<dyn FnMut(&[u8]) -> bool>;

/// Hosts with one end each of one wire. The first station stays at the first host; a third station may be there, too.
struct World {
    hosts: Vec<Carrier>,
    wires: Vec<Wire>,
    ports: [PortId; 2],
    qps: [QpId; 2],
    /// Host of the second station.
    place: usize,
    now: Time,
    loses: Loses,
    /// Notices that were sent.
    notices: Vec<Notice>,
    clock: u64,
}

impl World {
    fn new(place: usize) -> Self {
        let mut hosts: Vec<_> = (1..=3).map(Carrier::new).collect();
        let ports = [add(&mut hosts[0], 1, 0), add(&mut hosts[place], 2, 0)];
        let wires = hosts.iter_mut().map(|host| add_uplink(host, 0)).collect();
        let mut world = Self {
            hosts,
            wires,
            ports,
            qps: [QpId(0); 2],
            place,
            now: Time(0),
            loses: Box::new(|_| false),
            notices: Vec::new(),
            clock: 0,
        };
        // Impatient: one retry.
        world.qps = [0, 1].map(|at| world.station(at).create_qp());
        let qps = world.qps;
        let names = [0, 1].map(|at| world.station(at).name(qps[at]));
        world.station(0).connect_with(qps[0], names[1], 1);
        world.station(1).connect_with(qps[1], names[0], 1);
        world.run();
        world
    }

    fn station(&mut self, at: usize) -> &mut Station {
        let host = [0, self.place][at];
        station(&mut self.hosts[host], self.ports[at])
    }

    fn run(&mut self) {
        loop {
            self.hosts.iter_mut().for_each(|host| run(host, self.now));
            let mut moved = false;
            for from in 0..self.wires.len() {
                for (segment, frame) in self.wires[from].take_sent() {
                    moved = true;
                    if let Ok(packet) = NoticePacket::parse(&frame) {
                        self.notices.push(packet.notice);
                    }
                    if (self.loses)(&frame) {
                        continue;
                    }
                    for (to, wire) in self.wires.iter().enumerate() {
                        if to != from {
                            wire.arrive((segment, frame.clone()));
                        }
                    }
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Lets time pass in steps to each deadline, and to the end.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        self.run();
        loop {
            let next = self.hosts.iter().filter_map(Carrier::next_deadline).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            self.run();
        }
        self.now = end;
        self.run();
    }

    fn post(&mut self) {
        let remote = self.station(1).remote();
        let qp = self.qps[0];
        self.station(0).post(qp, 1, SendOp::Write(remote), BYTES);
    }

    fn stop(&mut self, tells: bool) {
        self.clock += 1;
        let (epoch, now, port) = (self.clock, self.now, self.ports[1]);
        let station = self.station(1);
        (station.is_still, station.epoch) = (true, epoch);
        if tells {
            self.hosts[self.place].tell_paused(port, now);
        }
        self.run();
    }

    /// Makes the second station go on at a host, perhaps at the same one.
    fn go_on(&mut self, to: usize, tells: bool) {
        self.clock += 1;
        let (epoch, now, port, from) = (self.clock, self.now, self.ports[1], self.place);
        if to != from {
            // The station at the source that waits for its return.
            let waits = Station::new(2, gid(2));
            let here = station(&mut self.hosts[from], port);
            let mut station = std::mem::replace(here, waits);
            station.come_anew();
            self.hosts[from].set_away(port, true, now);
            let at = attachment(&station, 2, 0);
            self.hosts[to].add(at, station).unwrap();
            self.place = to;
        }
        let station = self.station(1);
        (station.is_still, station.epoch) = (false, epoch);
        station.hca.resume_all();
        if tells {
            self.hosts[to].tell_resumed(port, now);
        }
        self.run();
    }

    fn kinds(&self) -> Vec<NoticeKind> {
        self.notices.iter().map(|notice| notice.kind).collect()
    }
}

const DONE: [(u64, Status); 1] = [(1, Status::Success)];

#[test]
fn nobody_gives_up_while_a_station_is_on_its_way() {
    for (from, to) in [(1, 2), (1, 1), (1, 0), (0, 1), (0, 0)] {
        let mut world = World::new(from);
        world.stop(true);
        world.post();
        world.pass(AWAY);
        assert_eq!(world.station(0).completed(), [], "from {from} to {to}");
        world.go_on(to, true);
        assert_eq!(world.station(0).completed(), DONE, "from {from} to {to}");
        assert_eq!(world.station(0).hca.counters().retries, 0);
        let is_local = from == 0 && to == 0;
        assert_eq!(world.notices.is_empty(), is_local, "from hand to hand");
        // Everything was acknowledged, and is not said again.
        world.notices.clear();
        world.pass(AWAY);
        assert_eq!(world.notices, []);
    }
}

#[test]
fn without_that_they_give_up() {
    for (from, to) in [(1, 2), (0, 1), (0, 0)] {
        let mut world = World::new(from);
        world.stop(false);
        world.post();
        world.pass(AWAY);
        world.go_on(to, false);
        let ended = world.station(0).completed();
        assert_eq!(ended, [(1, Status::RetryExc)], "from {from} to {to}");
    }
}

fn is(frame: &[u8], kind: NoticeKind) -> bool {
    NoticePacket::parse(frame).is_ok_and(|it| it.notice.kind == kind)
}

#[test]
fn who_missed_that_it_goes_on_asks() {
    for to in [1, 2] {
        let mut world = World::new(1);
        world.stop(true);
        world.post();
        world.loses = Box::new(|frame| is(frame, NoticeKind::Resume));
        world.go_on(to, true);
        assert_eq!(world.station(0).completed(), []);
        world.pass(AWAY);
        assert_eq!(world.station(0).completed(), DONE);
        assert!(world.kinds().contains(&NoticeKind::Alive));
    }
}

#[test]
fn who_missed_that_it_stands_still_hears_so_when_it_sends() {
    let mut world = World::new(1);
    world.loses = Box::new(|frame| is(frame, NoticeKind::Pause));
    world.stop(true);
    world.pass(AWAY);
    world.loses = Box::new(|_| false);
    world.post();
    world.pass(AWAY);
    assert_eq!(world.station(0).completed(), []);
    world.go_on(2, true);
    assert_eq!(world.station(0).completed(), DONE);
}

/// A peer that asks at the former host, because no switch on the way has heard of the new one, is told so.
#[test]
fn the_former_host_says_that_it_is_gone() {
    let mut world = World::new(1);
    world.stop(true);
    world.post();
    world.loses = Box::new(|frame| is(frame, NoticeKind::Resume) || is(frame, NoticeKind::Alive));
    world.go_on(2, true);
    world.pass(AWAY);
    assert_eq!(world.station(0).completed(), []);
    assert!(world.kinds().contains(&NoticeKind::Moved));
    world.loses = Box::new(|_| false);
    world.pass(AWAY);
    assert_eq!(world.station(0).completed(), DONE);
}

#[test]
fn a_long_pause_is_asked_about_and_a_silent_one_ends() {
    let mut world = World::new(1);
    world.stop(true);
    world.post();
    for _ in 0..12 {
        world.pass(AWAY);
        assert_eq!(world.station(0).completed(), [], "it says that it is there");
    }
    world.loses = Box::new(|_| true);
    world.pass(6 * AWAY);
    world.pass(AWAY);
    let ended = world.station(0).completed();
    assert_eq!(ended, [(1, Status::RetryExc)], "nobody hangs for ever");
}

/// Two connected stations stand still, and go on one after the other.
#[test]
fn two_stations_on_their_way() {
    let mut world = World::new(1);
    world.stop(true);
    world.clock += 10;
    let (epoch, port, now) = (world.clock, world.ports[0], world.now);
    let first = world.station(0);
    (first.is_still, first.epoch) = (true, epoch);
    world.hosts[0].tell_paused(port, now);
    world.post();
    world.pass(AWAY);
    // The first one goes on, as at a host that knows nothing of the notices.
    let mut first = world.hosts[0].remove(port).unwrap();
    first.come_anew();
    (first.is_still, first.epoch) = (false, epoch + 1);
    first.hca.resume_peer(gid(2));
    let at = attachment(&first, 1, 0);
    world.hosts[0].add(at, first).unwrap();
    let now = world.now;
    world.hosts[0].tell_resumed(port, now);
    world.pass(AWAY);
    assert_eq!(world.station(0).completed(), [], "it was told to wait");
    world.go_on(2, true);
    assert_eq!(world.station(0).completed(), DONE);
}

#[test]
fn who_forges_a_notice_is_not_believed() {
    let mut world = World::new(1);
    world.stop(true);
    let mut sent = Vec::new();
    world.loses = Box::new(|_| false);
    world.clock += 5;
    world.go_on(1, true);
    world.notices.clear();
    // Notices as if from an address of the host itself, for another station, or about somebody else.
    let station = world.station(0);
    let (mac, own) = (station.mac, station.gid);
    let theirs = world.station(1).mac;
    let template = NoticePacket {
        path: vrdma_wire::Path {
            destination: mac,
            source: theirs,
            vlan: None,
            addresses: vrdma_wire::Addresses::between(gid(2), own, Default::default()).unwrap(),
            traffic_class: Default::default(),
            hop_limit: 64,
            source_port: vrdma_wire::NOTICE_PORT,
        },
        notice: Notice {
            kind: NoticeKind::Pause,
            gid: gid(2),
            epoch: 100,
            nonce: 1,
        },
    };
    let mut bent = [template; 4];
    bent[0].path.source = mac;
    bent[1].path.destination = theirs;
    bent[2].notice.gid = own;
    bent[3].notice.epoch = 1;
    for packet in bent {
        let mut frame = [0; NoticePacket::FRAME_MAX];
        let length = packet.emit(&mut frame);
        sent.push(frame[..length].to_vec());
    }
    world.now = world.now + AWAY;
    for frame in sent {
        let segment = vrdma_host::Segment::Vlan(10);
        world.wires[0].arrive((segment, frame));
        world.run();
        world.post();
        world.run();
        assert_eq!(world.station(0).completed(), DONE);
    }
    let counts = world.hosts[0]
        .uplinks()
        .next()
        .unwrap()
        .counts()
        .by_reason();
    assert_eq!(counts["spoofed-station"], 1);
    assert_eq!(counts["other-station"], 1);
}

/// An adapter that leaves this shard no longer waits for peers: its new shard knows nothing of the pause.
#[test]
fn who_leaves_waits_no_longer() {
    let mut world = World::new(1);
    world.stop(true);
    world.post();
    world.run();
    assert!(!world.station(0).is_runnable());
    let port = world.ports[0];
    let gone = world.hosts[0]
        .send_away(port, vrdma_host::ShardId(0))
        .unwrap();
    assert!(gone.is_runnable());
}
