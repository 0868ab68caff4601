//! Entries of a queue that are gone but still in it.

use std::collections::BTreeMap;

/// The entries; see the module. While there are none, which is nearly always, nothing is looked up.
#[derive(Debug)]
pub(super) struct Gone<T> {
    /// By entry: its places in the queue that came up to this number are gone.
    by: BTreeMap<T, u64>,
    /// Number of entries in the queue that are gone.
    count: usize,
}

impl<T> Default for Gone<T> {
    fn default() -> Self {
        Self {
            by: BTreeMap::new(),
            count: 0,
        }
    }
}

impl<T: Copy + Ord> Gone<T> {
    /// Notes that an entry in the queue is gone; `came` entries have come by now.
    pub(super) fn add(&mut self, one: T, came: u64) {
        self.by.insert(one, came);
        self.count += 1;
    }

    pub(super) fn has(&self, one: T, came: u64) -> bool {
        self.count > 0 && self.by.get(&one).is_some_and(|by| came <= *by)
    }

    /// Whether an entry, which leaves the queue now, is gone.
    #[inline]
    pub(super) fn take(&mut self, one: T, came: u64) -> bool {
        if !self.has(one, came) {
            return false;
        }
        self.count -= 1;
        if self.count == 0 {
            self.by.clear();
        }
        true
    }

    /// Whether so many of a queue of this length are gone that sweeping costs each of them a look or two: there are
    /// never more of them than of the others.
    pub(super) fn are_most(&self, length: usize) -> bool {
        2 * self.count > length
    }
}
