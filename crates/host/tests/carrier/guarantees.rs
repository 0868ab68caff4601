//! Guarantees of stations that others would leave little to.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use vrdma_switch::{Limit, Policy};
use vrdma_verbs::Time;

use crate::world::*;

const NOW: Time = Time(1_000_000_000_000);
const GIGABIT: u64 = 1_000_000_000;

/// Bytes a second that the host carries in these tests.
const CARRIED: u64 = 10 * GIGABIT / 8;

/// Adds a light station beside a heavy group of ten.
fn crowded(host: &mut Carrier, length: u32) -> (Arc<Policy>, Greedy, Vec<Greedy>) {
    let [light, heavy] = [(); 2].map(|()| Arc::<Policy>::default());
    heavy.set_weight(NonZeroU32::new(100).unwrap());
    let mut greedy = |number, group, policy| {
        let ports = [number, number + 1];
        let ports = ports.map(|number| add_limited(host, number, group, policy));
        Greedy::between(host, ports, length)
    };
    let one = greedy(1, 0, &light);
    let others = (1..=10).map(|at| greedy(10 * at, 1, &heavy)).collect();
    (light, one, others)
}

/// Returns the bytes a second that the light station sends.
fn rate(host: &mut Carrier, from: Time, one: &mut Greedy, others: &mut [Greedy]) -> u64 {
    let (mut ns, before) = (0, one.moved);
    while ns < 200_000_000 {
        host.turn(from + Duration::from_nanos(ns));
        let all = others.iter_mut().chain([&mut *one]);
        let moved: u64 = all
            .map(|greedy| greedy.go_on(host) as u64 * u64::from(greedy.length))
            .sum();
        ns += moved * 1_000_000_000 / CARRIED;
    }
    (one.moved - before) * 1_000_000_000 / ns
}

#[test]
fn a_light_station_or_its_group_has_what_is_guaranteed_to_it() {
    let mut host = Carrier::new(1);
    let (group, mut one, mut others) = crowded(&mut host, 64 << 10);
    let without = rate(&mut host, NOW, &mut one, &mut others);
    assert!(without < CARRIED / 50, "{without} bytes a second");
    let station = Arc::clone(&station(&mut host, one.port).policy);
    let mut now = NOW;
    for policy in [station, group] {
        policy.set_guarantee(Limit::OutBits, NonZeroU64::new(2 * GIGABIT));
        now = now + Duration::from_secs(1);
        assert_near(rate(&mut host, now, &mut one, &mut others), 2 * GIGABIT);
        policy.set_guarantee(Limit::OutBits, None);
    }
    now = now + Duration::from_secs(1);
    let after = rate(&mut host, now, &mut one, &mut others);
    assert!(after < CARRIED / 50, "{after} bytes a second");
}

#[test]
fn who_sends_to_a_station_has_what_is_guaranteed_to_arrive_there() {
    let mut host = Carrier::new(1);
    let (group, mut one, mut others) = crowded(&mut host, 64 << 10);
    let receiver = Arc::clone(&station(&mut host, one.to).policy);
    let mut now = NOW;
    for policy in [receiver, group] {
        policy.set_guarantee(Limit::InBits, NonZeroU64::new(2 * GIGABIT));
        now = now + Duration::from_secs(1);
        assert_near(rate(&mut host, now, &mut one, &mut others), 2 * GIGABIT);
        policy.set_guarantee(Limit::InBits, None);
    }
    now = now + Duration::from_secs(1);
    let after = rate(&mut host, now, &mut one, &mut others);
    assert!(after < CARRIED / 50, "{after} bytes a second");
}

#[test]
fn messages_are_guaranteed_in_both_directions() {
    const MESSAGES: u64 = 30_000;
    let mut host = Carrier::new(1);
    let (_, mut one, mut others) = crowded(&mut host, 64 << 10);
    one.length = 64;
    let [sender, receiver] =
        [one.port, one.to].map(|port| Arc::clone(&station(&mut host, port).policy));
    let mut now = NOW;
    let mut messages = |host: &mut Carrier| {
        now = now + Duration::from_secs(1);
        rate(host, now, &mut one, &mut others) / 64
    };
    let without = messages(&mut host);
    assert!(without < MESSAGES / 2, "{without} messages a second");
    for (policy, of) in [(sender, Limit::OutOps), (receiver, Limit::InOps)] {
        policy.set_guarantee(of, NonZeroU64::new(MESSAGES));
        let with = messages(&mut host);
        assert!(
            with.abs_diff(MESSAGES) < MESSAGES / 20,
            "{with} messages a second"
        );
        policy.set_guarantee(of, None);
    }
}
