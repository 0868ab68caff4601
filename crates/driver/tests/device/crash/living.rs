//! Devices that are first recorded in the middle of their lives, and go on from those records.

use super::{Notebook, Notes, Traffic, Work, World, with_shared_queue};
use vrdma_driver::PairOptions;

/// Most turns of the carrier before the devices are recorded and the process ends.
const TURNS: u32 = 24;

impl World {
    /// Stops recording of both devices.
    fn stop_recording(&mut self) {
        (0..2).for_each(|guest| self.pair.fabric[guest].device.stop_recording());
        *self.book.lock().unwrap() = Notebook::default();
    }

    fn begin_recording(&mut self) {
        for number in 0..2 {
            let notes = Notes::of(number, &self.book);
            self.pair.fabric[number].device.record_to(notes);
        }
        self.book.lock().unwrap().commit();
    }

    /// Loses every third unit: that leaves messages under way, which wait for their timers.
    fn lose_every_third_unit(&mut self) {
        let mut unit = 0;
        self.pair.fabric.lose(move |_| {
            unit += 1;
            unit % 3 == 0
        });
    }
}

/// Runs the traffic with records that begin after `turns`; true if messages were under way then.
fn recorded_after(turns: u32, mut traffic: Traffic, world: &mut World) -> bool {
    world.stop_recording();
    world.lose_every_third_unit();
    for _ in 0..turns {
        traffic.programs(&mut world.pair);
        world.pair.fabric.turn();
    }
    let under_way = traffic.posted > traffic.sent.len() as u64;
    world.begin_recording();
    world.go_on();
    traffic.crashes_at(world, u32::MAX);
    under_way
}

#[test]
fn devices_are_recorded_from_any_moment_of_their_lives_on() {
    for kind in [Work::Send, Work::Write, Work::Read, Work::WriteImm] {
        let times = (0..TURNS).filter(|turns| {
            let mut world = World::new(PairOptions::default());
            recorded_after(*turns, Traffic::new(kind, None), &mut world)
        });
        let times = times.count();
        assert!(times > 10, "{kind:?} was under way {times} times only");
    }
}

#[test]
fn shared_receives_are_recorded_from_any_moment_on() {
    for turns in 0..TURNS {
        let mut world = World::new(PairOptions::default());
        let srq = with_shared_queue(&mut world);
        let traffic = Traffic::new(Work::Send, Some(srq));
        recorded_after(turns, traffic, &mut world);
    }
}
