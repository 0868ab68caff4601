//! What the daemon reaches by its addresses, in regions that are registered now. Such pages must not be exchanged:
//! `/proc/PID/mem` answers `EIO` while they are, at once.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::kernel::Range;

struct Known {
    next: u64,
    ranges: BTreeMap<u64, Range>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known {
    next: 0,
    ranges: BTreeMap::new(),
});

/// Keeps a stretch known.
#[derive(Debug)]
pub(crate) struct ByAddress(u64);

impl ByAddress {
    pub(super) fn new(range: Range) -> Self {
        let mut known = KNOWN.lock();
        let number = known.next;
        known.next += 1;
        known.ranges.insert(number, range);
        Self(number)
    }
}

impl Drop for ByAddress {
    fn drop(&mut self) {
        KNOWN.lock().ranges.remove(&self.0);
    }
}

/// Whether any byte of the range is reached so.
pub(super) fn has(range: Range) -> bool {
    let known = KNOWN.lock();
    known.ranges.values().any(|other| other.overlaps(range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_known_for_as_long_as_it_is_kept() {
        let base = 1 << 60;
        let (one, other) = (
            ByAddress::new(Range::of(base, 100)),
            ByAddress::new(Range::of(base + 50, 100)),
        );
        let asked = [Range::of(base + 10, 1), Range::of(base + 140, 100)];
        assert_eq!(asked.map(has), [true, true]);
        drop(one);
        assert_eq!(asked.map(has), [false, true]);
        drop(other);
        assert_eq!(asked.map(has), [false, false]);
    }
}
