//! Records of version 1. There, numbers were slots: the upper bits of a key were the slot, and a queue pair's number
//! was the slot below 8 bits that changed with each use.
//!
//! A restored adapter keeps its numbers, since peers know them. Objects that it makes from then on get numbers that
//! nobody can guess.

use alloc::vec::Vec;

use crate::names::Name;
use crate::saved::record;

/// Bits of a queue pair's number that held the slot.
const QPN_SLOT_BITS: u32 = 16;

/// Upgrades a whole adapter.
pub(super) fn upgrade(adapter: &mut record::Adapter) {
    number_regions(adapter);
    let plain = adapter.plain_numbers;
    let first = crate::hca::first_qp(plain);
    rename(&mut adapter.mr_slots, Name::new);
    rename(&mut adapter.qp_slots, |slot, generation| {
        match slot < first || plain {
            true => Name::NONE,
            false => Name::new(u32::from(generation) << QPN_SLOT_BITS | slot, 0),
        }
    });
    let known_by_slot = [
        &mut adapter.pd_slots,
        &mut adapter.cq_slots,
        &mut adapter.srq_slots,
    ];
    for slots in known_by_slot {
        rename(slots, |_, _| Name::NONE);
    }
}

fn rename(slots: &mut record::Slots, name: impl Fn(u32, u8) -> Name) {
    let generations = core::mem::take(&mut slots.generations);
    let names = (0..).zip(generations);
    let names: Vec<u32> = names.map(|(slot, it)| name(slot, it).0).collect();
    slots.names = names;
}

/// Numbers regions and windows, also when they are pieces.
pub(super) fn number_regions(adapter: &mut record::Adapter) {
    for mr in &mut adapter.mrs {
        mr.number.get_or_insert(mr.id);
    }
}
