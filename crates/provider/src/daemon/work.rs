//! Send and receive rings: the client produces, the daemon consumes.
//!
//! ```text
//!   released ≤ fetched ≤ producer ≤ released + slots
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use zerocopy::{FromBytes, IntoBytes};

use super::RingError;
use crate::atomics::{Area, AtomicU32, one_order};
use crate::layout::{Buffer, queue_header};
use crate::message::QueueGeometry;

/// One work queue.
#[derive(Debug)]
pub struct WorkRing {
    area: Arc<Area>,
    ring: QueueGeometry,
    producer: u32,
    fetched: u32,
    released: u32,
    /// The consumer index that the client sees.
    shown: u32,
}

/// A slot that was fetched: read each part of it once.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    area: &'a Area,
    at: usize,
    stride: usize,
}

impl Slot<'_> {
    /// A private copy of the header.
    #[inline]
    pub fn header<T: FromBytes + IntoBytes>(&self) -> T {
        self.area.get(self.at)
    }

    /// A private copy of buffer `index` behind a header `T`; `None` beyond the slot.
    #[inline]
    pub fn buffer<T>(&self, index: usize) -> Option<Buffer> {
        let offset = size_of::<T>() + index.checked_mul(size_of::<Buffer>())?;
        (offset + size_of::<Buffer>() <= self.stride).then(|| self.area.get(self.at + offset))
    }
}

impl WorkRing {
    /// Makes a ring over fresh memory that `ring` was planned for.
    pub fn new(area: Arc<Area>, ring: QueueGeometry) -> Self {
        Self {
            area,
            ring,
            producer: 0,
            fetched: 0,
            released: 0,
            shown: 0,
        }
    }

    /// Makes a ring over memory that was in use before, from the oldest request on that was not released then: requests
    /// that were fetched and not released are fetched again.
    pub fn resume(area: Arc<Area>, ring: QueueGeometry, released: u32) -> Self {
        let ring = Self {
            area,
            ring,
            producer: released,
            fetched: released,
            released,
            shown: released,
        };
        // The client may not have been shown this index. The word is written only in that case: a page fault that
        // writes maps one page, one that reads maps the pages around it, too.
        let shown = ring.word(queue_header::CONSUMER);
        if shown.load(Acquire) != released {
            shown.store(released, Release);
        }
        ring
    }

    /// Number of requests released so far.
    #[inline]
    pub fn released(&self) -> u32 {
        self.released
    }

    /// Slots of the ring.
    pub fn slots(&self) -> u32 {
        self.ring.slots
    }

    /// Sets the indices to zero, as the client does when the reply to a reset is there.
    pub fn restart(&mut self) {
        (self.producer, self.fetched) = (0, 0);
        (self.released, self.shown) = (0, 0);
        for word in [
            queue_header::PRODUCER,
            queue_header::CONSUMER,
            queue_header::RING,
        ] {
            self.word(word).store(0, Release);
        }
    }

    /// Requests that can be fetched; the client's index is read only when the known requests are used up.
    #[inline]
    pub fn available(&mut self) -> Result<u32, RingError> {
        if self.producer == self.fetched {
            self.refresh()?;
        }
        Ok(self.producer.wrapping_sub(self.fetched))
    }

    /// Reads the client's index and returns how many requests can be fetched.
    pub fn refresh(&mut self) -> Result<u32, RingError> {
        let producer = self.word(queue_header::PRODUCER).load(SeqCst);
        let filled = producer.wrapping_sub(self.released);
        // A producer that moved back behind what was fetched is as impossible as one too far ahead.
        if filled > self.ring.slots || filled < self.fetched.wrapping_sub(self.released) {
            return Err(RingError::Index);
        }
        self.producer = producer;
        Ok(producer.wrapping_sub(self.fetched))
    }

    /// Takes the next request.
    #[inline]
    pub fn fetch(&mut self) -> Result<Option<Slot<'_>>, RingError> {
        if self.available()? == 0 {
            return Ok(None);
        }
        let slot = self.fetched & (self.ring.slots - 1);
        self.fetched = self.fetched.wrapping_add(1);
        let at = (self.ring.slots_at + slot * self.ring.stride) as usize;
        Ok(Some(Slot {
            area: &self.area,
            at,
            stride: self.ring.stride as usize,
        }))
    }

    /// Notes that the oldest request in use is done.
    pub fn release(&mut self) {
        if self.released != self.fetched {
            self.released = self.released.wrapping_add(1);
        }
    }

    /// Lets the client reuse the slots of requests that are done.
    #[inline]
    pub fn show_released(&mut self) {
        if self.shown != self.released {
            self.word(queue_header::CONSUMER)
                .store(self.released, Release);
            self.shown = self.released;
        }
    }

    /// Sets whether the client must ring after each posting; look at the ring once more afterwards.
    pub fn demand_ring(&mut self, on: bool) {
        self.word(queue_header::RING).store(on.into(), SeqCst);
        one_order();
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        self.area.u32(self.ring.header as usize + offset)
    }
}
