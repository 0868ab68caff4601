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
    /// Over the memory of a CQ, fresh or resized; refuses a geometry that does not fit it.
    pub fn new(area: Arc<Area>, ring: QueueGeometry) -> io::Result<Self> {
        super::check(&area, cq_header::BYTES, COMPLETION_BYTES, &ring)?;
        Ok(Self {
            area,
            ring,
            consumer: 0,
            producer: 0,
        })
    }

    /// The oldest entry. If it encloses a message, that is given to `put`, to be put in place before the daemon may
    /// use its place again.
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

    /// Entries that it holds.
    pub fn entries(&self) -> usize {
        self.ring.slots as usize
    }

    /// Whether entries wait.
    pub fn is_empty(&self) -> bool {
        self.consumer == self.word(cq_header::PRODUCER).load(SeqCst)
    }

    /// Asks for a notification about the next entry, or the next solicited or failed one. Asking for
    /// more replaces asking for less, never the other way round. Look once more afterwards: the daemon publishes entries and
    /// looks whether it was asked, we the other way round.
    pub fn arm(&self, what: u32) {
        self.word(cq_header::ARMED).fetch_max(what, SeqCst);
        one_order();
    }

    /// Arms it no more: whether it was armed. For a daemon that is gone.
    pub fn disarm(&self) -> bool {
        self.word(cq_header::ARMED).swap(armed::NO, Relaxed) != armed::NO
    }

    /// What is armed, for moving it to a resized queue.
    pub fn armed(&self) -> u32 {
        self.word(cq_header::ARMED).load(Relaxed)
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        self.area.u32(self.ring.header as usize + offset)
    }
}
