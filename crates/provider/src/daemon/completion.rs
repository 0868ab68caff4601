//! Completion rings: the daemon produces, the client consumes.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release, SeqCst};

use super::RingError;
use super::enclosing::{Enclosing, Message};
use crate::atomics::{Area, AtomicU32, one_order};
use crate::layout::{Buffer, Completion, EnclosedHeader, armed, cq_header, enclosed_bytes};
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
    enclosing: Enclosing,
}

impl CompletionRing {
    /// Makes a ring over fresh memory that `ring` was planned for.
    pub fn new(area: Arc<Area>, ring: QueueGeometry) -> Self {
        Self {
            enclosing: Enclosing::new(&ring),
            area,
            ring,
            producer: 0,
            published: 0,
            consumer: 0,
        }
    }

    /// Makes a ring over memory that was in use before, after `published` entries were published.
    ///
    /// Errors: the client's index is impossible.
    pub fn resume(area: Arc<Area>, ring: QueueGeometry, published: u32) -> Result<Self, RingError> {
        let mut resumed = Self {
            enclosing: Enclosing::new(&ring),
            area,
            ring,
            producer: published,
            published,
            consumer: published.wrapping_sub(ring.slots),
        };
        let waiting = resumed.refresh()?;
        let first = published.wrapping_sub(waiting);
        let entries = (0..waiting).map(|index| first.wrapping_add(index));
        let enclosing = entries.filter(|index| resumed.entry(*index).enclosed_bytes > 0);
        resumed.enclosing = Enclosing::resume(&ring, published, enclosing);
        resumed.enclosing.polled(first);
        // The client may not have been shown the last entries.
        resumed.word(cq_header::PRODUCER).store(published, SeqCst);
        Ok(resumed)
    }

    /// Number of entries written so far.
    #[inline]
    pub fn written(&self) -> u32 {
        self.producer
    }

    /// Whether entries may enclose messages.
    pub fn encloses(&self) -> bool {
        self.ring.data_bytes > 0
    }

    /// Entries that fit into the ring.
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

    /// Bytes that may go into the data area now; each message counts with its header and buffers, rounded up to
    /// [`DATA_ALIGN`](crate::DATA_ALIGN).
    #[inline]
    pub fn enclosing_room(&mut self) -> Result<u32, RingError> {
        if self.enclosing.is_short() {
            self.refresh()?;
        }
        Ok(self.enclosing.room())
    }

    /// Lets the next entry enclose a message, whose bytes belong to the places that the buffers name.
    ///
    /// Errors: there is no room.
    pub fn enclose(
        &mut self,
        entry: &mut Completion,
        buffers: impl ExactSizeIterator<Item = Buffer>,
        bytes: &[u8],
    ) -> Result<(), RingError> {
        let header = EnclosedHeader {
            buffers: buffers.len() as u32,
            ..EnclosedHeader::default()
        };
        let length = enclosed_bytes(header.buffers, bytes.len() as u32);
        let place = self.enclosing.take(self.producer, length);
        let place = place.ok_or(RingError::Full)?;
        let mut at = (self.ring.data_at + place) as usize;
        self.area.put(at, &header);
        at += size_of::<EnclosedHeader>();
        for buffer in buffers {
            self.area.put(at, &buffer);
            at += size_of::<Buffer>();
        }
        self.area.write(at, bytes);
        (entry.enclosed_at, entry.enclosed_bytes) = (place, length);
        Ok(())
    }

    /// Takes the messages that the client has not put in place and that have a buffer for which `is_meant` holds; gives
    /// their buffers and bytes to `put`.
    pub fn take_enclosed(
        &mut self,
        is_meant: impl Fn(&Buffer) -> bool,
        mut put: impl FnMut(&[Buffer], &[u8]),
    ) {
        if self.refresh().is_err() {
            return;
        }
        let entries = (0..).map_while(|place| self.enclosing.entry(place));
        for index in entries {
            let entry = self.entry(index);
            let Some(message) = Message::of(&self.area, &self.ring, &entry) else {
                continue;
            };
            let buffers = message.buffers();
            if buffers.iter().any(&is_meant) && message.claim() {
                put(&buffers, &message.payload(buffers.len()));
            }
        }
    }

    /// Shows the client all entries written so far.
    #[inline]
    pub fn publish(&mut self) {
        self.word(cq_header::PRODUCER).store(self.producer, SeqCst);
        self.published = self.producer;
    }

    /// Reads the client's index and returns how many entries the client has not taken.
    pub fn refresh(&mut self) -> Result<u32, RingError> {
        let consumer = self.word(cq_header::CONSUMER).load(Acquire);
        let moved = consumer.wrapping_sub(self.consumer);
        if moved > self.published.wrapping_sub(self.consumer) {
            return Err(RingError::Index);
        }
        self.consumer = consumer;
        self.enclosing.polled(consumer);
        Ok(self.published.wrapping_sub(consumer))
    }

    /// Whether the client asked for a notification about what was published. Takes the arming away: from then on a
    /// notification is owed until [`CompletionRing::notified`]. `urgent`: a solicited or failed entry is among the
    /// published ones.
    #[inline]
    pub fn take_armed(&self, urgent: bool) -> bool {
        one_order();
        let word = self.word(cq_header::ARMED);
        let wanted = word.load(SeqCst);
        let fires = wanted >= armed::ANY || (wanted == armed::SOLICITED && urgent);
        if !fires {
            return false;
        }
        // `OWED` first: if this process ends between the two stores, its successor still finds that the client waits.
        self.word(cq_header::OWED).store(1, Release);
        word.swap(armed::NO, AcqRel) != armed::NO
    }

    /// Notes that the client was notified, or that nobody can notify it.
    #[inline]
    pub fn notified(&self) {
        self.word(cq_header::OWED).store(0, Release);
    }

    /// Whether an arming was taken away and the client may not have been notified since.
    pub fn owes_notification(&self) -> bool {
        self.word(cq_header::OWED).load(Acquire) != 0
    }

    /// Moves the entries that the client has not taken, and its arming, into a fresh ring. The client must not poll
    /// meanwhile.
    pub fn unload(&mut self, fresh: &mut Self) -> Result<(), RingError> {
        for index in 0..self.refresh()? {
            let mut entry = self.entry(self.consumer.wrapping_add(index));
            let message = Message::of(&self.area, &self.ring, &entry).map(|message| message.raw());
            let message = message.unwrap_or_default();
            entry.enclosed_bytes = message.len() as u32;
            if !message.is_empty() {
                let place = fresh.enclosing.take(fresh.producer, entry.enclosed_bytes);
                entry.enclosed_at = place.ok_or(RingError::Full)?;
                let at = (fresh.ring.data_at + entry.enclosed_at) as usize;
                fresh.area.write(at, &message);
            }
            fresh.write(&entry)?;
        }
        fresh.publish();
        fresh.arm(self.word(cq_header::ARMED).swap(armed::NO, AcqRel));
        let owed = self.word(cq_header::OWED).load(Acquire);
        fresh.word(cq_header::OWED).store(owed, Release);
        Ok(())
    }

    fn entry(&self, index: u32) -> Completion {
        let slot = index & (self.ring.slots - 1);
        self.area
            .get((self.ring.slots_at + slot * self.ring.stride) as usize)
    }

    /// Arms a fresh ring as the replaced one was armed.
    fn arm(&self, what: u32) {
        self.word(cq_header::ARMED).store(what, Release);
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        self.area.u32(self.ring.header as usize + offset)
    }
}
