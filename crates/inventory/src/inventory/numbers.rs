//! Numbers that are handed out and given back: always the lowest free one, since the data path keeps
//! tables by number, which therefore stay as small as the inventory.

use std::collections::BTreeSet;

/// Free and used numbers; see the module. The set never has more numbers than were once in use together.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// Numbers that were given back, all below `end`.
    free: BTreeSet<u32>,
    /// First number from which on all are free.
    end: u32,
}

impl Numbers {
    /// Takes the lowest free number.
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    /// Frees a number that was taken.
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
