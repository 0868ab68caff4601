//! Tables of objects by small number.
//!
//! ```text
//!   slots:  [ -, A, B, -, C, ... ]        free, oldest first:  3, 0
//! ```
//!
//! A slot is reused as late as the table's limit and [`LATE_REUSE`] allow, and each use has another
//! generation, so that names of a dead object do not hit its successor.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::error::Error;

/// Freed slots that wait before one of them is used again: more than the doorbells or keys that a
/// peer can have in flight for objects just destroyed, and little memory.
const LATE_REUSE: usize = 256;

struct Slot<T> {
    generation: u8,
    value: Option<T>,
}

/// At most `limit` objects, numbered from `first` to `limit - 1`.
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    limit: u32,
    /// Slots at the start that never hold anything.
    unused: u32,
    /// `None`: every generation is 0.
    seed: Option<u64>,
    live: u32,
    /// Objects looked at, for tests of what an operation costs.
    #[cfg(test)]
    visits: core::cell::Cell<u64>,
}

impl<T> Table<T> {
    /// A table of objects that are known by slot alone.
    pub(crate) fn without_generations(first: u32, limit: u32) -> Self {
        Self {
            seed: None,
            ..Self::new(first, limit, 0)
        }
    }

    pub(crate) fn new(first: u32, limit: u32, seed: u64) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(first as usize, || Slot::vacant(0));
        Self {
            slots,
            free: VecDeque::new(),
            limit,
            unused: first,
            seed: Some(seed),
            live: 0,
            #[cfg(test)]
            visits: Default::default(),
        }
    }

    /// Objects looked at since the table was made.
    #[cfg(test)]
    pub(crate) fn visits(&self) -> u64 {
        self.visits.get()
    }

    #[inline]
    fn visit(&self) {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
    }

    /// Live objects.
    pub(crate) fn len(&self) -> u32 {
        self.live
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.visit();
        self.slots.get(index as usize)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.visit();
        self.slots.get_mut(index as usize)?.value.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let indexed = (0..).zip(&self.slots).inspect(|_| self.visit());
        indexed.filter_map(|(index, slot)| Some((index, slot.value.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        #[cfg(test)]
        self.visits.set(self.visits.get() + self.slots.len() as u64);
        let indexed = (0..).zip(&mut self.slots);
        indexed.filter_map(|(index, slot)| Some((index, slot.value.as_mut()?)))
    }

    /// Puts the object that `make` builds from its slot and generation (1 to 255, or always 0) into
    /// the table.
    pub(crate) fn insert(&mut self, make: impl FnOnce(u32, u8) -> T) -> Result<u32, Error> {
        let index = self.vacancy().ok_or(Error::Exhausted)?;
        let slot = &mut self.slots[index as usize];
        if let Some(seed) = self.seed {
            slot.generation = Course::of(seed, index).after(slot.generation);
        }
        debug_assert!(slot.value.is_none(), "a slot of another object");
        slot.value = Some(make(index, slot.generation));
        self.live += 1;
        debug_assert!(self.live <= self.limit, "no more than the table may have");
        Ok(index)
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.slots.get_mut(index as usize)?.value.take()?;
        debug_assert!(index >= self.unused, "nothing is there");
        self.free.push_back(index);
        self.live -= 1;
        Some(value)
    }

    /// The generation of every slot, for saving.
    pub(crate) fn generations(&self) -> impl Iterator<Item = u8> {
        self.slots.iter().map(|slot| slot.generation)
    }

    /// The free slots, oldest first, for saving.
    pub(crate) fn free(&self) -> impl Iterator<Item = u32> {
        self.free.iter().copied()
    }

    pub(crate) fn generation(&self, index: u32) -> u8 {
        self.slots
            .get(index as usize)
            .map_or(0, |slot| slot.generation)
    }

    /// Restoring: slots without objects. False when they are more than the table may have, or
    /// fewer than the ones that it never uses.
    pub(crate) fn set_slots(&mut self, generations: &[u8]) -> bool {
        let most = self.limit.max(self.unused) as usize;
        let fits = (self.unused as usize..=most).contains(&generations.len());
        if fits {
            self.slots = generations.iter().map(|g| Slot::vacant(*g)).collect();
        }
        fits
    }

    /// Restoring: puts an object into its slot. False when there is no such vacant slot.
    pub(crate) fn occupy(&mut self, index: u32, value: T) -> bool {
        let slot = self.slots.get_mut(index as usize);
        let vacant = slot.filter(|slot| slot.value.is_none() && index >= self.unused);
        self.live += u32::from(vacant.is_some());
        vacant.map(|slot| slot.value = Some(value)).is_some()
    }

    /// Restoring, last: the free slots. False unless they are exactly those without objects.
    pub(crate) fn set_free(&mut self, free: &[u32]) -> bool {
        let vacant = self.slots.len() as u32 - self.unused - self.live;
        let mut once = alloc::collections::BTreeSet::new();
        let right = |index: &u32| {
            let slot = self.slots.get(*index as usize);
            let vacant = slot.is_some_and(|slot| slot.value.is_none());
            vacant && *index >= self.unused && once.insert(*index)
        };
        let exact = free.len() == vacant as usize && free.iter().all(right);
        self.free = free.iter().copied().collect();
        exact
    }

    fn vacancy(&mut self) -> Option<u32> {
        if self.free.len() >= LATE_REUSE {
            return self.free.pop_front();
        }
        self.grow().or_else(|| self.free.pop_front())
    }

    fn grow(&mut self) -> Option<u32> {
        let index = self.slots.len() as u32;
        (index < self.limit).then(|| {
            let generation = self.seed.map_or(0, |seed| Course::of(seed, index).first);
            self.slots.push(Slot::vacant(generation));
            index
        })
    }
}

impl<T> Slot<T> {
    fn vacant(generation: u8) -> Self {
        Self {
            generation,
            value: None,
        }
    }
}

/// A generation for a slot that nothing is known of.
pub(crate) fn generation(seed: u64, slot: u32) -> u8 {
    Course::of(seed, slot).first
}

/// Generations, from 1 on.
const GENERATIONS: u16 = 255;

/// Which generations a slot goes through: all of them, in an order of its own. They are parts of keys
/// and queue pair numbers, so whoever knows those of some slots or of earlier uses must not know the
/// next: they come from a stream cipher with the adapter's seed.
struct Course {
    first: u8,
    step: u16,
}

impl Course {
    fn of(seed: u64, index: u32) -> Self {
        let mut stream = ChaCha8Rng::seed_from_u64(seed);
        stream.set_word_pos(u128::from(index));
        let [first, step, ..] = stream.next_u32().to_le_bytes();
        let mut step = u16::from(step);
        // The prime factors of 255: another step would leave generations out.
        while [3, 5, 17].iter().any(|prime| step % prime == 0) {
            step += 1;
        }
        Self { first, step }
    }

    fn after(&self, generation: u8) -> u8 {
        let place = u16::from(generation) + GENERATIONS - 1;
        ((place + self.step) % GENERATIONS + 1) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What two tables of 64 slots call their objects.
    fn generations(seed: u64) -> Vec<u8> {
        let mut table = Table::new(0, 64, seed);
        while table.insert(|_, generation| generation).is_ok() {}
        table.iter().map(|(_, generation)| *generation).collect()
    }

    #[test]
    fn a_slot_goes_through_all_generations() {
        for seed in 0..50 {
            let course = Course::of(seed, 7);
            let mut generation = course.first;
            let mut seen: Vec<u8> = Vec::new();
            for _ in 0..GENERATIONS {
                generation = course.after(generation);
                seen.push(generation);
            }
            assert_eq!(course.after(generation), seen[0], "and begins again");
            seen.sort_unstable();
            seen.dedup();
            assert_eq!((seen.len(), seen[0]), (255, 1));
        }
    }

    /// F15: numbers followed from the time and from each other.
    #[test]
    fn neither_seed_nor_slot_nor_use_tells_of_others() {
        let (one, next) = (generations(1), generations(2));
        let same = one.iter().zip(&next).filter(|(a, b)| a == b).count();
        assert!(same < 8, "of another seed: {same}");
        for row in [&one, &next] {
            let steps: alloc::collections::BTreeSet<_> =
                row.windows(2).map(|it| it[1].wrapping_sub(it[0])).collect();
            assert!(steps.len() > 32, "of the next slot: {}", steps.len());
        }
        let steps: alloc::collections::BTreeSet<_> =
            (0..64).map(|index| Course::of(1, index).step).collect();
        assert!(steps.len() > 32, "of the next use: {}", steps.len());
    }
}
