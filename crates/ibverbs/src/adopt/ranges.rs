//! Stretches of addresses that were adopted: few, apart from each other, in ascending order.

use super::kernel::Range;

/// Most stretches. Each is a mapping and may split another one; a process has 65,530, and beyond that its own calls
/// fail, too.
pub(super) const RANGES_MAX: usize = 1000;

/// See the module. The size is fixed, so that no change allocates.
pub(super) struct Ranges {
    all: [Range; RANGES_MAX],
    count: usize,
}

impl Ranges {
    pub(super) const fn new() -> Self {
        Self {
            all: [Range { start: 0, end: 0 }; RANGES_MAX],
            count: 0,
        }
    }

    pub(super) fn all(&self) -> &[Range] {
        &self.all[..self.count]
    }

    /// Whether one more stretch fits.
    pub(super) fn has_room(&self, range: Range) -> bool {
        self.count < RANGES_MAX || !self.touching(range).is_empty()
    }

    /// Adds a stretch; false if it does not fit.
    pub(super) fn add(&mut self, range: Range) -> bool {
        let touching = self.touching(range);
        let merged = match self.all[touching.clone()] {
            [] => range,
            [first, ..] => Range {
                start: first.start.min(range.start),
                end: range.end.max(self.all[touching.end - 1].end),
            },
        };
        self.splice(touching, &[merged])
    }

    /// Takes a stretch away. False: there would be one stretch too many, and nothing changes.
    pub(super) fn remove(&mut self, range: Range) -> bool {
        let touching = self.touching(range);
        let [Some(first), Some(last)] = [touching.clone().next(), touching.clone().next_back()]
        else {
            return true;
        };
        let before = Range {
            start: self.all[first].start,
            end: self.all[first].end.min(range.start),
        };
        let behind = Range {
            start: self.all[last].start.max(range.end),
            end: self.all[last].end,
        };
        match (before.is_empty(), behind.is_empty()) {
            (true, true) => self.splice(touching, &[]),
            (false, true) => self.splice(touching, &[before]),
            (true, false) => self.splice(touching, &[behind]),
            (false, false) => self.splice(touching, &[before, behind]),
        }
    }

    /// Returns the stretches that overlap the range or lie against it.
    fn touching(&self, range: Range) -> std::ops::Range<usize> {
        let first = self.all().partition_point(|known| known.end < range.start);
        let end = self.all().partition_point(|known| known.start <= range.end);
        first..end.max(first)
    }

    fn splice(&mut self, old: std::ops::Range<usize>, new: &[Range]) -> bool {
        let count = self.count - old.len() + new.len();
        if count > RANGES_MAX {
            return false;
        }
        self.all
            .copy_within(old.end..self.count, old.start + new.len());
        self.all[old.start..old.start + new.len()].copy_from_slice(new);
        self.count = count;
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(all: &[(usize, usize)]) -> Ranges {
        let mut ranges = Ranges::new();
        for (start, end) in all {
            ranges.add(Range {
                start: *start,
                end: *end,
            });
        }
        ranges
    }

    fn pairs(ranges: &Ranges) -> Vec<(usize, usize)> {
        let pair = |range: &Range| (range.start, range.end);
        ranges.all().iter().map(pair).collect()
    }

    #[test]
    fn neighbours_become_one() {
        let ranges = ranges(&[(4, 5), (1, 2), (2, 3), (7, 9), (3, 4), (6, 7)]);
        assert_eq!(pairs(&ranges), [(1, 5), (6, 9)]);
    }

    #[test]
    fn there_is_an_end_to_their_number() {
        let many: Vec<_> = (0..RANGES_MAX).map(|i| (i * 4, i * 4 + 2)).collect();
        let mut ranges = ranges(&many);
        let (apart, beside) = (Range::of(RANGES_MAX * 4, 2), Range::of(6, 2));
        assert!(!ranges.has_room(apart) && ranges.has_room(beside));
        assert!(!ranges.add(apart));
        assert!(ranges.remove(Range::of(0, 1)));
        assert_eq!(ranges.all()[0], Range::of(1, 1));
        let inside = Range::of(41, 0);
        assert!(!ranges.remove(inside), "one would become two");
        assert!(ranges.add(beside) && ranges.add(apart));
        assert_eq!(ranges.all().len(), RANGES_MAX);
    }

    proptest! {
        #[test]
        fn they_are_what_a_set_of_addresses_is(
            steps in prop::collection::vec((any::<bool>(), 0usize..60, 1usize..9), 0..60)
        ) {
            let (mut ranges, mut set) = (Ranges::new(), std::collections::BTreeSet::new());
            for (adds, start, size) in steps {
                let range = Range::of(start, size);
                if adds {
                    ranges.add(range);
                    set.extend(range.start..range.end);
                } else {
                    ranges.remove(range);
                    set.retain(|at| !(range.start..range.end).contains(at));
                }
            }
            let flat: Vec<_> = ranges.all().iter().flat_map(|range| range.start..range.end).collect();
            prop_assert_eq!(flat, set.into_iter().collect::<Vec<_>>());
            let apart = ranges.all().windows(2).all(|pair| pair[0].end < pair[1].start);
            prop_assert!(apart);
        }
    }
}
