//! Posting sends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::data::DataRing;
use crate::atomics::{Area, AtomicU32};
use crate::layout::{Buffer, EAGER_AREA, SendHeader, queue_header, send_flag, send_stride};
use crate::message::QueueGeometry;

/// No slot is free, or no room for the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// A send queue. Push requests, publish once, then ring.
#[derive(Debug)]
pub struct SendQueue {
    area: Arc<Area>,
    ring: QueueGeometry,
    producer: u32,
    consumer: u32,
    data: DataRing,
}

impl SendQueue {
    /// Makes the queue over the memory of a queue pair; refuses a geometry that does not fit this memory.
    pub fn new(area: Arc<Area>, ring: QueueGeometry) -> io::Result<Self> {
        super::check(&area, queue_header::BYTES, send_stride(0), &ring)?;
        let data = DataRing::new(ring.data_bytes, ring.slots);
        Ok(Self {
            area,
            ring,
            producer: 0,
            consumer: 0,
            data,
        })
    }

    /// Buffers that a slot holds.
    pub fn buffers(&self) -> usize {
        (self.ring.stride as usize - size_of::<SendHeader>()) / size_of::<Buffer>()
    }

    /// Posts a request whose payload the daemon reads from `buffers`, at most
    /// [`buffers`](Self::buffers) of them.
    #[inline]
    pub fn push(&mut self, header: &SendHeader, buffers: &[Buffer]) -> Result<(), Full> {
        let at = self.slot()?;
        let header = SendHeader {
            buffers: buffers.len() as u32,
            ..*header
        };
        self.area.put(at, &header);
        for (index, buffer) in buffers.iter().take(self.buffers()).enumerate() {
            self.area.put(
                at + size_of::<SendHeader>() + index * size_of::<Buffer>(),
                buffer,
            );
        }
        self.advance();
        Ok(())
    }

    /// Posts a request whose payload is copied now. Payload up to the inline size of the queue pair finds room whenever
    /// a slot is free.
    ///
    /// # Safety
    /// Every buffer is readable.
    #[inline]
    pub unsafe fn push_copied(
        &mut self,
        header: &SendHeader,
        buffers: &[Buffer],
    ) -> Result<(), Full> {
        // SAFETY: as promised.
        unsafe { self.push_bytes(header, buffers, u32::MAX) }
    }

    /// As [`push_copied`](Self::push_copied), for payload that the daemon could also read from `buffers`: leaves room
    /// for inline payload. `Full` then means no more than that [`push`](Self::push) is to be used instead.
    ///
    /// # Safety
    /// Every buffer is readable.
    #[inline]
    pub unsafe fn push_eager(
        &mut self,
        header: &SendHeader,
        buffers: &[Buffer],
    ) -> Result<(), Full> {
        // SAFETY: as promised.
        unsafe { self.push_bytes(header, buffers, EAGER_AREA) }
    }

    /// # Safety
    /// Every buffer is readable.
    #[inline]
    unsafe fn push_bytes(
        &mut self,
        header: &SendHeader,
        buffers: &[Buffer],
        most: u32,
    ) -> Result<(), Full> {
        let at = self.slot()?;
        let length = buffers
            .iter()
            .map(|buffer| u64::from(buffer.length))
            .sum::<u64>();
        let length = u32::try_from(length).map_err(|_| Full)?;
        let place = self.place(length, most).ok_or(Full)?;
        let mut to = (self.ring.data_at + place) as usize;
        for buffer in buffers {
            // SAFETY: readable as promised.
            unsafe {
                self.area
                    .write_from(to, buffer.addr as *const u8, buffer.length as usize)
            };
            to += buffer.length as usize;
        }
        let header = SendHeader {
            flags: header.flags | send_flag::DATA,
            buffers: 0,
            data_offset: place,
            data_length: length,
            ..*header
        };
        self.area.put(at, &header);
        self.advance();
        Ok(())
    }

    /// Takes room for payload. If there seems to be none, looks up what the daemon has freed.
    fn place(&mut self, length: u32, most: u32) -> Option<u32> {
        if let Some(place) = self.data.take(length, most) {
            return Some(place);
        }
        self.refresh();
        self.data.take(length, most)
    }

    /// Whether the daemon has done everything that was ever pushed.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.producer == self.word(queue_header::CONSUMER).load(Acquire)
    }

    /// Lets the daemon take what was pushed: ring afterwards.
    #[inline]
    pub fn publish(&self) {
        self.word(queue_header::PRODUCER)
            .store(self.producer, Release);
    }

    /// Takes back the oldest request that was not done, after the daemon is gone.
    pub fn take_back(&mut self) -> Option<SendHeader> {
        let at = super::take_back(&self.area, &self.ring, self.producer)?;
        Some(self.area.get(at))
    }

    /// Free slots.
    pub fn room(&mut self) -> u32 {
        self.refresh();
        self.ring.slots - self.producer.wrapping_sub(self.consumer)
    }

    /// Starts both indices at zero, after a reset of the queue pair.
    pub fn reset(&mut self) {
        (self.producer, self.consumer) = (0, 0);
        self.data.reset();
    }

    /// Returns the place of the next slot.
    fn slot(&mut self) -> Result<usize, Full> {
        // Reading the daemon's index seldom leaves its cache line with the daemon.
        if self.producer.wrapping_sub(self.consumer) * 2 >= self.ring.slots {
            self.refresh();
        }
        if self.producer.wrapping_sub(self.consumer) >= self.ring.slots {
            return Err(Full);
        }
        let slot = self.producer & (self.ring.slots - 1);
        Ok((self.ring.slots_at + slot * self.ring.stride) as usize)
    }

    fn refresh(&mut self) {
        let consumer = self.word(queue_header::CONSUMER).load(Acquire);
        let sane =
            consumer.wrapping_sub(self.consumer) <= self.producer.wrapping_sub(self.consumer);
        if sane && consumer != self.consumer {
            self.consumer = consumer;
            self.data
                .freed(consumer.wrapping_sub(1) & (self.ring.slots - 1));
        }
    }

    fn advance(&mut self) {
        self.data.filled(self.producer & (self.ring.slots - 1));
        self.producer = self.producer.wrapping_add(1);
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        self.area.u32(self.ring.header as usize + offset)
    }
}
