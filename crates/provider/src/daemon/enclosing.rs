//! Messages that entries of a completion queue enclose, in its data area.
//!
//! ```text
//!   tail .. head   messages of entries that the client has not polled; cursors run free
//!                  a message begins at its cursor mod size and is contiguous: behind the area is room for one more
//! ```

use std::collections::VecDeque;
use std::sync::atomic::Ordering::AcqRel;

use crate::atomics::Area;
use crate::layout::{Buffer, Completion, ENCLOSED_MAX, ENCLOSING_AREA, EnclosedHeader};
use crate::message::QueueGeometry;
use crate::{BUFFERS_MAX, DATA_ALIGN};

/// The bytes of a data area that are in use.
#[derive(Debug, Default)]
pub(super) struct Enclosing {
    size: u64,
    head: u64,
    tail: u64,
    /// For each entry with a message, its index and the head behind the message.
    ends: VecDeque<(u32, u64)>,
    /// Entries before this index may have messages at places that are no longer known: nothing is written until the
    /// client has polled these entries.
    resumed_at: Option<u32>,
}

impl Enclosing {
    /// Starts over a fresh data area, or without one.
    pub(super) fn new(ring: &QueueGeometry) -> Self {
        let is_there = ring.data_bytes >= ENCLOSING_AREA + ENCLOSED_MAX;
        Self {
            size: if is_there { ENCLOSING_AREA.into() } else { 0 },
            ..Self::default()
        }
    }

    /// Starts over an area that was in use until entry `written`. The entries of `enclosing`, before it, say that they
    /// enclose a message.
    pub(super) fn resume(
        ring: &QueueGeometry,
        written: u32,
        enclosing: impl Iterator<Item = u32>,
    ) -> Self {
        let fresh = Self::new(ring);
        // A client may have marked more entries than there was ever room for.
        let most = (fresh.size / u64::from(DATA_ALIGN)) as usize;
        Self {
            ends: enclosing.take(most).map(|entry| (entry, 0)).collect(),
            resumed_at: Some(written),
            ..fresh
        }
    }

    /// Returns entry number `place` among those with messages that the client is not known to have polled.
    pub(super) fn entry(&self, place: usize) -> Option<u32> {
        self.ends.get(place).map(|(entry, _)| *entry)
    }

    /// Bytes that messages may take now.
    pub(super) fn room(&self) -> u32 {
        match self.resumed_at {
            Some(_) => 0,
            None => (self.size - (self.head - self.tail)) as u32,
        }
    }

    /// Whether less than half of the area is free.
    pub(super) fn is_short(&self) -> bool {
        u64::from(self.room()) < self.size / 2
    }

    /// Takes room for a message of the next entry and returns its place; `None` without room.
    pub(super) fn take(&mut self, entry: u32, length: u32) -> Option<u32> {
        let length = length.next_multiple_of(DATA_ALIGN);
        (length <= self.room().min(ENCLOSED_MAX)).then_some(())?;
        let place = self.head.checked_rem(self.size)?;
        self.head += u64::from(length);
        self.ends.push_back((entry, self.head));
        Some(place as u32)
    }

    /// Notes that the client has polled all entries before this one.
    pub(super) fn polled(&mut self, entry: u32) {
        // Free-running indices: a ring holds far less than half of their range.
        let is_polled = |before: u32| (entry.wrapping_sub(before) as i32) > 0;
        while let Some((index, end)) = self.ends.front().copied()
            && is_polled(index)
        {
            self.tail = end;
            self.ends.pop_front();
        }
        if self
            .resumed_at
            .is_some_and(|at| entry == at || is_polled(at))
        {
            self.resumed_at = None;
        }
    }
}

/// A message in a data area; the client may have changed it.
pub(super) struct Message<'a> {
    area: &'a Area,
    at: usize,
    header: EnclosedHeader,
    bytes: usize,
}

impl<'a> Message<'a> {
    /// Finds the message that an entry encloses; `None` without one, or if its place is not valid.
    pub(super) fn of(area: &'a Area, ring: &QueueGeometry, entry: &Completion) -> Option<Self> {
        let end = entry.enclosed_at.checked_add(entry.enclosed_bytes)?;
        let aligned = entry.enclosed_at.is_multiple_of(DATA_ALIGN);
        let bytes = entry.enclosed_bytes as usize;
        let whole = bytes >= size_of::<EnclosedHeader>() && entry.enclosed_bytes <= ENCLOSED_MAX;
        (aligned && whole && end <= ring.data_bytes).then_some(())?;
        let at = (ring.data_at + entry.enclosed_at) as usize;
        let header = area.get(at);
        Some(Self {
            area,
            at,
            header,
            bytes,
        })
    }

    /// Copies all of the message, for another area.
    pub(super) fn raw(&self) -> Vec<u8> {
        let mut raw = vec![0; self.bytes];
        self.area.read(self.at, &mut raw);
        raw
    }

    /// The message's buffers; none if they make no sense.
    pub(super) fn buffers(&self) -> Vec<Buffer> {
        let count = self.header.buffers.min(BUFFERS_MAX) as usize;
        let mut at = size_of::<EnclosedHeader>();
        let mut buffers = Vec::with_capacity(count);
        while buffers.len() < count && at + size_of::<Buffer>() <= self.bytes {
            buffers.push(self.area.get(self.at + at));
            at += size_of::<Buffer>();
        }
        buffers
    }

    /// The bytes that belong into that many buffers.
    pub(super) fn payload(&self, buffers: usize) -> Vec<u8> {
        let before = size_of::<EnclosedHeader>() + buffers * size_of::<Buffer>();
        let mut payload = vec![0; self.bytes.saturating_sub(before)];
        if !payload.is_empty() {
            self.area.read(self.at + before, &mut payload);
        }
        payload
    }

    /// Claims the message. Whether the caller has to put it in place.
    pub(super) fn claim(&self) -> bool {
        self.area.u32(self.at).swap(1, AcqRel) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Enclosing {
        Enclosing::new(&QueueGeometry {
            data_bytes: ENCLOSING_AREA + ENCLOSED_MAX,
            ..QueueGeometry::default()
        })
    }

    #[test]
    fn messages_are_contiguous_across_the_end_and_free_when_their_entries_are_polled() {
        let mut area = fresh();
        let most = ENCLOSED_MAX - DATA_ALIGN;
        let mut starts = Vec::new();
        for entry in u32::MAX - 5..=u32::MAX {
            starts.push(area.take(entry, most).unwrap());
            area.polled(entry);
        }
        let mut entry = 0;
        while let Some(start) = area.take(entry, most) {
            starts.push(start);
            entry += 1;
        }
        assert!(entry > 14, "those of before are free again");
        assert!(starts.iter().all(|start| *start < ENCLOSING_AREA));
        assert!(starts.iter().any(|start| start + most > ENCLOSING_AREA));
        area.polled(entry);
        assert_eq!(area.room(), ENCLOSING_AREA);
        assert_eq!(area.entry(0), None);
    }

    #[test]
    fn what_is_too_long_and_what_has_no_area_is_refused() {
        assert_eq!(fresh().take(0, ENCLOSED_MAX + 1), None);
        let mut none = Enclosing::new(&QueueGeometry::default());
        assert_eq!((none.room(), none.take(0, 1)), (0, None));
    }

    #[test]
    fn after_a_crash_it_waits_until_all_entries_of_before_are_polled() {
        let mut area = Enclosing::resume(
            &QueueGeometry {
                data_bytes: ENCLOSING_AREA + ENCLOSED_MAX,
                ..QueueGeometry::default()
            },
            7,
            [5, 6].into_iter(),
        );
        area.polled(6);
        assert_eq!([0, 1].map(|place| area.entry(place)), [Some(6), None]);
        assert_eq!((area.room(), area.take(7, 1)), (0, None));
        area.polled(7);
        assert_eq!(area.take(7, 1), Some(0));
    }
}
