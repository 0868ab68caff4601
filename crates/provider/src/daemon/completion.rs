//! Completion rings: the daemon produces, the client consumes.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

use super::RingError;
use crate::area::Area;
use crate::layout::{Completion, armed, cq_header};
use crate::message::QueueGeometry;

/// One completion queue.
#[derive(Debug)]
pub struct CompletionRing {
    area: Arc<Area>,
    ring: QueueGeometry,
    producer: u32,
    published: u32,
    /// The client's index as last read and checked.
    consumer: u32,
}

impl CompletionRing {
    /// Over fresh memory that `ring` was planned for.
    pub fn new(area: Arc<Area>, ring: QueueGeometry) -> Self {
        Self {
            area,
            ring,
            producer: 0,
            published: 0,
            consumer: 0,
        }
    }

    /// Over memory that was in use before: so many entries were published.
    ///
    /// Errors: the client's index is impossible.
    pub fn resume(area: Arc<Area>, ring: QueueGeometry, published: u32) -> Result<Self, RingError> {
        let mut resumed = Self {
            area,
            ring,
            producer: published,
            published,
            consumer: published.wrapping_sub(ring.slots),
        };
        resumed.refresh()?;
        // The client may not have been shown them.
        resumed.word(cq_header::PRODUCER).store(published, Release);
        Ok(resumed)
    }

    /// How many entries were written so far.
    #[inline]
    pub fn written(&self) -> u32 {
        self.producer
    }

    /// Entries that fit.
    pub fn slots(&self) -> u32 {
        self.ring.slots
    }

    /// Writes an entry behind the last; the client does not see it yet.
    #[inline]
    pub fn write(&mut self, entry: &Completion) -> Result<(), RingError> {
        if self.producer.wrapping_sub(self.consumer) == self.ring.slots {
            self.refresh()?;
        }
        if self.producer.wrapping_sub(self.consumer) == self.ring.slots {
            return Err(RingError::Full);
        }
        let slot = self.producer & (self.ring.slots - 1);
        self.area.put(
            (self.ring.slots_at + slot * self.ring.stride) as usize,
            entry,
        );
        self.producer = self.producer.wrapping_add(1);
        Ok(())
    }

    /// Shows the client everything written.
    #[inline]
    pub fn publish(&mut self) {
        self.word(cq_header::PRODUCER).store(self.producer, Release);
        self.published = self.producer;
    }

    /// Reads the client's index and tells how many entries it has not taken.
    pub fn refresh(&mut self) -> Result<u32, RingError> {
        let consumer = self.word(cq_header::CONSUMER).load(Acquire);
        let moved = consumer.wrapping_sub(self.consumer);
        if moved > self.published.wrapping_sub(self.consumer) {
            return Err(RingError::Index);
        }
        self.consumer = consumer;
        Ok(self.published.wrapping_sub(consumer))
    }

    /// Whether the client wants to hear of what was published; takes the arming away. `urgent`: a
    /// solicited or failed entry is among it.
    #[inline]
    pub fn take_armed(&self, urgent: bool) -> bool {
        fence(SeqCst);
        let word = self.word(cq_header::ARMED);
        let wanted = word.load(Relaxed);
        let fires = wanted >= armed::ANY || (wanted == armed::SOLICITED && urgent);
        fires && word.swap(armed::NO, AcqRel) != armed::NO
    }

    /// The entries that the client has not taken, and what it armed: for a new ring.
    pub fn unload(&mut self) -> Result<(Vec<Completion>, u32), RingError> {
        let count = self.refresh()?;
        let entries = (0..count).map(|index| {
            let slot = self.consumer.wrapping_add(index) & (self.ring.slots - 1);
            self.area
                .get((self.ring.slots_at + slot * self.ring.stride) as usize)
        });
        let entries = entries.collect();
        Ok((entries, self.word(cq_header::ARMED).swap(armed::NO, AcqRel)))
    }

    /// Arms a fresh ring as its predecessor was.
    pub fn arm(&self, what: u32) {
        self.word(cq_header::ARMED).store(what, Release);
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        self.area.u32(self.ring.header as usize + offset)
    }
}
