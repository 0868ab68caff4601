//! Damaged records: a device that is made from them fails or goes on, and nothing else happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use vrdma_adapter::Journal;
use vrdma_driver::object::QpShape;
use vrdma_driver::{Guest, PairOptions};
use vrdma_pvrdma::abi::event::EventCode;
use vrdma_pvrdma::{Device, SavedRecord};

use super::{Key, Notes, Traffic, Work, World, with_shared_queue};

/// Number of tries for each kind of work.
const TRIES: u64 = 2500;

/// Changes, cuts, lengthens or removes a record, or puts it under the number or the kind of another one.
fn damage(records: &mut BTreeMap<Key, Vec<u8>>, dice: &mut Rng) {
    let keys: Vec<Key> = records.keys().copied().collect();
    let key = keys[dice.usize(0..keys.len())];
    let other = keys[dice.usize(0..keys.len())];
    let bytes = records.get_mut(&key).expect("a key of the map");
    match dice.u8(0..10) {
        0 => drop(records.remove(&key)),
        1 => bytes.truncate(dice.usize(0..=bytes.len())),
        2 => bytes.extend([dice.u8(..), dice.u8(..)]),
        3 => {
            let bytes = bytes.clone();
            records.insert((key.0, key.1, other.2), bytes);
        }
        4 => {
            let bytes = bytes.clone();
            records.insert((key.0, other.1, key.2), bytes);
        }
        _ => {
            let at = dice.usize(0..bytes.len().max(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte = dice.u8(..);
            }
        }
    }
}

impl World {
    /// Makes both devices go on from damaged records.
    fn go_on_damaged(&mut self, dice: &mut Rng) {
        for _ in 0..dice.u8(1..4) {
            damage(&mut self.book.lock().unwrap().committed, dice);
        }
        let fabric = std::mem::take(&mut self.pair.fabric);
        self.pair.fabric = fabric.reborn(|number, guest| {
            let records = self.book.lock().unwrap().records_of(number);
            revive_or_reset(guest, &records, Notes::of(number, &self.book));
        });
    }
}

/// Like the daemon: a device without a record of its registers begins in reset.
fn revive_or_reset(guest: &mut Guest, records: &[SavedRecord], journal: Box<dyn Journal>) {
    let config = *guest.device.config();
    let doorbells = guest.device.doorbell_fd();
    let doorbells = doorbells.map(|fd| fd.try_clone_to_owned().unwrap());
    let (space, now) = (Arc::clone(guest.dma()), guest.now());
    let resumed = Device::resume(
        config,
        Arc::clone(&space),
        doorbells,
        records,
        Some(journal),
        now,
    );
    guest.device = resumed.unwrap_or_else(|_| Device::new(config, space).unwrap());
}

fn survives(seed: u64, kind: Work) {
    let mut dice = Rng::with_seed(seed);
    let mut world = World::new(PairOptions::default());
    let srq = (kind == Work::Send && seed.is_multiple_of(2)).then(|| with_shared_queue(&mut world));
    let mut traffic = Traffic::new(kind, srq);
    for _ in 0..dice.u8(0..6) {
        traffic.programs(&mut world.pair);
        world.pair.fabric.turn();
    }
    traffic.programs(&mut world.pair);
    world.commit();
    world.go_on_damaged(&mut dice);
    for _ in 0..3 {
        world.pair.fabric.pump();
        world.pair.fabric.pass(Duration::from_millis(20));
    }
}

/// Kind of the engine's record of a queue pair.
const QP_RECORD: u16 = 27;

/// Keys of the recorded queue pairs of the first guest.
fn recorded_qps(world: &World) -> Vec<Key> {
    let book = world.book.lock().unwrap();
    let keys = book.committed.keys().copied();
    keys.filter(|key| (key.0, key.1) == (0, QP_RECORD))
        .collect()
}

#[test]
fn a_damaged_queue_pair_ends_and_the_others_go_on() {
    for byte in 0..64 {
        let mut world = World::new(PairOptions::default());
        let before = recorded_qps(&world);
        let (pd, cqs) = (world.pair.a.pd, world.pair.a.clone());
        let cqs = (&cqs.send_cq, &cqs.recv_cq);
        let vm = &mut world.pair.fabric[0];
        vm.create_qp(pd, cqs, None, QpShape::RC).unwrap();
        world.commit();
        let now = recorded_qps(&world);
        let key = now.into_iter().find(|key| !before.contains(key)).unwrap();
        let mut book = world.book.lock().unwrap();
        let record = book.committed.get_mut(&key).unwrap();
        record[byte % 8] ^= 0x80 | byte as u8;
        drop(book);
        world.go_on();
        let events = world.pair.fabric[0].take_events();
        // If the first byte is changed nothing can be read; other bytes may be valid with other values.
        if byte % 8 == 0 {
            assert!(events.contains(&(EventCode::QpFatal, key.2)), "{events:?}");
        }
        Traffic::new(Work::Send, None).crashes_at(&mut world, u32::MAX);
    }
}

#[test]
fn no_damaged_records_end_the_process() {
    for kind in [Work::Send, Work::Write, Work::Read, Work::WriteImm] {
        (0..TRIES).for_each(|seed| survives(seed, kind));
    }
}
