mod guarantees;

use std::num::NonZeroU32;

use vrdma_switch::Limit;

use super::long_turn::{LEAST, MOST};
use super::*;
use crate::budget::QUANTUM;

/// A member that always has units of this cost to send.
struct Greedy {
    policy: Arc<Policy>,
    unit: u64,
    sent: u64,
}

/// Greedy members by port number, in groups by number.
struct World {
    queue: RunQueue,
    groups: Vec<Arc<Policy>>,
    members: Vec<Greedy>,
    /// Nanoseconds.
    now: u64,
    quantum_ns: u64,
}

/// Memory in which a quantum takes ten microseconds.
impl Default for World {
    fn default() -> Self {
        Self {
            queue: RunQueue::default(),
            groups: Vec::new(),
            members: Vec::new(),
            now: 0,
            quantum_ns: 10_000,
        }
    }
}

impl World {
    /// Adds a group of this weight, with members of those weights.
    fn add(&mut self, weight: u32, members: &[u32], unit: u64) {
        let group = Arc::<Policy>::default();
        group.set_weight(NonZeroU32::new(weight).unwrap());
        let number = GroupId(self.groups.len() as u32);
        self.groups.push(Arc::clone(&group));
        for weight in members {
            let policy = Arc::new(Policy::in_group(Arc::clone(&group)));
            policy.set_weight(NonZeroU32::new(*weight).unwrap());
            let port = PortId(self.members.len() as u32);
            self.queue.insert(port, number, Some(Arc::clone(&policy)));
            self.queue.wake(port);
            let sent = 0;
            self.members.push(Greedy { policy, unit, sent });
        }
    }

    /// Makes one turn of the carrier; returns the members that had turns, and those that were looked at. Ports that are
    /// not members here have nothing to send.
    fn turn(&mut self) -> [Vec<PortId>; 2] {
        self.queue.begin_turn(Time(self.now), |_| true);
        let mut seen = [Vec::new(), Vec::new()];
        loop {
            let looks = self.queue.looks_left;
            let Some(port) = self.queue.next() else {
                break;
            };
            let is_look = self.queue.looks_left < looks;
            seen[usize::from(is_look)].push(port);
            let member = self.members.get_mut(port.0 as usize);
            let works = member.is_some();
            if let Some(member) = member {
                while !self.queue.is_spent(port) {
                    let moved = Moved {
                        cost: member.unit,
                        bytes: (member.unit - 1024).max(1024),
                        ops: 1,
                    };
                    self.queue.charge(port, moved);
                    self.now += member.unit * self.quantum_ns / QUANTUM;
                    member.sent += member.unit;
                }
            }
            self.queue.had_turn(port, works, true);
        }
        seen
    }

    /// Returns what each member has sent by the time they have sent `all` bytes together.
    fn share(&mut self, all: u64) -> Vec<u64> {
        let sent = |world: &Self| -> Vec<u64> { world.members.iter().map(|it| it.sent).collect() };
        let before = sent(self);
        let sum: u64 = before.iter().sum();
        while sent(self).iter().sum::<u64>() < sum + all {
            self.turn();
        }
        let after = sent(self).into_iter().zip(before);
        after.map(|(after, before)| after - before).collect()
    }
}

fn assert_shares(sent: &[u64], weights: &[u64]) {
    let all: u64 = sent.iter().sum();
    let weight: u64 = weights.iter().sum();
    for (sent, of) in sent.iter().zip(weights) {
        let due = all / weight * of;
        assert!(sent.abs_diff(due) <= due / 20, "{sent} of {due} due");
    }
}

#[test]
fn groups_share_by_weight_whatever_their_members_are() {
    for unit in [1032, 64 << 10, 257 << 10] {
        let mut world = World::default();
        world.add(1, &[1; 100], unit);
        world.add(3, &[50], unit);
        let sent = world.share(4 << 30);
        let group: u64 = sent[..100].iter().sum();
        assert_shares(&[group, sent[100]], &[1, 3]);
        assert_shares(&sent[..100], &[1; 100]);
    }
}

#[test]
fn members_share_what_their_group_has_by_their_weights() {
    for units in [[1032, 257 << 10], [257 << 10, 1032]] {
        let mut world = World::default();
        world.add(2, &[1, 3, 2], units[0]);
        world.add(5, &[7, 1], units[1]);
        let sent = world.share(4 << 30);
        assert_shares(&[sent[..3].iter().sum(), sent[3..].iter().sum()], &[2, 5]);
        assert_shares(&sent[..3], &[1, 3, 2]);
        assert_shares(&sent[3..], &[7, 1]);
    }
}

#[test]
fn a_new_weight_holds_from_the_next_round_on() {
    let mut world = World::default();
    world.add(1, &[1, 1], 64 << 10);
    world.add(1, &[1], 64 << 10);
    let sent = world.share(1 << 30);
    assert_shares(&[sent[0] + sent[1], sent[2]], &[1, 1]);
    world.groups[0].set_weight(NonZeroU32::new(9).unwrap());
    let sent = world.share(1 << 30);
    assert_shares(&[sent[0] + sent[1], sent[2]], &[9, 1]);
    world.members[0]
        .policy
        .set_weight(NonZeroU32::new(2).unwrap());
    assert_shares(&world.share(1 << 30), &[6, 3, 1]);
}

#[test]
fn no_member_has_two_turns_in_one_of_the_carrier_and_none_is_left_out() {
    let mut world = World::default();
    world.add(1, &[1, 100, 1], 257 << 10);
    world.add(100, &[1], 257 << 10);
    let (mut turns, mut unseen) = ([0; 4], [0; 4]);
    for _ in 0..20_000 {
        let [had, looks] = world.turn();
        assert!(!had.is_empty(), "somebody waits");
        let once = had.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(once, had.len(), "{had:?}");
        had.iter().for_each(|port| turns[port.0 as usize] += 1);
        unseen.iter_mut().for_each(|turns| *turns += 1);
        let seen = had.into_iter().chain(looks);
        seen.for_each(|port| unseen[port.0 as usize] = 0);
        assert!(unseen.iter().all(|turns| *turns < 3), "{unseen:?}");
    }
    assert!(turns.iter().all(|turns| *turns > 1), "{turns:?}");
}

#[test]
fn who_waits_in_debt_costs_no_steps_of_those_who_have_turns() {
    let mut world = World::default();
    world.add(1, &[1; 3000], 257 << 10);
    world.add(100, &[1, 100], 257 << 10);
    (0..500).for_each(|_| world.add(1, &[1], 257 << 10));
    let steps = |queue: &RunQueue| -> u64 {
        let of_members = queue.groups.iter().map(|group| group.members.steps);
        queue.rounds.steps + of_members.sum::<u64>()
    };
    world.share(8 << 30);
    let before = steps(&world.queue);
    let turns: usize = (0..2000).map(|_| world.turn()[0].len()).sum();
    let after = steps(&world.queue) - before;
    // Two steps for a visit of a member and two for one of its group: when its debt is paid, and when it begins.
    assert!(after <= 4 * turns as u64, "{after} steps for {turns} turns");
}

#[test]
fn who_waits_for_its_group_is_looked_at_however_many_have_turns_meanwhile() {
    let mut world = World::default();
    world.add(1, &[1], 257 << 10);
    world.add(100, &[1; 30], 257 << 10);
    let light = PortId(31);
    world.queue.insert(light, GroupId(0), None);
    world.share(1 << 30);
    for message in 0..100 {
        world.queue.wake(light);
        let mut turns = 0..;
        let waited = turns.find(|_| world.turn().concat().contains(&light));
        assert!(
            waited < Some(32 / LOOKS_A_TURN + 1),
            "{message}: {waited:?}"
        );
    }
}

#[test]
fn a_weight_that_is_changed_counts_for_who_is_in_debt() {
    let mut world = World::default();
    world.add(1, &[1, 100, 100], 257 << 10);
    world.share(1 << 30);
    world.members[0]
        .policy
        .set_weight(NonZeroU32::new(100).unwrap());
    let turns = (0..20).map(|_| world.turn()[0].clone());
    assert!(turns.flatten().any(|port| port == PortId(0)));
}

#[test]
fn a_group_that_comes_is_visited_next_and_has_no_claim_to_what_it_did_not_use() {
    let mut world = World::default();
    world.add(1, &[1; 8], 257 << 10);
    world.share(1 << 30);
    world.add(1, &[1], 257 << 10);
    let had: Vec<_> = [(); 2]
        .into_iter()
        .flat_map(|()| world.turn()[0].clone())
        .collect();
    let place = had.iter().position(|port| *port == PortId(8)).unwrap();
    assert!(place <= 1, "{had:?}");
    let sent = world.share(64 << 20);
    assert_shares(&[sent[..8].iter().sum(), sent[8]], &[1, 1]);
}

#[test]
fn a_group_that_wants_nothing_costs_the_others_nothing() {
    let mut world = World::default();
    world.add(1, &[1, 3], 64 << 10);
    let idle = PortId(2);
    world.queue.insert(idle, GroupId(7), None);
    world.queue.wake(idle);
    let mut looks = 0;
    for _ in 0..1000 {
        let [had, _] = world.turn();
        looks += had.iter().filter(|port| **port == idle).count();
    }
    assert_eq!(looks, 1000, "one in each turn");
    let sent = world.share(1 << 30);
    assert_shares(&sent, &[1, 3]);
}

#[test]
fn who_is_polled_has_a_turn_when_it_has_rung_or_something_came_for_it() {
    let mut queue = RunQueue::default();
    let [rings, is_sent_to, goes] = [0, 1, 2].map(PortId);
    for port in [rings, is_sent_to, goes] {
        queue.insert(port, GroupId(0), None);
        queue.wake(port);
    }
    let turn = |queue: &mut RunQueue, rung: &[PortId]| -> Vec<PortId> {
        queue.begin_turn(Time(0), |port| rung.contains(&port));
        let had: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        for port in &had {
            queue.had_turn(*port, false, true);
        }
        had
    };
    assert_eq!(turn(&mut queue, &[]), [rings, is_sent_to, goes]);
    assert_eq!(turn(&mut queue, &[]), []);
    queue.remove(goes);
    queue.wake(is_sent_to);
    assert_eq!(queue.ports().collect::<Vec<_>>(), [is_sent_to, rings]);
    assert_eq!(turn(&mut queue, &[rings, goes]), [is_sent_to, rings]);
    for _ in 0..3 {
        assert_eq!(turn(&mut queue, &[is_sent_to]), [is_sent_to]);
    }
    assert_eq!(queue.polled.len(), 2, "each once");
}

#[test]
fn who_sends_alone_has_several_long_units_in_a_turn() {
    let sent_in_a_turn = |members: &[u32], unit, quantum_ns| {
        let mut world = World {
            quantum_ns,
            ..World::default()
        };
        world.add(1, members, unit);
        (0..5).for_each(|_| drop(world.turn()));
        let before: u64 = world.members.iter().map(|it| it.sent).sum();
        let turns = world.turn()[0].len() as u64;
        let after: u64 = world.members.iter().map(|it| it.sent).sum();
        (after - before) / unit / turns
    };
    let [slow, fast] = [10_000, 1_000];
    let long = 65 << 10;
    assert_eq!(sent_in_a_turn(&[1], long, slow), LEAST);
    assert_eq!(sent_in_a_turn(&[1], long, fast), MOST);
    for memory in [slow, fast] {
        assert_eq!(sent_in_a_turn(&[1, 1], long, memory), 1);
        assert_eq!(
            sent_in_a_turn(&[1], 1 << 10, memory),
            64,
            "short ones as ever"
        );
    }
    assert_eq!(sent_in_a_turn(&[1], 257 << 10, slow), 1, "the longest");
}

#[test]
fn who_has_sent_alone_pays_for_all_of_it() {
    let mut world = World::default();
    world.add(1, &[1], 65 << 10);
    world.add(1, &[1], 65 << 10);
    world.queue.remove(PortId(1));
    (0..5).for_each(|_| drop(world.turn()));
    world.queue.insert(PortId(1), GroupId(1), None);
    world.queue.wake(PortId(1));
    let turns: Vec<_> = (0..LEAST).map(|_| world.turn()[0].clone()).collect();
    let second = turns
        .concat()
        .iter()
        .filter(|port| **port == PortId(1))
        .count();
    assert!(second as u64 >= LEAST - 1, "{turns:?}");
    assert_shares(&world.share(1 << 30), &[1, 1]);
}

#[test]
fn who_was_served_when_nobody_waits_owes_nothing() {
    let mut world = World::default();
    world.add(1, &[1], 257 << 10);
    world.add(100, &[1], 257 << 10);
    world.share(1 << 30);
    let light = PortId(0);
    for port in [light, PortId(1)] {
        world.queue.remove(port);
    }
    world.queue.insert(light, GroupId(0), None);
    world.queue.wake(light);
    world.queue.begin_turn(Time(0), |_| true);
    assert_eq!(world.queue.next(), Some(light));
    world.queue.charge(light, Moved::frames(100 * QUANTUM));
    world.queue.had_turn(light, false, false);
    assert!(world.queue.groups.iter().all(|group| !group.queued));
    assert_eq!(world.queue.groups[0].budget, Budget::default());
}

#[test]
fn who_is_gone_has_no_turn() {
    let mut world = World::default();
    world.add(1, &[1, 1, 1], QUANTUM);
    world.queue.remove(PortId(1));
    world.queue.remove(PortId(1));
    world.queue.wake(PortId(1));
    assert_eq!(world.queue.waiting, 2);
    assert_eq!(world.turn()[0], [PortId(0), PortId(2)]);
    world.queue.begin_turn(Time(0), |_| true);
    world.queue.next();
    world.queue.had_turn(PortId(0), false, true);
    world.queue.remove(PortId(0));
    assert_eq!(world.queue.ports().collect::<Vec<_>>(), [PortId(2)]);
    world.queue.remove(PortId(2));
    world.queue.begin_turn(Time(0), |_| true);
    assert_eq!((world.queue.next(), world.queue.waiting), (None, 0));
}

#[test]
fn who_comes_again_with_a_number_waits_once() {
    let mut world = World::default();
    world.add(1, &[1, 1], QUANTUM);
    let policy = Arc::clone(&world.members[0].policy);
    policy.set_guarantee(Limit::OutBits, std::num::NonZeroU64::new(1));
    for _ in 0..1000 {
        world.queue.remove(PortId(0));
        let policy = Some(Arc::clone(&policy));
        world.queue.insert(PortId(0), GroupId(0), policy);
        world.queue.wake(PortId(0));
    }
    assert!(world.queue.unseen.len() <= 5 && world.queue.owed.members.len() <= 5);
    assert_eq!(world.queue.waiting, 2);
    let mut ports: Vec<_> = world.queue.ports().collect();
    ports.sort();
    assert_eq!(ports, [PortId(0), PortId(1)]);
    for _ in 0..4 {
        let [mut had, _] = world.turn();
        had.sort();
        assert_eq!(had, [PortId(0), PortId(1)]);
    }
    assert_eq!(world.queue.unseen.len(), 2);
}
