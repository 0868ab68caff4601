//! Who of a queue is gone and still in it.

use std::collections::BTreeMap;

/// See the module. Without any, which is nearly always, nothing is looked up.
#[derive(Debug)]
pub(super) struct Gone<T> {
    /// What is in the queue of each and came by then is gone.
    by: BTreeMap<T, u64>,
    /// How many in the queue are.
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
    /// One in the queue is gone; so many have come by now.
    pub(super) fn add(&mut self, one: T, came: u64) {
        self.by.insert(one, came);
        self.count += 1;
    }

    pub(super) fn has(&self, one: T, came: u64) -> bool {
        self.count > 0 && self.by.get(&one).is_some_and(|by| came <= *by)
    }

    /// Whether one is gone, which leaves the queue then.
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

    /// Whether they are so many in a queue of such a length that it costs each of them a look or two to take them all
    /// out: there are never more of them than of the others.
    pub(super) fn are_most(&self, length: usize) -> bool {
        2 * self.count > length
    }
}
