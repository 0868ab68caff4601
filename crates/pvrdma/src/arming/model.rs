//! Tries every interleaving of guest and device: no guest thread may sleep for ever beside an unconsumed completion.
//!
//! ```text
//!   vCPU 0: thread of CQ 0 ──► store buffer ──┐                ┌─► swap, dispatch
//!                                             ├──► page word ──┤
//!   vCPU 1: thread of CQ 1 ──► store buffer ──┘                └─► publish: sample, store, swap, decide
//!                                                                  deadline of a watch
//! ```
//!
//! Stores of a vCPU become visible in order, but any time later, also after its later loads (x86). An end is a state in
//! which nothing can happen any more. At each end the ring of every sleeping thread must be empty. Deliberately broken
//! devices must be caught.

mod device;
mod guest;

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use super::habit::Habit;
use device::{Device, Flaw, Order};
use guest::{Thread, Waiting};

/// Number of CQs, of threads and of vCPUs.
const QUEUES: usize = 2;

/// The state that guest and device share.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Shared {
    /// The CQ word of the page: index of the CQ, and the doorbell.
    word: Option<(usize, super::CqDoorbell)>,
    producer: [u32; QUEUES],
    consumer: [u32; QUEUES],
    /// Whether there is a completion event that the thread has not fetched.
    event: [bool; QUEUES],
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    shared: Shared,
    threads: [Thread; QUEUES],
    device: Device,
}

impl World {
    /// All possible next states; empty at an end.
    fn successors(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for index in 0..QUEUES {
            self.branch(&mut next, |world| {
                world.threads[index].step(&mut world.shared)
            });
            self.branch(&mut next, |world| {
                world.threads[index].drain(&mut world.shared)
            });
            for habit in HABITS {
                self.branch(&mut next, |world| world.publish(index, habit));
            }
            self.branch(&mut next, |world| {
                world.device.deadline(index, &mut world.shared)
            });
        }
        self.branch(&mut next, |world| world.device.scan(&mut world.shared));
        next
    }

    fn branch(&self, next: &mut Vec<Self>, step: impl FnOnce(&mut Self) -> bool) {
        let mut world = self.clone();
        if step(&mut world) {
            world.device.forget_differences();
            next.push(world);
        }
    }

    fn publish(&mut self, index: usize, habit: Habit) -> bool {
        let unconsumed = self.shared.producer[index] != self.shared.consumer[index];
        if unconsumed && self.threads[index].lock_step() && !self.device.is_publishing() {
            return false;
        }
        let urgent = self.threads[index].is_solicited();
        self.device.publish(index, habit, urgent, &mut self.shared)
    }

    fn loses_a_wakeup(&self) -> bool {
        (0..QUEUES).any(|index| {
            self.threads[index].sleeps()
                && !self.shared.event[index]
                && self.shared.producer[index] != self.shared.consumer[index]
        })
    }
}

/// Visits all reachable states; the error is an end that loses a wake-up. States are remembered by 64 bits of hash:
/// with ten million of them, one is overlooked with a chance of 1 in 10^5.
fn search(start: World) -> Result<usize, Box<World>> {
    let hash = |world: &World| BuildHasherDefault::<DefaultHasher>::default().hash_one(world);
    let mut seen = HashSet::from([hash(&start)]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        let next = world.successors();
        if next.is_empty() && world.loses_a_wakeup() {
            return Err(Box::new(world));
        }
        open.extend(next.into_iter().filter(|world| seen.insert(hash(world))));
    }
    Ok(seen.len())
}

/// All answers of a habit: notify at once, or watch.
const HABITS: [Habit; 2] = [Habit::sleeper(), Habit::new()];

/// Completions for a thread and for the other one. A second completion shows whether the first left something behind;
/// two sleepers have enough states with one each.
fn completions(idioms: [Waiting; QUEUES]) -> [u8; QUEUES] {
    match idioms[1] {
        Waiting::Poll => [2, 1],
        _ => [1, 1],
    }
}

fn world(idioms: [Waiting; QUEUES], flaw: Flaw, order: Order) -> World {
    World {
        shared: Shared::default(),
        threads: [Thread::new(0, idioms[0]), Thread::new(1, idioms[1])],
        device: Device::new(completions(idioms), flaw, order),
    }
}

fn never_loses(idioms: [Waiting; QUEUES], order: Order) {
    let states = search(world(idioms, Flaw::None, order))
        .unwrap_or_else(|end| panic!("{idioms:?} {order:?} ends in {end:#?}"));
    assert!(states > 1000, "the model is too small: {states} states");
}

#[test]
fn arm_then_drain_beside_a_poller() {
    never_loses([Waiting::ArmDrainSleep, Waiting::Poll], Order::SwapLast);
}

#[test]
fn a_publication_may_look_at_the_page_too_early() {
    never_loses([Waiting::ArmDrainSleep, Waiting::Poll], Order::SwapFirst);
}

#[test]
fn solicited_arm_beside_a_poller() {
    never_loses(
        [Waiting::ArmSolicitedDrainSleep, Waiting::Poll],
        Order::SwapLast,
    );
}

#[test]
fn arming_twice_beside_a_poller() {
    never_loses([Waiting::ArmBothDrainSleep, Waiting::Poll], Order::SwapLast);
}

#[test]
fn drain_then_arm_beside_a_poller() {
    never_loses(
        [Waiting::DrainArmDrainSleep, Waiting::Poll],
        Order::SwapLast,
    );
}

#[test]
fn sleeping_on_an_arming_older_than_a_consumed_completion() {
    never_loses([Waiting::ArmTakeOneSleep, Waiting::Poll], Order::SwapLast);
}

#[test]
fn two_sleepers_share_the_page() {
    never_loses([Waiting::ArmDrainSleep; QUEUES], Order::SwapLast);
}

/// A model is worth something only if it finds errors.
#[test]
fn every_flaw_is_caught() {
    for flaw in Flaw::ALL {
        let caught = Waiting::SLEEPERS
            .into_iter()
            .any(|idiom| search(world([idiom, Waiting::Poll], flaw, Order::SwapLast)).is_err());
        assert!(caught, "{flaw:?} went unnoticed");
    }
}
