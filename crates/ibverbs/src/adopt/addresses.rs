//! The parts of the registered regions that the daemon reaches now, and how.
//!
//! | how | consequence |
//! |---|---|
//! | by its addresses | such pages must not be exchanged: meanwhile `/proc/PID/mem` answers `EIO` at once |
//! | as adopted memory | whatever is at these addresses later must be adopted, too ([`super::unmapped`]) |

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::kernel::Range;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    ByAddress,
    Adopted,
}

struct Known {
    next: u64,
    ranges: BTreeMap<u64, (Range, How)>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known {
    next: 0,
    ranges: BTreeMap::new(),
});

/// A stretch that stays known while this lives.
#[derive(Debug)]
pub(crate) struct Reached(u64);

impl Reached {
    pub(super) fn by_address(range: Range) -> Self {
        Self::new(range, How::ByAddress)
    }

    pub(super) fn adopted(range: Range) -> Self {
        Self::new(range, How::Adopted)
    }

    fn new(range: Range, how: How) -> Self {
        let mut known = KNOWN.lock();
        let number = known.next;
        known.next += 1;
        known.ranges.insert(number, (range, how));
        Self(number)
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        KNOWN.lock().ranges.remove(&self.0);
    }
}

/// Whether any byte of the range is reached by its address.
pub(super) fn has(range: Range) -> bool {
    let known = KNOWN.lock();
    let mut all = known.ranges.values();
    all.any(|(other, how)| *how == How::ByAddress && other.overlaps(range))
}

/// Returns the parts of the range that regions have as adopted memory: apart from each other, in ascending order.
pub(super) fn adopted_in(range: Range) -> Vec<Range> {
    let known = KNOWN.lock();
    let adopted = known
        .ranges
        .values()
        .filter(|(_, how)| *how == How::Adopted);
    let parts = adopted.map(|(other, _)| other.common(range));
    let mut parts: Vec<Range> = parts.filter(|part| !part.is_empty()).collect();
    drop(known);
    parts.sort_unstable_by_key(|part| part.start);
    parts.dedup_by(|next, before| {
        let touches = next.start <= before.end;
        if touches {
            before.end = before.end.max(next.end);
        }
        touches
    });
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_known_for_as_long_as_it_is_kept() {
        let base = 1 << 60;
        let (one, other) = (
            Reached::by_address(Range::of(base, 100)),
            Reached::by_address(Range::of(base + 50, 100)),
        );
        let asked = [Range::of(base + 10, 1), Range::of(base + 140, 100)];
        assert_eq!(asked.map(has), [true, true]);
        drop(one);
        assert_eq!(asked.map(has), [false, true]);
        drop(other);
        assert_eq!(asked.map(has), [false, false]);
    }

    #[test]
    fn adopted_stretches_are_told_apart() {
        let base = 1 << 61;
        let _by_address = Reached::by_address(Range::of(base, 10));
        let _adopted = Reached::adopted(Range::of(base + 10, 100));
        assert!(!has(Range::of(base + 10, 100)));
        assert_eq!(adopted_in(Range::of(base, 20)), [Range::of(base + 10, 10)]);
        assert_eq!(adopted_in(Range::of(base + 110, 20)), []);
        let _more = [(105, 10), (200, 5), (20, 5)]
            .map(|(at, size)| Reached::adopted(Range::of(base + at, size)));
        let all = [Range::of(base + 10, 105), Range::of(base + 200, 5)];
        assert_eq!(adopted_in(Range::of(base, 300)), all);
    }
}
