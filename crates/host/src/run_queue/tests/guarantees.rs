//! Guarantees of members and groups among others that always have more to send.

use std::num::NonZeroU64;

use super::*;

const MEGABIT: u64 = 1_000_000;

fn guarantee(policy: &Policy, megabits: u64) {
    policy.set_guarantee(Limit::OutBits, NonZeroU64::new(megabits * MEGABIT));
}

/// Returns the megabits a second that each member sends, as guarantees count them.
fn rates(world: &mut World) -> Vec<u64> {
    let begun = world.now;
    let sent = world.share(8 << 30);
    let ns = world.now - begun;
    let rate = |(sent, member): (u64, &Greedy)| {
        let bytes = sent / member.unit * (member.unit - 1024).max(1024);
        bytes * 8 * 1000 / ns
    };
    sent.into_iter().zip(&world.members).map(rate).collect()
}

fn assert_near(rate: u64, due: u64) {
    assert!(rate.abs_diff(due) <= due / 20, "{rate} of {due} due");
}

#[test]
fn a_light_member_among_heavy_ones_has_its_guarantee_and_no_more() {
    for unit in [1032, 4096 + 1024, 257 << 10] {
        let mut world = World::default();
        world.add(1, &[1, 100], unit);
        world.add(100, &[1, 3], 65 << 10);
        guarantee(&world.members[0].policy, 5000);
        let guaranteed = rates(&mut world);
        assert_near(guaranteed[0], 5000);
        assert_near(guaranteed[3], 3 * guaranteed[2]);
        assert!(guaranteed[2] > 5000, "{guaranteed:?}");
        guarantee(&world.members[0].policy, 0);
        assert!(rates(&mut world)[0] < 50);
    }
}

#[test]
fn who_has_more_by_its_weight_has_no_more_by_its_guarantee() {
    let mut world = World::default();
    world.add(1, &[1, 1], 65 << 10);
    world.add(1, &[1], 65 << 10);
    guarantee(&world.members[0].policy, 1000);
    guarantee(&world.groups[1], 2000);
    let rates = rates(&mut world);
    assert!(rates[0] > 10_000);
    assert_near(rates[0], rates[1]);
    assert_near(rates[2], 2 * rates[0]);
}

#[test]
fn guarantees_that_are_too_much_leave_half_to_the_others() {
    let mut world = World::default();
    world.add(1, &[1; 10], 65 << 10);
    world.add(100, &[1; 10], 65 << 10);
    (0..10).for_each(|member| guarantee(&world.members[member].policy, 1_000_000));
    let rates = rates(&mut world);
    let [guaranteed, others] = [&rates[..10], &rates[10..]].map(|of| of.iter().sum::<u64>());
    assert_near(guaranteed, others);
    for rate in &rates[..10] {
        assert_near(*rate, guaranteed / 10);
    }
}

#[test]
fn the_members_of_a_group_share_its_guarantee() {
    let mut world = World::default();
    world.add(1, &[1, 1, 1], 65 << 10);
    world.add(100, &[1; 20], 65 << 10);
    guarantee(&world.groups[0], 6000);
    let rates = rates(&mut world);
    assert_near(rates[..3].iter().sum(), 6000);
    for rate in &rates[..3] {
        assert_near(*rate, 2000);
    }
}

#[test]
fn who_is_gone_is_owed_nothing() {
    let mut world = World::default();
    world.add(1, &[1, 1], 65 << 10);
    guarantee(&world.members[0].policy, 1_000_000);
    world.turn();
    let listed = world.queue.owed.pop().expect("it is listed");
    world.queue.owed.push(listed);
    world.queue.remove(PortId(0));
    for _ in 0..10 {
        let [had, looks] = world.turn();
        assert_eq!((had, looks), (vec![PortId(1)], vec![]));
    }
}

#[test]
fn a_guarantee_of_what_arrives_brings_senders_nothing_for_what_they_send_to_others() {
    const OTHERS: u64 = 256 << 10;
    /// Units in a row to the receiver that fill a turn: its last unit is one of them.
    const IN_A_ROW: u64 = QUANTUM / 1032 + 1;
    let mut world = World::default();
    world.add(1, &[1], 1032);
    world.add(100, &[1, 1], 65 << 10);
    let receiver = Arc::new(Policy::default());
    receiver.set_guarantee(Limit::InBits, NonZeroU64::new(1_000_000 * MEGABIT));
    let (mut sent, mut elsewhere) = (0, 0);
    let heavy = |world: &World| world.members[1].sent + world.members[2].sent;
    while heavy(&world) < 1 << 30 {
        let queue = &mut world.queue;
        queue.begin_turn(Time(world.now), |_| true);
        while let Some(port) = queue.next() {
            while !queue.is_spent(port) {
                let mut cost = world.members[port.0 as usize].unit;
                if port == PortId(0) {
                    let is_for_receiver = sent % (IN_A_ROW + 1) < IN_A_ROW;
                    queue.sends_to(port, is_for_receiver.then_some(&receiver));
                    if !is_for_receiver {
                        cost = OTHERS;
                        elsewhere += cost;
                    }
                    sent += 1;
                }
                queue.charge(port, Moved::frames(cost));
                world.now += cost * world.quantum_ns / QUANTUM;
                world.members[port.0 as usize].sent += cost;
            }
            queue.had_turn(port, true, true);
        }
    }
    let due = heavy(&world) / 100;
    assert!(elsewhere < due, "{elsewhere} of {due} due");
}
