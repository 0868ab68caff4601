//! How many debtors have each weight, and which weight is the heaviest.
//!
//! Somebody is in debt for a moment in almost every turn, so nothing is allocated when a weight comes again.

/// The counts; see the module. There are as many as different weights, which are few.
#[derive(Default, Debug)]
pub(super) struct Weights {
    /// By weight.
    counts: Vec<Count>,
}

#[derive(Debug)]
struct Count {
    weight: u32,
    /// Not zero.
    debtors: usize,
}

impl Weights {
    pub(super) fn add(&mut self, weight: u32) {
        match self.find(weight) {
            Ok(at) => self.counts[at].debtors += 1,
            Err(at) => self.counts.insert(at, Count { weight, debtors: 1 }),
        }
    }

    /// Removes a debtor of this weight.
    pub(super) fn remove(&mut self, weight: u32) {
        if let Ok(at) = self.find(weight) {
            self.counts[at].debtors -= 1;
            if self.counts[at].debtors == 0 {
                self.counts.remove(at);
            }
        }
    }

    fn find(&self, weight: u32) -> Result<usize, usize> {
        self.counts.binary_search_by_key(&weight, |it| it.weight)
    }

    pub(super) fn heaviest(&self) -> Option<u32> {
        Some(self.counts.last()?.weight)
    }

    pub(super) fn clear(&mut self) {
        self.counts.clear();
    }

    /// Returns the number of debtors.
    #[cfg(test)]
    pub(super) fn debtors(&self) -> usize {
        self.counts.iter().map(|it| it.debtors).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_is_that_of_those_who_are_left() {
        let mut weights = Weights::default();
        assert_eq!(weights.heaviest(), None);
        for weight in [3, 1, 7, 3, 7] {
            weights.add(weight);
        }
        for (gone, heaviest) in [(7, 7), (1, 7), (7, 3), (3, 3)] {
            weights.remove(gone);
            assert_eq!(weights.heaviest(), Some(heaviest), "without one of {gone}");
        }
        assert_eq!(weights.debtors(), 1);
        weights.remove(3);
        assert_eq!((weights.heaviest(), weights.debtors()), (None, 0));
    }
}
