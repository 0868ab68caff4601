//! What a station with a limit sends, and what its neighbours notice.

use std::num::NonZeroU64;
use std::time::Duration;

use vrdma_switch::{Limit, PortId};
use vrdma_verbs::Time;
use vrdma_verbs::work::{SendOp, Status};

use crate::world::*;

const NOW: Time = Time(1_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);
const GIGABIT: u64 = 1_000_000_000;

#[test]
fn a_limit_is_kept_and_changed_while_it_works() {
    let mut host = Carrier::new(1);
    let mut greedy = Greedy::new(&mut host, [1, 2], 64 << 10);
    limit(&mut host, greedy.port, Limit::OutBits, GIGABIT);
    assert_near(greedy.moved_in(&mut host, NOW, SECOND), GIGABIT);
    limit(&mut host, greedy.port, Limit::OutBits, GIGABIT / 10);
    let later = NOW + SECOND;
    assert_near(greedy.moved_in(&mut host, later, SECOND), GIGABIT / 10);
    let waits = station(&mut host, greedy.port).policy.effects(&Limit::OUT);
    assert!(waits.waits > 1000, "{waits:?}");
    assert!(waits.waited_ns > 1_500_000_000, "{waits:?}");
}

#[test]
fn small_messages_are_limited_by_the_same_bits() {
    let mut host = Carrier::new(1);
    let mut greedy = Greedy::new(&mut host, [1, 2], 256);
    limit(&mut host, greedy.port, Limit::OutBits, GIGABIT / 100);
    assert_near(greedy.moved_in(&mut host, NOW, SECOND), GIGABIT / 100);
}

#[test]
fn who_waits_for_its_limit_costs_a_turn_by_a_timer_and_no_other() {
    let mut host = Carrier::new(1);
    let mut greedy = Greedy::new(&mut host, [1, 2], 64 << 10);
    limit(&mut host, greedy.port, Limit::OutBits, GIGABIT);
    run(&mut host, NOW);
    let looks = |host: &Carrier| host.member(PortId(1)).unwrap().polls;
    let before = looks(&host);
    for _ in 0..10 {
        assert!(!host.turn(NOW), "nothing moves");
    }
    assert_eq!(looks(&host), before);
    greedy.go_on(&mut host);
    let due = host.next_deadline().unwrap();
    assert!(due.since(NOW) <= Duration::from_millis(4));
}

#[test]
fn a_wait_is_counted_once_however_often_its_member_is_looked_at() {
    let mut host = Carrier::new(1);
    let greedy = Greedy::new(&mut host, [1, 2], 64 << 10);
    limit(&mut host, greedy.port, Limit::OutBits, GIGABIT);
    run(&mut host, NOW);
    let before = station(&mut host, greedy.port).policy.effects(&Limit::OUT);
    for _ in 0..100 {
        host.wake(greedy.port);
        host.turn(NOW);
    }
    assert_eq!(
        station(&mut host, greedy.port).policy.effects(&Limit::OUT),
        before
    );
}

#[test]
fn a_limited_neighbour_slows_nobody() {
    let mut host = Carrier::new(1);
    let greedy = Greedy::new(&mut host, [1, 2], 64 << 10);
    limit(&mut host, greedy.port, Limit::OutBits, GIGABIT);
    run(&mut host, NOW);
    let [small, of_small] = [3, 4].map(|number| add(&mut host, number, 0));
    let qp = connect(&mut host, small, of_small)[0];
    let to = station(&mut host, of_small).remote();
    for id in 0..100 {
        station(&mut host, small).post(qp, id, SendOp::Write(to), 64);
        host.turn(NOW);
        let done = station(&mut host, small).completed();
        assert_eq!(done, [(id, Status::Success)], "within the turn");
    }
}

#[test]
fn who_has_no_limit_any_more_goes_on() {
    let mut host = Carrier::new(1);
    let mut greedy = Greedy::new(&mut host, [1, 2], 64 << 10);
    limit(&mut host, greedy.port, Limit::OutBits, 400_000);
    run(&mut host, NOW);
    greedy.go_on(&mut host);
    let before = greedy.moved;
    limit(&mut host, greedy.port, Limit::OutBits, 0);
    let due = host.next_deadline().unwrap();
    assert!(due.since(NOW) <= Duration::from_millis(4));
    run(&mut host, due);
    greedy.go_on(&mut host);
    assert!(greedy.moved >= before + 30 * (64 << 10));
}

#[test]
fn frames_count_with_their_headers() {
    let mut hosts = [1, 2].map(Carrier::new);
    let wires = [0, 1].map(|at: usize| add_uplink(&mut hosts[at], 0));
    let ports = [0, 1].map(|at: usize| add(&mut hosts[at], at as u8 + 1, 0));
    let qps = [0, 1].map(|at| station(&mut hosts[at], ports[at]).create_qp());
    let names = [0, 1].map(|at| station(&mut hosts[at], ports[at]).name(qps[at]));
    for at in 0..2 {
        station(&mut hosts[at], ports[at]).connect(qps[at], names[1 - at]);
    }
    let remote = station(&mut hosts[1], ports[1]).remote();
    let [first, second] = &mut hosts;
    let policy = std::sync::Arc::clone(&station(first, ports[0]).policy);
    policy.set_rate(Limit::OutBits, NonZeroU64::new(GIGABIT / 10));
    let (mut now, mut sent) = (NOW, 0);
    (0..32).for_each(|id| station(first, ports[0]).post(qps[0], id, SendOp::Write(remote), 16384));
    while now < NOW + SECOND {
        run(first, now);
        let frames = wires[0].take_sent();
        sent += frames
            .iter()
            .map(|(_, frame)| frame.len() as u64)
            .sum::<u64>();
        frames.into_iter().for_each(|frame| wires[1].arrive(frame));
        run(second, now);
        wires[1].move_to(&wires[0]);
        run(first, now);
        for (id, _) in station(first, ports[0]).completed() {
            station(first, ports[0]).post(qps[0], id, SendOp::Write(remote), 16384);
        }
        now = now + Duration::from_micros(100);
    }
    assert_near(sent, GIGABIT / 10);
}
