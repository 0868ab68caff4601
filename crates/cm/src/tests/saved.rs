//! Records of the manager, and records that no manager has written.

use proptest::prelude::*;

use super::*;
use crate::{Resolve, Unusable};

/// Returns the records of a side.
fn records(world: &World, side: usize) -> Vec<Vec<u8>> {
    let machine = &world.machines[side];
    machine
        .names()
        .map(|id| machine.save(id).unwrap())
        .collect()
}

/// Makes one connection or question in each state, at either side.
fn every_state() -> World {
    let mut world = World::new();
    world.listen(1, 100);
    let mut names = Vec::new();
    for qpn in 0x11..0x17 {
        names.push(world.call(qpn));
        world.deliver_all();
    }
    let called: Vec<_> = world.take(1).into_iter().collect();
    for (at, event) in called.into_iter().enumerate() {
        let Event::Requested(id, ..) = event else {
            panic!("{event:?}");
        };
        if at > 0 {
            world.accept(id, 0x22 + at as u32);
            world.deliver_all();
        }
        if at > 1 {
            let ready = world.machines[0].ready(names[at], PrivateData::EMPTY);
            ready.unwrap();
            world.deliver_all();
        }
        if at > 2 {
            world.machines[0].disconnect(names[at], world.now).unwrap();
            match at {
                3 => drop(world.lose()),
                _ => drop(world.deliver_all()),
            }
        }
    }
    world.call(0x30);
    world.lose();
    let caller = IpCaller {
        port: 9,
        source: world.gids[0],
        destination: world.gids[1],
    };
    let resolve = Resolve {
        ends: Ends {
            local: world.gids[0],
            remote: world.gids[1],
        },
        service: SERVICE,
        private: caller.resolve_data(&[]).unwrap(),
    };
    world.machines[0].resolve(&resolve, world.now).unwrap();
    world.deliver_all();
    world
}

#[test]
fn each_state_is_saved_and_resumed() {
    let mut world = every_state();
    for side in [0, 1] {
        let before = records(&world, side);
        assert!(before.len() >= 6);
        world.replace(side);
        assert_eq!(records(&world, side), before);
    }
}

#[test]
fn what_changed_is_told_once() {
    let mut world = World::new();
    world.listen(1, 1);
    world.machines.iter_mut().for_each(Cm::track);
    let a = world.call(0x11);
    assert_eq!(world.machines[0].take_changed(), [a]);
    assert_eq!(world.machines[0].take_changed(), []);
    world.deliver_all();
    let (b, _) = world.requested();
    assert_eq!(world.machines[1].take_changed(), [b]);
    world.machines[1].release(b, world.now);
    assert_eq!(world.machines[1].take_changed(), [b]);
    assert_eq!(world.machines[1].save(b), None, "it is gone");
}

#[test]
fn a_connection_of_another_address_or_a_name_that_is_taken_is_refused() {
    let (mut world, a, _) = World::connected();
    let saved = world.machines[0].save(a).unwrap();
    let (theirs, ours) = (world.gids[1], world.gids[0]);
    let machine = &mut world.machines[0];
    let now = world.now;
    assert_eq!(
        machine.resume(&saved, &[theirs], now),
        Err(Unusable::Elsewhere)
    );
    assert_eq!(machine.resume(&saved, &[ours], now), Err(Unusable::Full));
    assert_eq!(machine.resume(&[], &[ours], now), Err(Unusable::Damaged));
}

proptest! {
    #[test]
    fn damaged_records_are_refused_or_harmless(
        damage in prop::collection::vec((any::<u16>(), any::<u8>()), 1..4),
        which in any::<u16>(),
    ) {
        let mut world = every_state();
        let side = usize::from(which & 1);
        let mut all = records(&world, side);
        let at = usize::from(which >> 1) % all.len();
        for (place, value) in damage {
            let length = all[at].len();
            all[at][usize::from(place) % length] = value;
        }
        world.machines[side] = Cm::new(Identity { guid: 1, seed: 5 });
        if side == 1 {
            world.listen(1, 4);
        }
        for bytes in &all {
            let _ = world.machines[side].resume(bytes, &[world.gids[side]], world.now);
        }
        for _ in 0..300 {
            if !world.wait() {
                break;
            }
            world.deliver_all();
        }
    }
}
