//! Stations of one host.

use vrdma_host::Datagram;
use vrdma_switch::{NoRoute, Untaken};
use vrdma_verbs::Time;
use vrdma_verbs::work::{Remote, SendOp, Status};
use vrdma_wire::{MAD_LEN, Pkey, Qpn};

use crate::world::*;

const NOW: Time = Time(0);

#[test]
fn a_write_goes_from_memory_to_memory() {
    let mut host = Carrier::new(1);
    let (a, b) = (add(&mut host, 1, 0), add(&mut host, 2, 0));
    let qps = connect(&mut host, a, b);
    let remote = station(&mut host, b).remote();
    station(&mut host, a).memory.fill(0, 0x5a);
    station(&mut host, a).post(qps[0], 7, SendOp::Write(remote), REGION_BYTES as u32);
    run(&mut host, NOW);
    assert_eq!(station(&mut host, a).completed(), [(7, Status::Success)]);
    assert_eq!(
        station(&mut host, b).memory.bytes(0),
        vec![0x5a; REGION_BYTES]
    );
}

#[test]
fn long_messages_leave_room_for_short_ones_in_each_turn() {
    const MESSAGES: u64 = 20;
    let mut host = Carrier::new(1);
    let stations = [1, 2, 3, 4].map(|number| add(&mut host, number, 0));
    let [greedy, of_greedy, small, of_small] = stations;
    let long = connect(&mut host, greedy, of_greedy)[0];
    let short = connect(&mut host, small, of_small)[0];
    let to = station(&mut host, of_greedy).remote();
    for id in 0..MESSAGES {
        let length = REGION_BYTES as u32;
        station(&mut host, greedy).post(long, id, SendOp::Write(to), length);
    }
    let to = station(&mut host, of_small).remote();
    let (mut turns, mut written) = (0, 0);
    while written < MESSAGES as usize {
        station(&mut host, small).post(short, turns, SendOp::Write(to), 64);
        host.turn(NOW);
        let done = station(&mut host, small).completed();
        assert_eq!(done, [(turns, Status::Success)], "within the turn");
        written += station(&mut host, greedy).completed().len();
        turns += 1;
    }
    let bytes = MESSAGES * REGION_BYTES as u64;
    let least = bytes / (64 << 10) - 8;
    assert!(turns >= least, "{turns} turns, 64 KiB each");
}

#[test]
fn of_acknowledgements_in_a_row_the_last_one_is_heard() {
    let mut host = Carrier::new(1);
    let (a, b) = (add(&mut host, 1, 0), add(&mut host, 2, 0));
    let qps = connect(&mut host, a, b);
    let remote = station(&mut host, b).remote();
    for id in 0..20 {
        station(&mut host, a).post(qps[0], id, SendOp::Write(remote), 64);
    }
    host.turn(NOW);
    let done: Vec<_> = (0..20).map(|id| (id, Status::Success)).collect();
    assert_eq!(station(&mut host, a).completed(), done);
    assert_eq!(station(&mut host, a).answers, 1);
}

#[test]
fn data_and_refusals_are_heard_in_their_turn() {
    let mut host = Carrier::new(1);
    let (a, b) = (add(&mut host, 1, 0), add(&mut host, 2, 0));
    let qps = connect(&mut host, a, b);
    let right = station(&mut host, b).remote();
    let wrong = Remote { addr: 0, ..right };
    station(&mut host, b).memory.fill(0, 0x5a);
    let requests = [
        SendOp::Write(right),
        SendOp::Write(right),
        SendOp::Read(right),
        SendOp::Write(right),
        SendOp::Write(wrong),
        SendOp::Write(right),
    ];
    for (id, op) in (0..).zip(requests) {
        station(&mut host, a).post(qps[0], id, op, 64);
    }
    run(&mut host, NOW);
    let mut expected: Vec<_> = (0..4).map(|id| (id, Status::Success)).collect();
    expected.extend([(4, Status::RemAccess), (5, Status::WrFlush)]);
    assert_eq!(station(&mut host, a).completed(), expected);
    // Answers: two for writes, READ data, one for a write, a refusal.
    assert_eq!(station(&mut host, a).answers, 4);
}

#[test]
fn requests_to_two_peers_in_turns_all_arrive() {
    let mut host = Carrier::new(1);
    let [a, b, c] = [1, 2, 3].map(|number| add(&mut host, number, 0));
    let to_b = connect(&mut host, a, b)[0];
    let to_c = connect(&mut host, a, c)[0];
    let remotes = [b, c].map(|port| station(&mut host, port).remote());
    for id in 0..30 {
        station(&mut host, a).post(to_b, id, SendOp::Write(remotes[0]), 64);
        station(&mut host, a).post(to_c, 100 + id, SendOp::Write(remotes[1]), 64);
    }
    run(&mut host, NOW);
    let done = station(&mut host, a).completed();
    for first in [0, 100] {
        let of_peer = done.iter().filter(|(id, _)| id / 100 == first / 100);
        let expected: Vec<_> = (first..first + 30)
            .map(|id| (id, Status::Success))
            .collect();
        assert_eq!(of_peer.copied().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_station_reaches_itself() {
    let mut host = Carrier::new(1);
    let a = add(&mut host, 1, 0);
    let qps = connect(&mut host, a, a);
    let remote = station(&mut host, a).remote();
    station(&mut host, a).post(qps[0], 1, SendOp::Read(remote), 100);
    run(&mut host, NOW);
    assert_eq!(station(&mut host, a).completed(), [(1, Status::Success)]);
}

#[test]
fn groups_do_not_reach_each_other() {
    let mut host = Carrier::new(1);
    let (a, b) = (add(&mut host, 1, 0), add(&mut host, 2, 1));
    let qps = connect(&mut host, a, b);
    let remote = station(&mut host, b).remote();
    station(&mut host, a).memory.fill(0, 0x5a);
    station(&mut host, a).post(qps[0], 1, SendOp::Write(remote), 64);
    run(&mut host, NOW);
    assert_eq!(station(&mut host, a).completed(), []);
    assert_eq!(station(&mut host, b).memory.bytes(0)[0], 0);
    let drops: Vec<_> = host.drops(a).collect();
    assert_eq!(drops, [(NoRoute::Isolated, 1)]);
    assert_eq!(host.drops(b).count(), 0);
}

#[test]
fn a_removed_station_is_no_destination() {
    let mut host = Carrier::new(1);
    let (a, b) = (add(&mut host, 1, 0), add(&mut host, 2, 0));
    let qps = connect(&mut host, a, b);
    let remote = station(&mut host, b).remote();
    assert!(host.remove(b).is_some());
    assert!(host.remove(b).is_none());
    station(&mut host, a).post(qps[0], 1, SendOp::Write(remote), 64);
    run(&mut host, NOW);
    assert_eq!(station(&mut host, a).completed(), []);
    assert_eq!(add(&mut host, 2, 0), b, "its number is free again");
}

#[test]
fn datagrams_of_management_are_handed_to_the_owner() {
    let mut host = Carrier::new(1);
    let (a, b) = (add(&mut host, 1, 0), add(&mut host, 2, 0));
    let sent = Datagram {
        port: a,
        local: gid(1),
        remote: gid(2),
        qpn: Qpn::GSI,
        pkey: Pkey::DEFAULT,
        bytes: [0x11; MAD_LEN],
    };
    host.send_datagram(&sent, NOW);
    let expected = Datagram {
        port: b,
        local: gid(2),
        remote: gid(1),
        ..sent.clone()
    };
    assert_eq!(host.next_datagram(), Some(expected));
    assert_eq!(host.next_datagram(), None);
    station(&mut host, b).has_gsi = true;
    host.send_datagram(&sent, NOW);
    assert_eq!(host.next_datagram(), None, "its engine has it");
}

#[test]
fn datagrams_that_nobody_takes_are_bounded() {
    let mut host = Carrier::new(1);
    let a = add(&mut host, 1, 0);
    let sent = Datagram {
        port: a,
        local: gid(1),
        remote: gid(1),
        qpn: Qpn::GSI,
        pkey: Pkey::DEFAULT,
        bytes: [0; MAD_LEN],
    };
    (0..2000).for_each(|_| host.send_datagram(&sent, NOW));
    let taken = std::iter::from_fn(|| host.next_datagram()).count();
    assert_eq!(taken, 1024);
    let lost: Vec<_> = host.untaken(a).collect();
    assert_eq!(lost, [(Untaken::NoRoom, 2000 - 1024)]);
}
