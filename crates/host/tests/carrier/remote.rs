//! Stations of two hosts, and uplinks that are full.

use std::time::Duration;

use vrdma_host::{Event, Segment};
use vrdma_switch::{GroupId, Neighbour, PortId, UplinkId};
use vrdma_verbs::Time;
use vrdma_verbs::object::QpId;
use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::{Mtu, Packet};

use crate::world::*;

const NOW: Time = Time(0);

/// Two hosts with a station each, one wire, and a connection.
struct Pair {
    hosts: [Carrier; 2],
    wires: [Wire; 2],
    ports: [PortId; 2],
    qps: [QpId; 2],
}

impl Pair {
    fn new() -> Self {
        let mut hosts = [Carrier::new(1), Carrier::new(2)];
        let ports = [add(&mut hosts[0], 1, 0), add(&mut hosts[1], 2, 0)];
        let wires = hosts.each_mut().map(|host| add_uplink(host, 0));
        let [a, b] = &mut hosts;
        let stations = [station(a, ports[0]), station(b, ports[1])];
        let [a, b] = stations;
        let qps = [a.create_qp(), b.create_qp()];
        let names = [a.name(qps[0]), b.name(qps[1])];
        a.connect(qps[0], names[1]);
        b.connect(qps[1], names[0]);
        Self {
            hosts,
            wires,
            ports,
            qps,
        }
    }

    /// Moves everything that moves without time passing.
    fn run(&mut self, now: Time) {
        loop {
            self.hosts.iter_mut().for_each(|host| run(host, now));
            let [a, b] = &self.wires;
            let moved = [a.move_to(b), b.move_to(a)];
            if moved == [false, false] {
                return;
            }
        }
    }
}

#[test]
fn messages_cross_a_wire_in_both_directions() {
    let mut pair = Pair::new();
    let remote = station(&mut pair.hosts[1], pair.ports[1]).remote();
    let a = station(&mut pair.hosts[0], pair.ports[0]);
    a.memory.fill(0, 0x33);
    a.post(pair.qps[0], 1, SendOp::Write(remote), 200_000);
    pair.run(NOW);
    let b = station(&mut pair.hosts[1], pair.ports[1]);
    assert_eq!(b.memory.bytes(0)[..200_000], vec![0x33; 200_000]);
    b.memory.fill(0, 0x44);
    let a = station(&mut pair.hosts[0], pair.ports[0]);
    a.post(pair.qps[0], 2, SendOp::Read(remote), 200_000);
    pair.run(NOW);
    let a = station(&mut pair.hosts[0], pair.ports[0]);
    assert_eq!(a.completed(), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(a.memory.bytes(0)[..200_000], vec![0x44; 200_000]);
}

#[test]
fn what_is_traced_is_the_packets_of_both_directions() {
    let mut pair = Pair::new();
    let (host, clock) = (&mut pair.hosts[0], Duration::from_secs(1_000));
    assert_eq!(host.fetch_trace(pair.ports[0], clock, NOW), [0; 8]);
    let remote = station(&mut pair.hosts[1], pair.ports[1]).remote();
    let a = station(&mut pair.hosts[0], pair.ports[0]);
    a.post(pair.qps[0], 1, SendOp::Write(remote), 5000);
    pair.run(NOW);
    let trace = pair.hosts[0].fetch_trace(pair.ports[0], clock, NOW);
    let mut rest = &trace[8..];
    let mut lengths = Vec::new();
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let second = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        assert_eq!(second, 1_000);
        let length = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]) as usize;
        assert!(Packet::parse(&behind[..length]).is_ok());
        lengths.push(length);
        rest = &behind[length..];
    }
    let is_answer = |length: &usize| *length < 100;
    assert_eq!(lengths.iter().filter(|length| is_answer(length)).count(), 1);
    assert_eq!(lengths.len(), 6, "five packets and their acknowledgement");
}

#[test]
fn a_full_uplink_is_watched_for_room() {
    let mut pair = Pair::new();
    while pair.hosts[0].poll_event().is_some() {}
    pair.wires[0].set_full(true);
    let remote = station(&mut pair.hosts[1], pair.ports[1]).remote();
    let a = station(&mut pair.hosts[0], pair.ports[0]);
    a.post(pair.qps[0], 1, SendOp::Write(remote), 1 << 20);
    pair.run(NOW);
    let watch = |writable| Event::Watch {
        uplink: UplinkId(0),
        writable,
    };
    assert_eq!(pair.hosts[0].poll_event(), Some(watch(true)));
    pair.wires[0].set_full(false);
    pair.run(NOW);
    assert_eq!(pair.hosts[0].poll_event(), None, "nobody has said so");
    pair.hosts[0].make_room(UplinkId(0));
    pair.run(NOW);
    assert_eq!(pair.hosts[0].poll_event(), Some(watch(false)));
    let a = station(&mut pair.hosts[0], pair.ports[0]);
    assert_eq!(a.completed(), [(1, Status::Success)]);
}

#[test]
fn nobody_waits_long_for_a_full_uplink() {
    let mut pair = Pair::new();
    pair.wires[0].set_full(true);
    let remote = station(&mut pair.hosts[1], pair.ports[1]).remote();
    for id in 0..2 {
        let a = station(&mut pair.hosts[0], pair.ports[0]);
        a.post(pair.qps[0], id, SendOp::Write(remote), 64);
        run(&mut pair.hosts[0], NOW);
    }
    let host = &mut pair.hosts[0];
    assert!(!host.flush(NOW));
    let patience = Duration::from_secs(1);
    assert!(host.flush(NOW + patience), "they go on");
    assert!(!host.flush(NOW + patience));
}

#[test]
fn path_mtu_follows_the_uplinks_of_the_group() {
    let mut host = Carrier::new(1);
    let port = add(&mut host, 1, 0);
    assert_eq!(station(&mut host, port).mtu, Some(Mtu::B4096));
    add_uplink(&mut host, 0);
    assert_eq!(station(&mut host, port).mtu, Some(Mtu::B1024));
    let last = std::iter::from_fn(|| host.poll_event()).last();
    let mtu = Mtu::B1024;
    assert_eq!(last, Some(Event::PathMtu { port, mtu }));
    host.remove_uplink(UplinkId(0));
    assert_eq!(station(&mut host, port).mtu, Some(Mtu::B4096));
}

#[test]
fn an_unknown_station_is_asked_for_and_what_waited_is_sent() {
    let mut host = Carrier::new(1);
    let (port, wire) = (add(&mut host, 1, 0), add_uplink(&mut host, 0));
    let local = gid(1);
    let remote = gid(2);
    assert!(!host.knows(port, local, remote, NOW));
    host.flush(NOW);
    let asked = wire.take_sent();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1[12..14], [8, 6], "ARP");
    let neighbour = Neighbour {
        mac: vrdma_wire::Mac([0x52, 0x54, 0, 0, 0, 2]),
        uplink: UplinkId(0),
    };
    host.learn(GroupId(0), remote, neighbour, NOW);
    assert!(host.knows(port, local, remote, NOW));
}

#[test]
fn an_uplink_without_more_is_looked_at_once() {
    let mut host = Carrier::new(1);
    let wire = add_uplink(&mut host, 0);
    for (frames, looks) in [(0, 1), (1, 1), (BATCH - 1, 1), (BATCH, 2), (BATCH + 1, 2)] {
        for _ in 0..frames {
            wire.arrive((Segment::Untagged, vec![0; 60]));
        }
        let before = wire.looks();
        assert_eq!(host.take_from_uplinks(NOW), frames > 0);
        assert_eq!(wire.looks() - before, looks, "{frames} frames");
    }
}

/// Once B has answered several messages of A at once, it sends nothing before the answer, and one batch has both.
#[test]
fn an_acknowledgement_and_an_answer_leave_together() {
    let mut pair = Pair::new();
    let remotes = [0, 1].map(|side| station(&mut pair.hosts[side], pair.ports[side]).remote());
    let write = |pair: &mut Pair, side: usize| {
        let from = station(&mut pair.hosts[side], pair.ports[side]);
        from.post(pair.qps[side], 1, SendOp::Write(remotes[1 - side]), 8);
    };
    for _ in 0..6 {
        for side in [0, 1] {
            write(&mut pair, side);
            pair.run(NOW);
        }
    }
    write(&mut pair, 0);
    run(&mut pair.hosts[0], NOW);
    pair.wires[0].move_to(&pair.wires[1]);
    run(&mut pair.hosts[1], NOW);
    assert_eq!(pair.wires[1].take_sent().len(), 0, "it waits");
    write(&mut pair, 1);
    pair.hosts[1].turn(NOW);
    pair.hosts[1].flush(NOW);
    assert_eq!(pair.wires[1].take_sent().len(), 2);
}
