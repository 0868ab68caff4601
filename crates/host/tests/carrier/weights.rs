//! Shares of stations that always have more to send than they may.

use std::num::NonZeroU32;
use std::sync::Arc;

use vrdma_switch::{Policy, PortId};
use vrdma_verbs::Time;

use crate::world::*;

const NOW: Time = Time(1_000_000_000_000);

/// Adds a station with several queue pairs, each to a station of its own.
fn tenant(host: &mut Carrier, number: u8, length: u32) -> [Greedy; 4] {
    let from = add(host, number, 0);
    [1, 2, 3, 4].map(|peer| {
        let to = add(host, number + peer, 0);
        Greedy::between(host, [from, to], length)
    })
}

fn set_weight(host: &mut Carrier, port: PortId, weight: u32) {
    let weight = NonZeroU32::new(weight).unwrap();
    station(host, port).policy.set_weight(weight);
}

/// Returns the bytes that tenants have moved after `turns` turns.
fn moved<const N: usize>(
    host: &mut Carrier,
    tenants: &mut [[Greedy; 4]; N],
    turns: usize,
) -> [u64; N] {
    let sum = |tenant: &[Greedy; 4]| tenant.iter().map(|it| it.moved).sum::<u64>();
    let before = tenants.each_ref().map(sum);
    for _ in 0..turns {
        host.turn(NOW);
        for greedy in tenants.iter_mut().flatten() {
            greedy.go_on(host);
        }
    }
    std::array::from_fn(|at| sum(&tenants[at]) - before[at])
}

fn assert_shares(moved: &[u64], weights: &[u64]) {
    let whole: u64 = moved.iter().sum::<u64>() / weights.iter().sum::<u64>();
    for (moved, weight) in moved.iter().zip(weights) {
        let due = whole * weight;
        assert!(moved.abs_diff(due) <= due / 20, "{moved} of {due} due");
    }
}

#[test]
fn two_greedy_stations_share_by_weight_in_bytes_and_in_small_messages() {
    for lengths in [[256 << 10; 2], [8; 2], [1 << 20, 64 << 10]] {
        let mut host = Carrier::new(1);
        let mut numbers = [1, 11].into_iter().zip(lengths);
        let mut tenants = [(); 2].map(|()| {
            let (number, length) = numbers.next().unwrap();
            tenant(&mut host, number, length)
        });
        assert_shares(&moved(&mut host, &mut tenants, 600), &[1, 1]);
        set_weight(&mut host, tenants[1][0].port, 3);
        moved(&mut host, &mut tenants, 10);
        assert_shares(&moved(&mut host, &mut tenants, 2000), &[1, 3]);
        set_weight(&mut host, tenants[0][0].port, 9);
        moved(&mut host, &mut tenants, 10);
        assert_shares(&moved(&mut host, &mut tenants, 2000), &[3, 1]);
    }
}

#[test]
fn the_weight_of_who_does_not_want_more_costs_the_others_nothing() {
    let mut host = Carrier::new(1);
    let mut tenants = [tenant(&mut host, 1, 256 << 10)];
    let alone = moved(&mut host, &mut tenants, 400);
    let idle = add(&mut host, 11, 0);
    set_weight(&mut host, idle, 100);
    host.touch(idle, NOW).unwrap().doorbells = vrdma_host::Doorbells::Polled;
    let beside = moved(&mut host, &mut tenants, 400);
    assert_shares(&[alone[0], beside[0]], &[1, 1]);
}

#[test]
fn a_light_stations_message_waits_no_longer_beside_heavy_ones() {
    let mut host = Carrier::new(1);
    let mut tenants = [
        tenant(&mut host, 1, 256 << 10),
        tenant(&mut host, 11, 256 << 10),
    ];
    set_weight(&mut host, tenants[0][0].port, 100);
    moved(&mut host, &mut tenants, 20);
    let [from, to] = [21, 22].map(|number| add(&mut host, number, 0));
    let qp = connect(&mut host, from, to)[0];
    let remote = station(&mut host, to).remote();
    for id in 0..50 {
        let write = vrdma_verbs::work::SendOp::Write(remote);
        station(&mut host, from).post(qp, id, write, 64);
        moved(&mut host, &mut tenants, 2);
        assert_eq!(
            station(&mut host, from).completed().len(),
            1,
            "message {id}"
        );
    }
}

/// Makes a port group's policy, and stations of the group that each send to one station of their own.
fn group_of(
    host: &mut Carrier,
    group: u32,
    stations: std::ops::Range<u8>,
    length: u32,
) -> (Arc<Policy>, Vec<Greedy>) {
    let policy = Arc::<Policy>::default();
    let greedy = stations.map(|number| {
        let ports = [2 * number, 2 * number + 1];
        let ports = ports.map(|number| add_limited(host, number, group, &policy));
        // Enough to fill a whole turn, with messages of any length.
        [(); 3].map(|()| Greedy::between(host, ports, length))
    });
    let greedy = greedy.flatten().collect();
    (policy, greedy)
}

/// Returns the bytes that groups have moved after `turns` turns.
fn moved_of(host: &mut Carrier, groups: &mut [Vec<Greedy>; 2], turns: usize) -> [u64; 2] {
    let sum = |group: &Vec<Greedy>| group.iter().map(|it| it.moved).sum::<u64>();
    let before = groups.each_ref().map(sum);
    for _ in 0..turns {
        host.turn(NOW);
        groups.iter_mut().flatten().for_each(|greedy| {
            greedy.go_on(host);
        });
    }
    std::array::from_fn(|at| sum(&groups[at]) - before[at])
}

#[test]
fn two_port_groups_share_by_weight_however_many_stations_they_have() {
    for length in [256 << 10, 8] {
        for stations in [[1..2, 10..11], [1..13, 20..21], [1..3, 20..33]] {
            let mut host = Carrier::new(1);
            let mut numbers = (0..).zip(stations);
            let [(light, a), (heavy, b)] = [(); 2].map(|()| {
                let (group, stations) = numbers.next().unwrap();
                group_of(&mut host, group, stations, length)
            });
            let mut groups = [a, b];
            moved_of(&mut host, &mut groups, 50);
            assert_shares(&moved_of(&mut host, &mut groups, 1500), &[1, 1]);
            heavy.set_weight(NonZeroU32::new(3).unwrap());
            moved_of(&mut host, &mut groups, 50);
            assert_shares(&moved_of(&mut host, &mut groups, 3000), &[1, 3]);
            light.set_weight(NonZeroU32::new(9).unwrap());
            moved_of(&mut host, &mut groups, 50);
            assert_shares(&moved_of(&mut host, &mut groups, 3000), &[3, 1]);
        }
    }
}

#[test]
fn the_stations_of_a_group_share_what_it_has_by_their_own_weights() {
    let mut host = Carrier::new(1);
    let (_, mut a) = group_of(&mut host, 0, 1..3, 64 << 10);
    let (heavy, b) = group_of(&mut host, 1, 10..11, 64 << 10);
    heavy.set_weight(NonZeroU32::new(2).unwrap());
    set_weight(&mut host, a[0].port, 3);
    let second = a.split_off(3);
    let mut all = [a, second, b];
    let mut turns = |turns| {
        let before = all.each_ref().map(|of| of.iter().map(|it| it.moved).sum());
        for _ in 0..turns {
            host.turn(NOW);
            all.iter_mut().flatten().for_each(|greedy| {
                greedy.go_on(&mut host);
            });
        }
        let after = all
            .each_ref()
            .map(|of| of.iter().map(|it| it.moved).sum::<u64>());
        let before: [u64; 3] = before;
        [0, 1, 2].map(|at: usize| after[at] - before[at])
    };
    turns(50);
    assert_shares(&turns(3000), &[3, 1, 8]);
}

#[test]
fn a_message_of_a_group_that_was_silent_waits_for_one_visit_of_a_heavy_one() {
    let mut host = Carrier::new(1);
    let (heavy, crowd) = group_of(&mut host, 0, 1..20, 256 << 10);
    heavy.set_weight(NonZeroU32::new(100).unwrap());
    let mut groups = [crowd, Vec::new()];
    moved_of(&mut host, &mut groups, 20);
    let [from, to] = [101, 102].map(|number| add(&mut host, number, 1));
    let qp = connect(&mut host, from, to)[0];
    let remote = station(&mut host, to).remote();
    host.turn(NOW);
    for id in 0..50 {
        let write = vrdma_verbs::work::SendOp::Write(remote);
        station(&mut host, from).post(qp, id, write, 64);
        moved_of(&mut host, &mut groups, 1);
        let done = station(&mut host, from).completed();
        assert_eq!(done.len(), 1, "message {id}");
    }
}
