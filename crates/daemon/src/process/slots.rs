//! Our half of objects that the engine numbers: a sparse table by the engine's number.

/// At most one value for each small number; the engine bounds the numbers.
pub(super) struct Slots<T> {
    entries: Vec<Option<Box<T>>>,
}

impl<T> Slots<T> {
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_deref_mut()
    }

    pub(super) fn put(&mut self, index: u32, value: T) {
        let index = index as usize;
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index] = Some(Box::new(value));
    }

    pub(super) fn take(&mut self, index: u32) -> Option<T> {
        Some(*self.entries.get_mut(index as usize)?.take()?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = self.entries.iter().enumerate();
        numbered.filter_map(|(index, entry)| Some((index as u32, entry.as_deref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let numbered = self.entries.iter_mut().enumerate();
        numbered.filter_map(|(index, entry)| Some((index as u32, entry.as_deref_mut()?)))
    }

    /// Drops the values that are not wanted.
    pub(super) fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        for entry in &mut self.entries {
            if entry.as_deref().is_some_and(|value| !wanted(value)) {
                *entry = None;
            }
        }
    }

    /// The smallest number from `first` on that is free.
    pub(super) fn vacant(&self, first: u32) -> u32 {
        let taken = |index: &u32| self.get(*index).is_some();
        (first..).find(|index| !taken(index)).unwrap_or(first)
    }
}
