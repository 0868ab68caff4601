//! Posting receives, to a queue pair's own queue or a shared one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, SeqCst};

use super::Full;
use crate::atomics::{Area, AtomicU32, one_order};
use crate::layout::{Buffer, RecvHeader, queue_header, recv_stride};
use crate::message::QueueGeometry;

/// A receive queue. Push requests, then publish once.
#[derive(Debug)]
pub struct ReceiveQueue {
    area: Arc<Area>,
    ring: QueueGeometry,
    producer: u32,
}

impl ReceiveQueue {
    /// Makes the queue over the memory of a queue pair or SRQ; refuses a geometry that does not fit this memory.
    pub fn new(area: Arc<Area>, ring: QueueGeometry) -> io::Result<Self> {
        super::check(&area, queue_header::BYTES, recv_stride(0), &ring)?;
        Ok(Self {
            area,
            ring,
            producer: 0,
        })
    }

    /// Buffers that a slot holds.
    pub fn buffers(&self) -> usize {
        (self.ring.stride as usize - size_of::<RecvHeader>()) / size_of::<Buffer>()
    }

    /// Posts a receive of at most [`buffers`](Self::buffers) buffers.
    #[inline]
    pub fn push(&mut self, wr_id: u64, buffers: &[Buffer]) -> Result<(), Full> {
        let consumer = self.word(queue_header::CONSUMER).load(Acquire);
        if self.producer.wrapping_sub(consumer) >= self.ring.slots {
            return Err(Full);
        }
        let slot = self.producer & (self.ring.slots - 1);
        let at = (self.ring.slots_at + slot * self.ring.stride) as usize;
        let header = RecvHeader {
            wr_id,
            buffers: buffers.len() as u32,
            reserved: 0,
        };
        self.area.put(at, &header);
        for (index, buffer) in buffers.iter().take(self.buffers()).enumerate() {
            self.area.put(
                at + size_of::<RecvHeader>() + index * size_of::<Buffer>(),
                buffer,
            );
        }
        self.producer = self.producer.wrapping_add(1);
        Ok(())
    }

    /// Lets the daemon take what was pushed. True if the queue pair's doorbell must be rung.
    #[inline]
    #[must_use]
    pub fn publish(&self) -> bool {
        self.word(queue_header::PRODUCER)
            .store(self.producer, SeqCst);
        // The daemon sets the ring word and then looks at the producer; the client does it the other way round.
        one_order();
        self.word(queue_header::RING).load(SeqCst) != 0
    }

    /// Takes back the oldest receive that was not used, after the daemon is gone, and returns its `wr_id`.
    pub fn take_back(&mut self) -> Option<u64> {
        let at = super::take_back(&self.area, &self.ring, self.producer)?;
        Some(self.area.get::<RecvHeader>(at).wr_id)
    }

    /// Starts both indices at zero, after a reset of the queue pair.
    pub fn reset(&mut self) {
        self.producer = 0;
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        self.area.u32(self.ring.header as usize + offset)
    }
}
