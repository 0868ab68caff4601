//! Tables of objects by small number.
//!
//! ```text
//!   slots:  [ -, A, B, -, C, ... ]        free, oldest first:  3, 0
//! ```
//!
//! A slot is reused as late as the table's limit and [`LATE_REUSE`] allow. Objects that others name also have a
//! [name](crate::names), a new one for each use of a slot. A slot keeps the name of its last object until it gets the
//! next one, so that no other object has that name soon.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::error::Error;
use crate::names::{Name, Names, Source};

/// Freed slots that wait before one of them is used again: more than the doorbells or keys that a
/// peer can have in flight for objects just destroyed, and little memory.
const LATE_REUSE: usize = 256;

struct Slot<T> {
    name: Name,
    value: Option<T>,
}

/// A table of at most `limit` objects, numbered from `first` to `limit - 1`.
pub(crate) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
    limit: u32,
    /// Number of slots at the start that never hold anything.
    unused: u32,
    names: Names,
    live: u32,
    /// Number of objects looked at, for tests of an operation's cost.
    #[cfg(test)]
    visits: core::cell::Cell<u64>,
}

impl<T> Table<T> {
    /// Makes a table of objects that are known by slot alone.
    pub(crate) fn new(first: u32, limit: u32) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(first as usize, || Slot::vacant(Name::NONE));
        Self {
            slots,
            free: VecDeque::new(),
            limit,
            unused: first,
            names: Names::plain(),
            live: 0,
            #[cfg(test)]
            visits: Default::default(),
        }
    }

    /// Makes a table of objects that others name.
    pub(crate) fn named(first: u32, limit: u32, source: Source) -> Self {
        Self {
            names: Names::new(source),
            ..Self::new(first, limit)
        }
    }

    /// Returns how many objects were looked at since the table was made.
    #[cfg(test)]
    pub(crate) fn visits(&self) -> u64 {
        self.visits.get()
    }

    #[inline]
    fn visit(&self) {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
    }

    /// Returns the number of live objects.
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

    /// Returns the slot that a number names: the slot of an object, or of the last object that was in it.
    #[inline]
    pub(crate) fn slot_named(&self, number: u32) -> Option<u32> {
        self.names.find(number)
    }

    /// Returns the object that a number names.
    #[inline]
    pub(crate) fn get_named(&self, number: u32) -> Option<&T> {
        self.get(self.slot_named(number)?)
    }

    /// Returns the number of the object in a slot, or of the last one that was in it.
    pub(crate) fn number(&self, index: u32) -> u32 {
        let slot = self.slots.get(index as usize);
        let name = slot.map_or(Name::NONE, |slot| slot.name);
        match self.names.are_plain {
            true => index,
            false => name.number(),
        }
    }

    /// Puts the object that `make` builds from its slot and name into the table.
    pub(crate) fn insert(&mut self, make: impl FnOnce(u32, Name) -> T) -> Result<u32, Error> {
        let index = self.vacancy().ok_or(Error::Exhausted)?;
        if !self.rename(index) {
            self.free.push_back(index);
            return Err(Error::Exhausted);
        }
        let slot = &mut self.slots[index as usize];
        debug_assert!(slot.value.is_none(), "a slot of another object");
        slot.value = Some(make(index, slot.name));
        self.live += 1;
        debug_assert!(self.live <= self.limit, "no more than the table may have");
        Ok(index)
    }

    /// Gives a slot another name, if the objects of this table have names.
    fn rename(&mut self, index: u32) -> bool {
        if self.names.are_plain {
            return true;
        }
        let Some(name) = self.names.give(index) else {
            return false;
        };
        let slot = &mut self.slots[index as usize];
        let before = core::mem::replace(&mut slot.name, name);
        if before != Name::NONE {
            self.names.forget(before.number());
        }
        true
    }

    /// Removes an object and returns it.
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.slots.get_mut(index as usize)?.value.take()?;
        debug_assert!(index >= self.unused, "nothing is there");
        self.free.push_back(index);
        self.live -= 1;
        Some(value)
    }

    /// Returns the name of every slot, for saving.
    pub(crate) fn names(&self) -> impl Iterator<Item = Name> {
        let are_plain = self.names.are_plain;
        let names = self.slots.iter().map(|slot| slot.name);
        names.map(move |name| if are_plain { Name::new(0, 0) } else { name })
    }

    /// Returns how much of the names' source was used, for saving.
    pub(crate) fn drawn(&self) -> u64 {
        self.names.source.drawn
    }

    /// Returns the free slots, oldest first, for saving.
    pub(crate) fn free(&self) -> impl Iterator<Item = u32> {
        self.free.iter().copied()
    }

    /// Restoring: sets the slots, still without objects, and their names, after `drawn` words of the names' source were
    /// used. False when there are more slots than the table may have, or fewer than the ones that it never uses, or
    /// when the names are impossible.
    pub(crate) fn set_slots(&mut self, names: &[Name], drawn: u64) -> bool {
        let most = self.limit.max(self.unused) as usize;
        let fits = (self.unused as usize..=most).contains(&names.len());
        if fits {
            self.slots = names.iter().map(|name| Slot::vacant(*name)).collect();
        }
        if !fits || self.names.are_plain {
            return fits;
        }
        self.names.source.drawn = drawn;
        self.names.set(names)
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
            self.slots.push(Slot::vacant(Name::NONE));
            index
        })
    }
}

impl<T> Slot<T> {
    fn vacant(name: Name) -> Self {
        Self { name, value: None }
    }
}
