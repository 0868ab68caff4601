//! Quotas of one user's clients in connection management, and that all of it is given back.

use super::*;
use crate::admission::Admitted;
use crate::quota::{Kind, Machine};
use crate::users::{Usage, Users};

const STRANGER: u32 = 4242;

/// Makes a world whose daemon has this number of descriptors.
fn with_descriptors(descriptors: u64) -> World {
    let machine = Machine {
        descriptors,
        mappings: 65530,
        memory: 1 << 34,
    };
    World::with(Registry {
        users: Arc::new(Users::on(machine)),
        ..Registry::default()
    })
}

fn used(world: &World, kind: Kind) -> u64 {
    let usage = world.registry.users.usage_of_all();
    let of_kind = |usage: &&Usage| usage.kind == kind;
    usage.iter().find(of_kind).unwrap().used
}

#[test]
fn one_user_leaves_room_for_the_clients_of_another() {
    let mut world = with_descriptors(400);
    let admitted = Admitted {
        users: [STRANGER].into(),
        ..Admitted::default()
    };
    world.registry.admission.set(PortId(0), admitted);
    let mut greedy = Vec::new();
    let refused = loop {
        match world.greet("a") {
            Ok(client) => greedy.push(client),
            Err(errno) => break errno,
        }
    };
    assert_eq!((greedy.len(), refused), (225, Errno::BUSY));
    let other = world.process_as(Caller::of(STRANGER, 5, &[]), "a");
    world.id(&other, TCP.0, TCP.1);
    let (id, socket) = greedy.pop().unwrap();
    world.hang_up(id, socket);
    world.greet("a").unwrap();
}

#[test]
fn channels_are_descriptors_and_come_back() {
    let mut world = with_descriptors(40);
    let a = world.process("a");
    let mut channels = Vec::new();
    let refused = loop {
        match world.ask(&a, &CreateChannel {}) {
            Ok(IdReply { id }) => channels.push(id),
            Err(errno) => break errno,
        }
    };
    assert_eq!(refused, Errno::NOMEM);
    assert_eq!(
        used(&world, Kind::Descriptor),
        22,
        "three quarters of three quarters of 40"
    );
    let channel = channels[0];
    world.ask(&a, &DestroyChannel { channel }).unwrap();
    world.ask(&a, &CreateChannel {}).unwrap();
}

#[test]
fn what_a_client_had_is_given_back_when_it_hangs_up() {
    let mut world = World::new();
    let (a, b) = (world.process("a"), world.process("b"));
    let join = world.joining(&a);
    world.ask(&a, &join).unwrap();
    let left = world.ask(&a, &join).unwrap().group;
    world.leave(&a, left).unwrap();
    let (_, port) = world.listen(&b, at(ip(2), 0), TCP.0, TCP.1);
    let caller = world.id(&a, TCP.0, TCP.1);
    let resolve = ResolveAddress {
        id: caller,
        remote: at(ip(2), port),
        ..ResolveAddress::default()
    };
    world.ask(&a, &resolve).unwrap();
    let kinds = [Kind::Identifier, Kind::Group, Kind::Event, Kind::Descriptor];
    assert_eq!(kinds.map(|kind| used(&world, kind)), [3, 1, 3, 4]);
    for process in [a, b] {
        let Process { id, socket, .. } = process;
        world.hang_up(id, socket);
    }
    assert_eq!(kinds.map(|kind| used(&world, kind)), [0; 4]);
    assert_eq!(used(&world, Kind::CmClient), 0);
}
