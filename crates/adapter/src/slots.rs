//! The front end's half of objects that the engine numbers: a sparse table by the engine's number.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// At most one value for each small number; the engine bounds the numbers.
#[derive(Debug)]
pub struct Slots<T> {
    entries: Vec<Option<Box<T>>>,
    /// Which numbers are taken, a bit each: a search for a free number looks at 64 at a time.
    taken: Vec<u64>,
}

impl<T> Slots<T> {
    /// Makes an empty table.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Returns the value of a number.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_deref()
    }

    /// Returns the value of a number, mutably.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_deref_mut()
    }

    /// Stores `value` under the number of an object that the engine has just made.
    pub fn put(&mut self, index: u32, value: T) {
        let index = index as usize;
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
            self.taken.resize(index / WORD + 1, 0);
        }
        self.taken[index / WORD] |= bit(index);
        self.entries[index] = Some(Box::new(value));
    }

    /// Removes a value and returns it.
    pub fn take(&mut self, index: u32) -> Option<T> {
        let index = index as usize;
        let value = self.entries.get_mut(index)?.take()?;
        self.taken[index / WORD] &= !bit(index);
        Some(*value)
    }

    /// Returns all values with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = (0..).zip(&self.entries);
        numbered.filter_map(|(index, entry)| Some((index, entry.as_deref()?)))
    }

    /// Returns all values with their numbers, mutably.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let numbered = (0..).zip(&mut self.entries);
        numbered.filter_map(|(index, entry)| Some((index, entry.as_deref_mut()?)))
    }

    /// Returns the numbers of the values that `wanted` picks.
    pub fn numbers(&self, wanted: impl Fn(&T) -> bool) -> Vec<u32> {
        let picked = self.iter().filter(|(_, value)| wanted(value));
        picked.map(|(number, _)| number).collect()
    }

    /// Drops every value that `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if entry.as_deref().is_some_and(|value| !keep(value)) {
                *entry = None;
                self.taken[index / WORD] &= !bit(index);
            }
        }
    }

    /// Returns the smallest free number from `first` on.
    pub fn vacant(&self, first: u32) -> u32 {
        let first = first as usize;
        let mut below = bit(first) - 1;
        for (word, taken) in self.taken.iter().enumerate().skip(first / WORD) {
            let taken = taken | core::mem::take(&mut below);
            if taken != u64::MAX {
                return (word * WORD) as u32 + taken.trailing_ones();
            }
        }
        first.max(self.taken.len() * WORD) as u32
    }
}

/// Bits of one word.
const WORD: usize = u64::BITS as usize;

fn bit(index: usize) -> u64 {
    1 << (index % WORD)
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_free_number_is_found() {
        let mut slots = Slots::new();
        assert_eq!(
            (slots.vacant(0), slots.vacant(1), slots.vacant(70)),
            (0, 1, 70)
        );
        (0..130).for_each(|index| slots.put(index, index));
        assert_eq!(
            [0, 64, 129, 130, 200].map(|first| slots.vacant(first)),
            [130, 130, 130, 130, 200]
        );
        assert_eq!(
            [3, 100].map(|index| slots.take(index)),
            [Some(3), Some(100)]
        );
        assert_eq!(
            [0, 4, 100, 101].map(|first| slots.vacant(first)),
            [3, 100, 100, 130]
        );
        slots.retain(|value| *value != 64);
        assert_eq!(slots.vacant(4), 64);
        slots.put(3, 3);
        assert_eq!(slots.vacant(0), 64);
        assert_eq!(slots.take(500), None);
    }
}
