//! The front end's half of objects that the engine numbers: a sparse table by the engine's number.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// At most one value for each small number; the engine bounds the numbers.
#[derive(Debug)]
pub struct Slots<T> {
    entries: Vec<Option<Box<T>>>,
}

impl<T> Slots<T> {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// The value of a number.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_deref()
    }

    /// The same, to change it.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_deref_mut()
    }

    /// Puts `value` where the engine has just made an object.
    pub fn put(&mut self, index: u32, value: T) {
        let index = index as usize;
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index] = Some(Box::new(value));
    }

    /// Takes a value out.
    pub fn take(&mut self, index: u32) -> Option<T> {
        Some(*self.entries.get_mut(index as usize)?.take()?)
    }

    /// All values with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = (0..).zip(&self.entries);
        numbered.filter_map(|(index, entry)| Some((index, entry.as_deref()?)))
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let numbered = (0..).zip(&mut self.entries);
        numbered.filter_map(|(index, entry)| Some((index, entry.as_deref_mut()?)))
    }

    /// The numbers of values that `wanted` picks.
    pub fn numbers(&self, wanted: impl Fn(&T) -> bool) -> Vec<u32> {
        let picked = self.iter().filter(|(_, value)| wanted(value));
        picked.map(|(number, _)| number).collect()
    }

    /// Drops every value that `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for entry in &mut self.entries {
            if entry.as_deref().is_some_and(|value| !keep(value)) {
                *entry = None;
            }
        }
    }

    /// The smallest number from `first` on that is free.
    pub fn vacant(&self, first: u32) -> u32 {
        let taken = |index: &u32| self.get(*index).is_some();
        (first..).find(|index| !taken(index)).unwrap_or(first)
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}
