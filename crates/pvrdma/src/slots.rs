//! Our half of objects that the engine numbers: a sparse table by the engine's number.

/// At most one value for each small number; the engine bounds the numbers.
pub(crate) struct Slots<T> {
    entries: Vec<Option<Box<T>>>,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_deref_mut()
    }

    /// Puts `value` where the engine has just made an object.
    pub(crate) fn put(&mut self, index: u32, value: T) {
        let index = index as usize;
        if self.entries.len() <= index {
            self.entries.resize_with(index + 1, || None);
        }
        self.entries[index] = Some(Box::new(value));
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Box<T>> {
        self.entries.get_mut(index as usize)?.take()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = (0..).zip(&self.entries);
        numbered.filter_map(|(index, entry)| Some((index, entry.as_deref()?)))
    }

    /// The numbers of values that `wanted` picks.
    pub(crate) fn numbers(&self, wanted: impl Fn(&T) -> bool) -> Vec<u32> {
        let picked = self.iter().filter(|(_, value)| wanted(value));
        picked.map(|(number, _)| number).collect()
    }

    /// Drops every value that `keep` does not want.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for entry in &mut self.entries {
            if entry.as_deref().is_some_and(|value| !keep(value)) {
                *entry = None;
            }
        }
    }
}
