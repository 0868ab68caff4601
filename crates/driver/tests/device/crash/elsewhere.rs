//! Devices that are frozen in the middle of their lives: another device goes on from the context, or it goes on itself.

use vrdma_driver::PairOptions;
use vrdma_pvrdma::{Context, DeviceState};
use vrdma_wire::Mac;

use super::{Notebook, Notes, Traffic, Work, World};

/// Most turns of the carrier before both devices are frozen.
const TURNS: u32 = 24;

/// Epoch of what peers are told when a device is frozen.
const EPOCH: u64 = 1_700_000_000_000_000_000;

/// The next step of a frozen device.
#[derive(Clone, Copy)]
enum Then {
    /// Another device goes on, from bytes.
    GoesOn,
    /// The device is thawed.
    Thaws,
}

impl World {
    fn freeze_both(&mut self, then: Then) {
        let contexts = [0, 1].map(|guest| {
            let device = &mut self.pair.fabric[guest].device;
            device.advance_epoch(EPOCH);
            let records = device.freeze();
            let mac = Mac([2, 0, 0, 0, 0, guest as u8]);
            let pages = Vec::new();
            Context {
                mac,
                records,
                pages,
            }
            .encode()
        });
        for guest in 0..2 {
            let state = self.pair.fabric[guest].device.snapshot().state;
            assert_eq!(state, DeviceState::Frozen);
        }
        self.pair.fabric.pump();
        match then {
            Then::GoesOn => {
                let book = &self.book;
                let fabric = std::mem::take(&mut self.pair.fabric);
                self.pair.fabric = fabric.reborn(|number, guest| {
                    let context = Context::decode(&contexts[number]).unwrap();
                    guest.revive(&context.records, None).unwrap();
                    guest.device.keep_frozen(Some(Notes::of(number, book)));
                });
                self.stand_still();
            }
            Then::Thaws => {}
        }
        for guest in 0..2 {
            let now = self.pair.fabric[guest].now();
            let device = &mut self.pair.fabric[guest].device;
            assert_eq!(device.epoch(), EPOCH, "it goes with the device");
            device.advance_epoch(EPOCH - 7);
            assert_eq!(device.epoch(), EPOCH + 1, "whatever the clock says there");
            device.thaw(now);
            if let Some(journal) = device.take_journal() {
                device.record_to(journal);
            }
        }
        self.commit();
    }

    /// Checks that devices that wait for the end of their predecessors do nothing that peers notice, and record
    /// nothing.
    fn stand_still(&mut self) {
        self.pair.fabric.pump();
        for guest in 0..2 {
            let device = &mut self.pair.fabric[guest].device;
            device.record();
            assert_eq!(device.snapshot().state, DeviceState::Frozen);
            assert_eq!(device.take_gid_change(), None);
            assert_eq!(device.take_interrupts(), 0);
        }
        let book = self.book.lock().unwrap();
        let counted: Vec<_> = book.batch.keys().chain(book.committed.keys()).collect();
        assert!(counted.is_empty(), "{counted:?}");
    }
}

fn frozen_after(turns: u32, kind: Work, then: Then) -> bool {
    let mut world = World::new(PairOptions::default());
    (0..2).for_each(|guest| world.pair.fabric[guest].device.stop_recording());
    *world.book.lock().unwrap() = Notebook::default();
    let mut traffic = Traffic::new(kind, None);
    let mut unit = 0;
    world.pair.fabric.lose(move |_| {
        unit += 1;
        unit % 3 == 0
    });
    for _ in 0..turns {
        traffic.programs(&mut world.pair);
        world.pair.fabric.turn();
    }
    let under_way = traffic.posted > traffic.sent.len() as u64;
    world.pair.fabric.lose(|_| false);
    world.freeze_both(then);
    traffic.crashes_at(&mut world, u32::MAX);
    if matches!(then, Then::GoesOn) {
        assert!(!world.book.lock().unwrap().records_of(0).is_empty());
    }
    under_way
}

/// A device made from records, frozen when its process ended, continues from the epoch that peers were told.
#[test]
fn the_epoch_is_written_down_before_anybody_is_told() {
    let mut world = World::new(PairOptions::default());
    let device = &mut world.pair.fabric[0].device;
    device.advance_epoch(EPOCH);
    world.commit();
    let records = world.book.lock().unwrap().records_of(0);
    let guest = &mut world.pair.fabric[0];
    guest.device.freeze();
    guest.revive(&records, None).unwrap();
    assert_eq!(guest.device.epoch(), EPOCH);
}

#[test]
fn messages_go_on_where_a_context_left_off_or_after_a_thaw() {
    for kind in [Work::Send, Work::Write, Work::Read, Work::WriteImm] {
        for then in [Then::GoesOn, Then::Thaws] {
            let times = (0..TURNS).filter(|turns| frozen_after(*turns, kind, then));
            let times = times.count();
            assert!(times > 10, "{kind:?} was under way {times} times only");
        }
    }
}
