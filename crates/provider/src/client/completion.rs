//! Taking completions.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use super::Enclosed;
use crate::atomics::{Area, AtomicU32, one_order};
use crate::layout::{COMPLETION_BYTES, Completion, armed, cq_header};
use crate::message::QueueGeometry;

/// A completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    area: Arc<Area>,
    ring: QueueGeometry,
    consumer: u32,
    /// The daemon's index as last read.
    producer: u32,
}

impl CompletionQueue {
    /// Makes the queue over the memory of a CQ, fresh or resized; refuses a geometry that does not fit this memory.
    pub fn new(area: Arc<Area>, ring: QueueGeometry) -> io::Result<Self> {
        super::check(&area, cq_header::BYTES, COMPLETION_BYTES, &ring)?;
        Ok(Self {
            area,
            ring,
            consumer: 0,
            producer: 0,
        })
    }

    /// Takes the oldest entry. A message that the entry encloses is given to `put`, which puts it in place before the
    /// daemon may use the entry's slot again.
    #[inline]
    pub fn poll(&mut self, put: impl FnOnce(&Completion, &Enclosed<'_>)) -> Option<Completion> {
        let entry = self.peek()?;
        if entry.enclosed_bytes > 0
            && let Some(enclosed) = Enclosed::of(&self.area, &self.ring, &entry)
        {
            put(&entry, &enclosed);
        }
        self.consumer = self.consumer.wrapping_add(1);
        self.word(cq_header::CONSUMER).store(self.consumer, Release);
        Some(entry)
    }

    #[inline]
    fn peek(&mut self) -> Option<Completion> {
        if self.consumer == self.producer {
            self.producer = self.word(cq_header::PRODUCER).load(SeqCst);
            if self.consumer == self.producer {
                return None;
            }
        }
        let slot = self.consumer & (self.ring.slots - 1);
        Some(
            self.area
                .get((self.ring.slots_at + slot * self.ring.stride) as usize),
        )
    }

    /// Entries that the queue holds.
    pub fn entries(&self) -> usize {
        self.ring.slots as usize
    }

    /// Whether entries wait.
    pub fn is_empty(&self) -> bool {
        self.consumer == self.word(cq_header::PRODUCER).load(SeqCst)
    }

    /// Asks for a notification about the next entry, or about the next solicited or failed one. The stronger request
    /// replaces the weaker, never the other way round. Poll once more afterwards: the daemon publishes entries and then
    /// looks at the arming; the client arms and then looks for entries.
    pub fn arm(&self, what: u32) {
        self.word(cq_header::ARMED).fetch_max(what, SeqCst);
        one_order();
    }

    /// Disarms the queue and returns whether it was armed. For a daemon that is gone.
    pub fn disarm(&self) -> bool {
        self.word(cq_header::ARMED).swap(armed::NO, Relaxed) != armed::NO
    }

    /// Returns the arming, for moving it to a resized queue.
    pub fn armed(&self) -> u32 {
        self.word(cq_header::ARMED).load(Relaxed)
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        self.area.u32(self.ring.header as usize + offset)
    }
}
