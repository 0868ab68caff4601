//! Which stations get a turn, and when.

use std::time::Duration;

use vrdma_host::Doorbells;
use vrdma_switch::PortId;
use vrdma_verbs::Time;
use vrdma_verbs::work::{SendOp, Status};
use vrdma_wire::Mtu;

use crate::world::*;

const NOW: Time = Time(1_000_000_000_000);

/// Adds this many stations to which nothing happens.
fn crowd(host: &mut Carrier, stations: u8) -> Vec<PortId> {
    let ports = (1..=stations).map(|number| add(host, number, 0)).collect();
    run(host, NOW);
    ports
}

fn looks(host: &Carrier, port: PortId) -> u32 {
    host.member(port).unwrap().polls
}

/// Makes a turn in which nothing moves; returns when the host wants the next one by itself.
fn rest(host: &mut Carrier, now: Time) -> Time {
    assert!(!host.turn(now) && !host.flush(now));
    host.next_deadline().unwrap()
}

#[test]
fn stations_that_nothing_happens_to_are_not_looked_at() {
    let mut host = Carrier::new(1);
    let ports = crowd(&mut host, 100);
    let before: Vec<_> = ports.iter().map(|port| looks(&host, *port)).collect();
    let (a, b) = (ports[3], ports[70]);
    let qps = connect(&mut host, a, b);
    let remote = host.touch(b, NOW).unwrap().remote();
    for id in 0..50 {
        let station = host.touch(a, NOW).unwrap();
        station.post(qps[0], id, SendOp::Write(remote), 64);
        run(&mut host, NOW);
    }
    for (port, before) in ports.iter().zip(before) {
        let active = [a, b].contains(port);
        assert_eq!(looks(&host, *port) > before, active, "{port:?}");
    }
    let mut timers = 0;
    while let Some(due) = host.next_deadline() {
        run(&mut host, due);
        timers += 1;
    }
    assert!(timers <= 4, "{timers} times, to give memory back");
}

#[test]
fn only_stations_that_something_happened_to_are_published() {
    let mut host = Carrier::new(1);
    let ports = crowd(&mut host, 20);
    let before: u32 = host.members().map(|(_, station)| station.published).sum();
    host.touch(ports[0], NOW);
    assert!(!host.turn(NOW));
    let after: u32 = host.members().map(|(_, station)| station.published).sum();
    assert_eq!(after, before + 1);
}

#[test]
fn a_time_out_gives_a_turn() {
    let mut host = Carrier::new(1);
    let (a, b) = (add(&mut host, 1, 0), add(&mut host, 2, 1));
    let qps = connect(&mut host, a, b);
    let remote = host.touch(b, NOW).unwrap().remote();
    let station = host.touch(a, NOW).unwrap();
    station.post(qps[0], 7, SendOp::Write(remote), 64);
    run(&mut host, NOW);
    let mut now = NOW;
    let mut turns = 0;
    while let Some(due) = host.next_deadline() {
        assert!(due > now, "time goes on");
        now = due;
        run(&mut host, now);
        turns += 1;
    }
    assert!(turns >= 7, "each of the tries");
    let lost = (7, Status::RetryExc);
    assert_eq!(host.touch(a, now).unwrap().completed(), [lost]);
}

#[test]
fn silent_doorbells_are_looked_at_less_and_less_often() {
    let mut host = Carrier::new(1);
    let port = crowd(&mut host, 1)[0];
    let station = host.touch(port, NOW).unwrap();
    station.doorbells = Doorbells::Silent;
    assert_eq!(rest(&mut host, NOW), NOW + Duration::from_micros(20));
    assert!(host.is_watching());
    let mut steps = vec![20];
    let mut now = NOW;
    while now.since(NOW) < Duration::from_secs(11) {
        let next = rest(&mut host, now);
        let step = next.since(now).as_micros() as u64;
        now = next;
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
    assert_eq!(steps, [20, 100, 250, 1000, 4000]);
    assert!(!host.is_watching());
    host.touch(port, now).unwrap().rung = true;
    assert!(host.turn(now));
    assert_eq!(rest(&mut host, now), now + Duration::from_micros(20));
}

#[test]
fn silent_stations_are_looked_at_together() {
    let mut host = Carrier::new(1);
    let ports = crowd(&mut host, 100);
    for (at, port) in (0..).zip(&ports) {
        let moment = NOW + Duration::from_micros(at * 37);
        host.touch(*port, moment).unwrap().doorbells = Doorbells::Silent;
        host.turn(moment);
    }
    let mut now = NOW + Duration::from_secs(20);
    host.turn(now);
    let looks = |host: &Carrier| -> u32 { host.members().map(|(_, station)| station.polls).sum() };
    let (before, begun) = (looks(&host), now);
    let mut turns = 0;
    while now.since(begun) < Duration::from_millis(400) {
        now = rest(&mut host, now);
        turns += 1;
    }
    assert!(turns <= 101, "{turns} times in 400 ms");
    let each = (looks(&host) - before) / 100;
    assert!((99..=101).contains(&each), "{each} looks at each");
}

#[test]
fn polled_stations_are_looked_at_in_each_turn_until_they_sleep() {
    let mut host = Carrier::new(1);
    let port = crowd(&mut host, 2)[1];
    host.touch(port, NOW).unwrap().doorbells = Doorbells::Polled;
    let before = looks(&host, port);
    for _ in 0..10 {
        assert!(!host.turn(NOW));
    }
    assert_eq!(looks(&host, port), before + 10);
    assert!(!host.is_watching(), "whoever rings a sleeper wakes it");
    assert!(host.fall_asleep());
    host.wake_up();
    host.touch(port, NOW).unwrap().rung = true;
    assert!(!host.fall_asleep(), "it has rung already");
}

/// Makes a carrier with two stations of programs, of which the first sends two messages to the second or to itself.
/// Returns how many turns each of the two got for that.
fn turns_for_two_messages(to_itself: bool) -> [u32; 2] {
    let mut host = Carrier::new(1);
    let ports = crowd(&mut host, 2);
    let [a, b] = [ports[0], ports[1]];
    let to = if to_itself { a } else { b };
    let qps = connect(&mut host, a, to);
    for port in [a, b] {
        let station = host.touch(port, NOW).unwrap();
        (station.doorbells, station.tells_of_rings) = (Doorbells::Polled, true);
    }
    let remote = host.touch(to, NOW).unwrap().remote();
    let turns = |host: &mut Carrier| {
        for _ in 0..3 {
            host.turn(NOW);
        }
    };
    turns(&mut host);
    let before = [a, b].map(|port| looks(&host, port));
    for (id, op) in [SendOp::Write(remote), SendOp::Read(remote)]
        .into_iter()
        .enumerate()
    {
        host.touch(a, NOW).unwrap().post(qps[0], id as u64, op, 64);
        turns(&mut host);
    }
    let done = &host.member(a).unwrap().completions;
    assert_eq!(done[..], [(0, Status::Success), (1, Status::Success)]);
    let after = [a, b].map(|port| looks(&host, port));
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn who_tells_of_rings_has_no_turn_in_which_there_is_nothing_to_do() {
    assert_eq!(turns_for_two_messages(false), [2, 0]);
    assert_eq!(turns_for_two_messages(true), [2, 0]);
}

#[test]
fn a_removed_station_leaves_no_turn_behind() {
    let mut host = Carrier::new(1);
    let port = crowd(&mut host, 1)[0];
    let station = host.touch(port, NOW).unwrap();
    station.doorbells = Doorbells::Silent;
    host.turn(NOW);
    host.remove(port);
    assert_eq!(host.next_deadline(), None);
    assert!(!host.is_watching());
    assert!(!host.turn(NOW));
    add(&mut host, 1, 0);
    host.turn(NOW);
    assert_eq!(looks(&host, port), 1, "the new one's first look");
}

#[test]
fn a_crowd_hears_of_another_mtu_a_few_a_turn() {
    const CROWD: u8 = 200;
    let mut host = Carrier::new(1);
    let ports: Vec<_> = (1..=CROWD)
        .map(|number| add(&mut host, number, 0))
        .collect();
    run(&mut host, NOW);
    let told = |host: &Carrier| {
        let mtus = ports.iter().map(|port| host.member(*port).unwrap().mtu);
        mtus.filter(|mtu| *mtu == Some(Mtu::B1024)).count()
    };
    add_uplink(&mut host, 0);
    let mut turns = vec![told(&host)];
    while host.flush(NOW) {
        assert_eq!(host.next_deadline(), Some(Time(0)), "it does not wait");
        turns.push(told(&host));
    }
    turns.push(told(&host));
    assert_eq!(turns, [64, 128, 192, 200]);
}
