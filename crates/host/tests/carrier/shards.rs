//! Several shards of one daemon: what goes from one to another, and members that move.

mod crossing;
mod notices;
mod short;
mod uplinks;

use std::time::Duration;

use vrdma_host::{Among, Datagram, Lane, ShardId, Transfer};
use vrdma_switch::{Limit, PortId};
use vrdma_verbs::Time;
use vrdma_verbs::object::QpId;
use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::{MAD_LEN, Pkey, Qpn};

use crate::world::*;
use crossing::*;

const NOW: Time = Time(0);

/// Bytes: more than a request takes along to another shard.
const LONG: u32 = 65;

const SHARDS: u16 = 2;

#[test]
fn a_write_crosses() {
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    crossing.station(0).memory.fill(0, 0x5a);
    crossing.post(7, SendOp::Write(remote), REGION_BYTES as u32);
    run_all(&mut crossing.hosts);
    assert_eq!(crossing.station(0).completed(), [(7, Status::Success)]);
    let written = crossing.station(1).memory.bytes(0);
    assert!(written.iter().all(|byte| *byte == 0x5a));
}

#[test]
fn a_read_crosses() {
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    crossing.station(1).memory.fill(0, 0x77);
    crossing.post(7, SendOp::Read(remote), REGION_BYTES as u32);
    run_all(&mut crossing.hosts);
    assert_eq!(crossing.station(0).completed(), [(7, Status::Success)]);
    let read = crossing.station(0).memory.bytes(0);
    assert!(read.iter().all(|byte| *byte == 0x77));
}

#[test]
fn memory_is_read_elsewhere_until_the_answer_is_back() {
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    crossing.post(1, SendOp::Write(remote), LONG);
    let port = crossing.ports[0];
    assert!(crossing.hosts[0].is_quiet(port));
    crossing.hosts[0].turn(NOW);
    assert!(!crossing.hosts[0].is_quiet(port), "it is on its way");
    crossing.hosts[0].hold(port);
    crossing.post(2, SendOp::Write(remote), LONG);
    crossing.hosts[0].turn(NOW);
    let mut units = 0;
    let [near, far] = &mut crossing.hosts;
    while move_some(near, far, Lane::Units, &mut units) {}
    assert_eq!(units, 1, "who is held sends nothing more");
    move_transfers(&mut crossing.hosts, Lane::Answers);
    assert!(crossing.hosts[0].is_quiet(port));
    crossing.hosts[0].release(port);
    run_all(&mut crossing.hosts);
    let done = crossing.station(0).completed();
    assert_eq!(done, [(1, Status::Success), (2, Status::Success)]);
}

#[test]
fn a_full_lane_holds_up_its_senders_until_there_is_room() {
    const MESSAGES: u64 = 100;
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    for id in 0..MESSAGES {
        crossing.post(id, SendOp::Write(remote), REGION_BYTES as u32);
    }
    for _ in 0..2000 {
        crossing.hosts[0].turn(NOW);
    }
    let [near, far] = &mut crossing.hosts;
    let mut count = 0;
    while move_some(near, far, Lane::Units, &mut count) {}
    assert!((256..=320).contains(&count), "{count} waited");
    run_all(&mut crossing.hosts);
    let done = crossing.station(0).completed();
    assert_eq!(done.len() as u64, MESSAGES);
    assert!(done.iter().all(|(_, status)| *status == Status::Success));
}

#[test]
fn a_limit_of_another_shards_station_holds_up_who_sends_there() {
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    limit(
        &mut crossing.hosts[1],
        crossing.ports[1],
        Limit::InBits,
        1_000_000_000,
    );
    for id in 0..100 {
        crossing.post(id, SendOp::Write(remote), 64 << 10);
    }
    run_all(&mut crossing.hosts);
    let done = crossing.station(0).completed().len();
    assert!((7..10).contains(&done), "{done}: 4 ms worth of the rate");
    limit(&mut crossing.hosts[1], crossing.ports[1], Limit::InBits, 0);
    let due = crossing.hosts[0].next_deadline().unwrap();
    assert!(due <= NOW + Duration::from_millis(4));
    crossing.hosts[0].turn(due);
    run_all(&mut crossing.hosts);
    assert_eq!(crossing.station(0).completed().len(), 100 - done);
}

#[test]
fn who_waits_for_a_limit_goes_on_where_it_has_moved() {
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    limit(
        &mut crossing.hosts[1],
        crossing.ports[1],
        Limit::InBits,
        1_000_000_000,
    );
    for id in 0..20 {
        crossing.post(id, SendOp::Write(remote), 64 << 10);
    }
    run_all(&mut crossing.hosts);
    let port = crossing.ports[0];
    let member = crossing.hosts[0].send_away(port, ShardId(1)).unwrap();
    limit(&mut crossing.hosts[1], crossing.ports[1], Limit::InBits, 0);
    crossing.hosts[1].adopt(attachment(&member, 1, 0), member, NOW);
    run_all(&mut crossing.hosts);
    let done = station(&mut crossing.hosts[1], port).completed();
    assert_eq!(done.len(), 20);
}

#[test]
fn a_request_for_who_is_gone_is_given_back() {
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    crossing.post(1, SendOp::Write(remote), LONG);
    crossing.hosts[0].turn(NOW);
    let port = crossing.ports[1];
    crossing.hosts[1].remove(port);
    run_all(&mut crossing.hosts);
    assert!(crossing.hosts[0].is_quiet(crossing.ports[0]));
    assert_eq!(crossing.station(0).completed(), []);
}

#[test]
fn a_number_that_is_somebody_elses_by_now_gets_nothing() {
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    crossing.station(0).memory.fill(0, 0x5a);
    crossing.post(1, SendOp::Write(remote), LONG);
    crossing.hosts[0].turn(NOW);
    let port = crossing.ports[1];
    let member = crossing.hosts[1].remove(port).unwrap();
    let elsewhere = attachment(&member, 2, 9);
    crossing.hosts[1].add(elsewhere, member).unwrap();
    run_all(&mut crossing.hosts);
    assert_eq!(crossing.station(1).memory.bytes(0)[0], 0, "another group");
    assert!(crossing.hosts[0].is_quiet(crossing.ports[0]));
}

#[test]
fn a_member_that_moves_loses_nothing() {
    const MESSAGES: u64 = 600;
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    let port = crossing.ports[1];
    for round in 0..MESSAGES {
        crossing.post(round, SendOp::Write(remote), 8);
        let (from, to) = ((round % 2) as usize, ((round + 1) % 2) as usize);
        let (from, to) = (1 - from, 1 - to);
        crossing.hosts[0].turn(NOW);
        let member = crossing.hosts[from]
            .send_away(port, ShardId(to as u16))
            .unwrap();
        move_transfers(&mut crossing.hosts, Lane::Units);
        let at = attachment(&member, 2, 0);
        crossing.hosts[to].adopt(at, member, NOW);
        move_transfers(&mut crossing.hosts, Lane::Answers);
    }
    run_all(&mut crossing.hosts);
    let done = crossing.station(0).completed();
    let expected: Vec<_> = (0..MESSAGES).map(|id| (id, Status::Success)).collect();
    assert_eq!(done, expected);
}

#[test]
fn datagrams_of_management_go_to_and_from_the_first_shard() {
    let mut crossing = Crossing::new();
    let [a, b] = crossing.ports;
    let sent = |port, from, to| Datagram {
        port,
        local: gid(from),
        remote: gid(to),
        qpn: Qpn::GSI,
        pkey: Pkey::DEFAULT,
        bytes: [0x11; MAD_LEN],
    };
    for (port, from, to, reached) in [(a, 1, 2, b), (b, 2, 1, a)] {
        crossing.hosts[0].send_datagram(&sent(port, from, to), NOW);
        run_all(&mut crossing.hosts);
        let came = crossing.hosts[0].next_datagram();
        assert_eq!(came, Some(sent(reached, to, from)));
    }
    assert_eq!(crossing.hosts[1].next_datagram(), None);
}

#[test]
fn packets_of_uplinks_reach_members_of_every_shard() {
    let mut near = shards();
    let wires = [0, 1].map(|at| add_uplink(&mut near[at], 0));
    let b = add(&mut near[1], 2, 0);
    move_transfers(&mut near, Lane::Answers);
    let mut far = Carrier::new(1);
    let wire = add_uplink(&mut far, 0);
    let c = add(&mut far, 3, 0);
    let qps = [
        station(&mut near[1], b).create_qp(),
        station(&mut far, c).create_qp(),
    ];
    let names = [
        station(&mut near[1], b).name(qps[0]),
        station(&mut far, c).name(qps[1]),
    ];
    station(&mut near[1], b).connect(qps[0], names[1]);
    station(&mut far, c).connect(qps[1], names[0]);
    let remote = station(&mut near[1], b).remote();
    station(&mut far, c).memory.fill(0, 0x5a);
    station(&mut far, c).post(qps[1], 1, SendOp::Write(remote), 5000);
    for _ in 0..50 {
        run(&mut far, NOW);
        wire.move_to(&wires[0]);
        run_all(&mut near);
        wires[0].move_to(&wire);
        wires[1].move_to(&wire);
    }
    let written = station(&mut near[1], b).memory.bytes(0);
    assert!(written[..5000].iter().all(|byte| *byte == 0x5a));
    assert_eq!(station(&mut far, c).completed(), [(1, Status::Success)]);
}

#[test]
fn long_units_of_another_shard_are_taken_a_quantum_a_turn() {
    const MESSAGES: u64 = 10;
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    for id in 0..MESSAGES {
        crossing.post(id, SendOp::Write(remote), REGION_BYTES as u32);
    }
    for _ in 0..1000 {
        crossing.hosts[0].turn(NOW);
    }
    let [near, far] = &mut crossing.hosts;
    let (mut turns, mut units) = (0, 0);
    while move_some(near, far, Lane::Units, &mut units) {
        turns += 1;
    }
    let bytes = MESSAGES * REGION_BYTES as u64;
    let least = bytes / (64 << 10) - 8;
    assert!(
        turns >= least,
        "{units} units in {turns} turns, 64 KiB each"
    );
}

#[test]
fn a_number_whose_member_went_is_quiet_once_nobody_reads_its_memory() {
    let mut crossing = Crossing::new();
    let remote = crossing.station(1).remote();
    crossing.post(1, SendOp::Write(remote), LONG);
    crossing.hosts[0].turn(NOW);
    let port = crossing.ports[0];
    assert!(crossing.hosts[0].remove(port).is_some());
    assert!(
        !crossing.hosts[0].is_quiet(port),
        "the other shard reads it"
    );
    run_all(&mut crossing.hosts);
    assert!(crossing.hosts[0].is_quiet(port), "for who gets it next");
}
