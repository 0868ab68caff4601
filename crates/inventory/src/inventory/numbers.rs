//! Numbers that are handed out and given back: always the lowest free one, since the data path keeps
//! tables by number, which therefore stay as small as the inventory.

use std::collections::BTreeSet;

/// See the module. There are never more than were ever in use together.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// Given back, and below `end`.
    free: BTreeSet<u32>,
    /// Nobody has this one or one above it.
    end: u32,
}

impl Numbers {
    /// The lowest free one, which is the caller's from now on.
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    /// A number that was taken is free.
    pub(super) fn give_back(&mut self, number: u32) {
        debug_assert!(number < self.end && !self.free.contains(&number));
        self.free.insert(number);
        while self.end > 0 && self.free.remove(&(self.end - 1)) {
            self.end -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_taken() {
        let mut numbers = Numbers::default();
        assert_eq!([0, 1, 2, 3], std::array::from_fn(|_| numbers.take()));
        numbers.give_back(2);
        numbers.give_back(1);
        assert_eq!([1, 2, 4], std::array::from_fn(|_| numbers.take()));
        for number in [0, 4, 2, 1, 3] {
            numbers.give_back(number);
        }
        assert!(numbers.free.is_empty() && numbers.end == 0, "{numbers:?}");
    }
}
