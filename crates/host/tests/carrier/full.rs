//! Two uplinks, one of them full.

use vrdma_switch::{GroupId, Neighbour, PortId, UplinkId};
use vrdma_verbs::Time;
use vrdma_verbs::object::QpId;
use vrdma_verbs::work::{SendOp, Status};

use crate::world::*;

const NOW: Time = Time(0);

/// A host with a connection to a station of another host behind each of two uplinks.
struct Fork {
    host: Carrier,
    port: PortId,
    qps: [QpId; 2],
    wires: [Wire; 2],
    peers: [Peer; 2],
}

/// One of those peers.
struct Peer {
    host: Carrier,
    port: PortId,
    qp: QpId,
    wire: Wire,
}

impl Peer {
    fn new(number: u8) -> Self {
        let mut host = Carrier::new(u64::from(number));
        let port = add(&mut host, number, 0);
        let wire = add_uplink(&mut host, 0);
        let qp = station(&mut host, port).create_qp();
        Self {
            host,
            port,
            qp,
            wire,
        }
    }

    fn station(&mut self) -> &mut Station {
        station(&mut self.host, self.port)
    }
}

impl Fork {
    fn new() -> Self {
        let mut host = Carrier::new(1);
        let port = add(&mut host, 1, 0);
        let wires = [0, 1].map(|id| add_uplink(&mut host, id));
        let mut peers = [2, 3].map(Peer::new);
        let qps = [0, 1].map(|id| {
            let peer = &mut peers[id];
            let (qp, ours) = (peer.qp, station(&mut host, port));
            let own = ours.create_qp();
            ours.connect(own, peer.station().name(qp));
            peer.station().connect(qp, ours.name(own));
            let neighbour = Neighbour {
                mac: peer.station().mac,
                uplink: UplinkId(id as u32),
            };
            let address = peer.station().gid;
            host.learn(GroupId(0), address, neighbour, NOW);
            own
        });
        Self {
            host,
            port,
            qps,
            wires,
            peers,
        }
    }

    /// Writes to the peer behind an uplink, as far as the write gets.
    fn write(&mut self, uplink: usize, id: u64) {
        let remote = self.peers[uplink].station().remote();
        let station = station(&mut self.host, self.port);
        station.post(self.qps[uplink], id, SendOp::Write(remote), 64);
        self.run();
    }

    /// Lets the peer behind an uplink read, as far as the read gets.
    fn let_read(&mut self, uplink: usize, id: u64) {
        let remote = station(&mut self.host, self.port).remote();
        let peer = &mut self.peers[uplink];
        let qp = peer.qp;
        peer.station().post(qp, id, SendOp::Read(remote), 64);
        self.run();
    }

    /// Makes the uplink take frames again.
    fn empty(&mut self, uplink: usize) {
        self.wires[uplink].set_full(false);
        self.host.make_room(UplinkId(uplink as u32));
        self.run();
    }

    /// Moves everything that moves without time passing.
    fn run(&mut self) {
        let mut moved = true;
        while moved {
            moved = false;
            run(&mut self.host, NOW);
            for (wire, peer) in self.wires.iter().zip(&mut self.peers) {
                moved |= wire.move_to(&peer.wire);
                run(&mut peer.host, NOW);
                moved |= peer.wire.move_to(wire);
            }
        }
    }

    /// Writes to a full uplink until a write has to wait for it.
    fn fill(&mut self, uplink: usize) {
        self.wires[uplink].set_full(true);
        self.write(uplink, 100);
        self.write(uplink, 101);
        let waiting = self.wires[uplink].waiting_frames();
        assert_eq!(waiting, 1, "the second one waits in its queue pair");
    }

    fn completed(&mut self) -> Vec<(u64, Status)> {
        station(&mut self.host, self.port).completed()
    }
}

const DONE: Status = Status::Success;

#[test]
fn a_full_uplink_holds_up_nobody_who_leaves_by_another() {
    let mut fork = Fork::new();
    fork.fill(0);
    fork.write(1, 7);
    assert_eq!(fork.completed(), [(7, DONE)]);
    fork.empty(0);
    assert_eq!(fork.completed(), [(100, DONE), (101, DONE)]);
}

#[test]
fn answers_wait_for_their_own_uplink_alone() {
    let mut fork = Fork::new();
    fork.fill(0);
    fork.let_read(0, 8);
    fork.let_read(1, 9);
    assert_eq!(fork.wires[0].waiting_frames(), 1);
    assert_eq!(fork.peers[1].station().completed(), [(9, DONE)]);
    assert_eq!(fork.peers[0].station().completed(), []);
    fork.empty(0);
    assert_eq!(fork.peers[0].station().completed(), [(8, DONE)]);
}

#[test]
fn who_waits_for_an_uplink_that_goes_away_tries_the_others() {
    let mut fork = Fork::new();
    fork.fill(0);
    fork.host.remove_uplink(UplinkId(0));
    let known = fork.host.knows(fork.port, gid(1), gid(2), NOW);
    assert!(!known, "nobody was heard behind another one");
    run(&mut fork.host, NOW);
    let sent = fork.wires[1].take_sent();
    let asks = |frame: &Vec<u8>| frame[12..14] == [8, 6];
    assert!(sent.iter().any(|(_, frame)| asks(frame)));
    assert!(sent.iter().any(|(_, frame)| !asks(frame)));
}

#[test]
fn who_leaves_by_every_uplink_waits_for_each() {
    let mut host = Carrier::new(1);
    let port = add(&mut host, 1, 0);
    let wires = [0, 1].map(|id| add_uplink(&mut host, id));
    let mut peer = Peer::new(2);
    let qp = station(&mut host, port).create_qp();
    let name = (peer.qp, peer.station());
    station(&mut host, port).connect(qp, name.1.name(name.0));
    let remote = peer.station().remote();
    wires[1].set_full(true);
    for id in 0..2 {
        let station = station(&mut host, port);
        station.post(qp, id, SendOp::Write(remote), 64);
        run(&mut host, NOW);
    }
    let flooded = wires[0].take_sent().len();
    assert_eq!((flooded, wires[1].waiting_frames()), (1, 1));
}
