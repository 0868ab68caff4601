//! Space in a send queue's data area.
//!
//! ```text
//!   tail .. head   pieces in use, in the order of their slots; cursors run free, place = cursor mod size
//! ```

use crate::DATA_ALIGN;

/// The bytes of a data area that are in use.
#[derive(Debug)]
pub(super) struct DataRing {
    size: u64,
    head: u64,
    tail: u64,
    /// For each slot, the head after its piece.
    ends: Box<[u64]>,
}

impl DataRing {
    pub(super) fn new(size: u32, slots: u32) -> Self {
        Self {
            size: size.into(),
            head: 0,
            tail: 0,
            ends: vec![0; slots as usize].into(),
        }
    }

    /// Takes a contiguous piece for the next slot and returns its place. `None` if there is no room now, or if more
    /// than `most` bytes would be in use then.
    pub(super) fn take(&mut self, length: u32, most: u32) -> Option<u32> {
        let length = u64::from(length.next_multiple_of(DATA_ALIGN));
        let place = self.head.checked_rem(self.size)?;
        let gap = if place + length > self.size {
            self.size - place
        } else {
            0
        };
        let start = self.head + gap;
        (start + length - self.tail <= self.size.min(most.into())).then_some(())?;
        self.head = start + length;
        Some((start % self.size) as u32)
    }

    /// Notes that the slot was filled, with or without a piece.
    pub(super) fn filled(&mut self, slot: u32) {
        self.ends[slot as usize] = self.head;
    }

    /// Notes that all slots up to this one are free again.
    pub(super) fn freed(&mut self, slot: u32) {
        self.tail = self.ends[slot as usize];
    }

    pub(super) fn reset(&mut self) {
        self.tail = self.head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_contiguous_and_come_back_in_order() {
        let mut ring = DataRing::new(256, 4);
        assert_eq!(ring.take(100, u32::MAX), Some(0));
        ring.filled(0);
        assert_eq!(ring.take(10, u32::MAX), Some(128));
        ring.filled(1);
        assert_eq!(ring.take(100, u32::MAX), None);
        ring.freed(0);
        assert_eq!(
            ring.take(100, u32::MAX),
            Some(0),
            "wraps, since 64 bytes at the end do not do"
        );
        ring.filled(2);
        assert_eq!(ring.take(1, u32::MAX), None);
        ring.freed(1);
        assert_eq!(ring.take(1, u32::MAX), Some(128));
    }

    #[test]
    fn who_may_use_less_leaves_room() {
        let mut ring = DataRing::new(256, 4);
        assert_eq!(ring.take(100, 128), Some(0));
        ring.filled(0);
        assert_eq!(ring.take(100, 128), None);
        assert_eq!(ring.take(100, u32::MAX), Some(128));
    }

    #[test]
    fn too_long_never_fits() {
        let mut ring = DataRing::new(256, 4);
        assert_eq!(ring.take(300, u32::MAX), None);
        assert_eq!(DataRing::new(0, 4).take(1, u32::MAX), None);
    }
}
