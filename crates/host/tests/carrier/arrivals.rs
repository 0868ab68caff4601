//! Limits for what arrives for a station, locally or from an uplink, and for messages.

use std::time::Duration;

use vrdma_switch::{GroupId, Limit, PortId};
use vrdma_verbs::Time;
use vrdma_verbs::work::{SendOp, Status};

use crate::world::*;

const NOW: Time = Time(1_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);
const GIGABIT: u64 = 1_000_000_000;
const KIB: u32 = 1 << 10;

fn stations<const N: usize>(host: &mut Carrier) -> [PortId; N] {
    std::array::from_fn(|at| add(host, at as u8 + 1, 0))
}

/// Returns the effects of one limit of a station.
fn effects(host: &mut Carrier, port: PortId, limit: Limit) -> vrdma_switch::Effects {
    station(host, port).policy.effects(&[limit])
}

#[test]
fn what_arrives_is_limited_and_senders_share_it() {
    let mut host = Carrier::new(1);
    let [a, b, c, to] = stations(&mut host);
    let mut senders = [a, b, c].map(|from| Greedy::between(&mut host, [from, to], 256 * KIB));
    limit(&mut host, to, Limit::InBits, GIGABIT);
    let moved = work(&mut host, senders.each_mut(), NOW, SECOND);
    assert_near(moved.iter().sum(), GIGABIT);
    for bytes in moved {
        assert!(bytes.abs_diff(GIGABIT / 24) < GIGABIT / 240, "{moved:?}");
    }
    let effects = effects(&mut host, to, Limit::InBits);
    assert!(effects.waits > 100 && effects.drops == 0, "{effects:?}");
    limit(&mut host, to, Limit::InBits, GIGABIT / 10);
    let moved = work(&mut host, senders.each_mut(), NOW + SECOND, SECOND);
    assert_near(moved.iter().sum(), GIGABIT / 10);
}

#[test]
fn who_sends_to_a_limited_station_sends_to_others_meanwhile() {
    let mut host = Carrier::new(1);
    let [from, limited, other] = stations(&mut host);
    let greedy = Greedy::between(&mut host, [from, limited], 64 * KIB);
    limit(&mut host, limited, Limit::InBits, GIGABIT / 100);
    run(&mut host, NOW);
    assert_eq!(station(&mut host, from).completed_of(0).len(), 0);
    let qp = connect(&mut host, from, other)[0];
    let remote = station(&mut host, other).remote();
    for _ in 0..100 {
        station(&mut host, from).post(qp, 9, SendOp::Write(remote), 64);
        host.turn(NOW);
        let done = station(&mut host, from).completed_of(9);
        assert_eq!(done, [Status::Success], "within the turn");
    }
    let due = host.next_deadline().unwrap();
    assert!(
        due.since(NOW) <= Duration::from_millis(4),
        "to notice a change"
    );
    limit(&mut host, limited, Limit::InBits, 0);
    run(&mut host, due);
    let done = station(&mut host, from).completed_of(u64::from(greedy.to.0));
    assert_eq!(done.len(), 32, "what it waited with");
}

#[test]
fn data_of_reads_goes_out_of_its_owner_and_in_to_who_asks() {
    for (at, limited) in [(1, Limit::OutBits), (0, Limit::InBits)] {
        let mut host = Carrier::new(1);
        let ports = stations::<2>(&mut host);
        let mut reader = Greedy::reader(&mut host, ports, 64 * KIB);
        for unconcerned in [Limit::InBits, Limit::OutBits] {
            let rate = if unconcerned == limited { 0 } else { 400_000 };
            limit(&mut host, ports[at], unconcerned, rate);
        }
        limit(&mut host, ports[at], limited, GIGABIT);
        assert_near(reader.moved_in(&mut host, NOW, SECOND), GIGABIT);
        let effects = effects(&mut host, ports[at], limited);
        assert!(effects.waits > 100, "{limited:?} {effects:?}");
    }
}

#[test]
fn messages_are_counted_whatever_their_length_and_direction() {
    for (at, limited) in [(0, Limit::OutOps), (1, Limit::InOps)] {
        for (length, reads) in [(8, false), (512 * KIB, false), (8, true)] {
            let mut host = Carrier::new(1);
            let ports = stations::<2>(&mut host);
            let mut greedy = match reads {
                true => Greedy::reader(&mut host, ports, length),
                false => Greedy::between(&mut host, ports, length),
            };
            limit(&mut host, ports[at], limited, 10_000);
            let bits = 10_000 * u64::from(length) * 8;
            assert_near(greedy.moved_in(&mut host, NOW, SECOND), bits);
        }
    }
}

#[test]
fn a_station_may_send_to_itself_within_both_its_limits() {
    let mut host = Carrier::new(1);
    let [port] = stations(&mut host);
    let qp = station(&mut host, port).create_qp();
    let name = station(&mut host, port).name(qp);
    station(&mut host, port).connect(qp, name);
    let remote = station(&mut host, port).remote();
    limit(&mut host, port, Limit::InBits, GIGABIT / 10);
    let (mut now, mut moved) = (NOW, 0);
    (0..8).for_each(|_| station(&mut host, port).post(qp, 0, SendOp::Write(remote), 64 * KIB));
    while now < NOW + SECOND {
        run(&mut host, now);
        for _ in station(&mut host, port).completed() {
            moved += u64::from(64 * KIB);
            station(&mut host, port).post(qp, 0, SendOp::Write(remote), 64 * KIB);
        }
        now = host.next_deadline().unwrap();
    }
    assert_near(moved, GIGABIT / 10);
}

#[test]
fn what_comes_over_uplinks_too_fast_is_dropped_and_sent_again() {
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
    limit(second, ports[1], Limit::InBits, GIGABIT / 10);
    let post = |host: &mut Carrier| {
        station(host, ports[0]).post(qps[0], 1, SendOp::Write(remote), 16 * KIB);
    };
    (0..32).for_each(|_| post(first));
    let (mut now, mut moved) = (NOW, 0);
    while now < NOW + SECOND {
        run(first, now);
        wires[0].move_to(&wires[1]);
        run(second, now);
        wires[1].move_to(&wires[0]);
        run(first, now);
        for (_, status) in station(first, ports[0]).completed() {
            assert_eq!(status, Status::Success);
            moved += u64::from(16 * KIB);
            post(first);
        }
        now = now + Duration::from_micros(50);
    }
    let due = GIGABIT / 80;
    assert!((due * 6 / 10..due * 103 / 100).contains(&moved), "{moved}");
    let drops = effects(second, ports[1], Limit::InBits).drops;
    let counted = second.uplinks().next().unwrap().counts().by_reason()["over-limit"];
    assert!(drops > 0 && drops == counted, "{drops} {counted}");
    let twice = second.group_counts(GroupId(0));
    assert!(twice.is_none(), "the station has counted them");
}
