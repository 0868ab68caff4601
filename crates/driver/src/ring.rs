//! The guest's side of rings, with the arithmetic of `pvrdma_ring.h`: deliberately not the device's code, so that
//! mistakes there are noticed here.

use vrdma_memory::{PAGE, View};
use zerocopy::{FromBytes, IntoBytes};

const IMPOSSIBLE: &str = "a guest's rings are in its own memory";

/// Index arithmetic of a ring of `n` elements (`pvrdma_idx*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingMath(pub u32);

impl RingMath {
    /// `pvrdma_idx_valid`.
    pub fn is_valid(self, index: u32) -> bool {
        index & !(self.0 * 2 - 1) == 0
    }

    /// `pvrdma_idx`: the slot, or `None` when Linux returns -1.
    pub fn slot(self, index: u32) -> Option<u32> {
        self.is_valid(index).then_some(index & (self.0 - 1))
    }

    /// `pvrdma_idx_ring_inc`.
    pub fn next(self, index: u32) -> u32 {
        (index + 1) & (self.0 * 2 - 1)
    }

    /// `pvrdma_idx_ring_has_space`.
    pub fn has_space(self, producer: u32, consumer: u32) -> bool {
        self.is_valid(producer) && self.is_valid(consumer) && producer != consumer ^ self.0
    }

    /// `pvrdma_idx_ring_has_data`; `None` if an index is invalid.
    pub fn has_data(self, producer: u32, consumer: u32) -> Option<bool> {
        (self.is_valid(producer) && self.is_valid(consumer)).then_some(producer != consumer)
    }
}

/// Pages of entries, and the place of the indices.
#[derive(Clone, Debug)]
struct Area {
    math: RingMath,
    /// Bus address of the producer index; the consumer index follows.
    state: u64,
    pages: Vec<u64>,
    stride: u32,
}

impl Area {
    fn entry(&self, slot: u32) -> u64 {
        let offset = u64::from(slot) * u64::from(self.stride);
        self.pages[(offset / PAGE) as usize] + offset % PAGE
    }

    fn producer(&self, view: &View<'_>) -> u32 {
        view.load_u32_acquire(self.state).expect(IMPOSSIBLE)
    }

    fn consumer(&self, view: &View<'_>) -> u32 {
        view.load_u32_acquire(self.state + 4).expect(IMPOSSIBLE)
    }
}

/// The ring has no room (`-ENOMEM`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the ring is full")]
pub struct Full;

/// A ring that the guest fills.
#[derive(Clone, Debug)]
pub struct ProducerRing(Area);

impl ProducerRing {
    /// Makes a ring of `elements` entries of `stride` bytes in `pages`, with the indices at `state`.
    pub fn new(elements: u32, stride: u32, state: u64, pages: Vec<u64>) -> Self {
        let math = RingMath(elements);
        Self(Area {
            math,
            state,
            pages,
            stride,
        })
    }

    /// Appends an entry, at most as long as the stride; older bytes after it stay.
    pub fn push(&self, view: &View<'_>, entry: &[u8]) -> Result<(), Full> {
        let area = &self.0;
        let (producer, consumer) = (area.producer(view), area.consumer(view));
        let slot = area.math.slot(producer).ok_or(Full)?;
        if !area.math.has_space(producer, consumer) {
            return Err(Full);
        }
        view.write(area.entry(slot), entry).expect(IMPOSSIBLE);
        let next = area.math.next(producer);
        view.store_u32_release(area.state, next).expect(IMPOSSIBLE);
        Ok(())
    }

    /// Appends entries and shows them all at once, as a driver does with a list of requests. If there is no room for
    /// all, none is appended.
    pub fn push_all<'e>(
        &self,
        view: &View<'_>,
        entries: impl ExactSizeIterator<Item = &'e [u8]>,
    ) -> Result<(), Full> {
        let area = &self.0;
        let (mut producer, consumer) = (area.producer(view), area.consumer(view));
        let held = producer.wrapping_sub(consumer) & (area.math.0 * 2 - 1);
        if held as usize + entries.len() > area.math.0 as usize {
            return Err(Full);
        }
        for entry in entries {
            let slot = area.math.slot(producer).ok_or(Full)?;
            view.write(area.entry(slot), entry).expect(IMPOSSIBLE);
            producer = area.math.next(producer);
        }
        view.store_u32_release(area.state, producer)
            .expect(IMPOSSIBLE);
        Ok(())
    }

    /// Number of entries that the device has not released.
    pub fn outstanding(&self, view: &View<'_>) -> u32 {
        let mask = self.0.math.0 * 2 - 1;
        self.0.producer(view).wrapping_sub(self.0.consumer(view)) & mask
    }

    /// Bus address of the producer index; the device's consumer index follows.
    pub fn state(&self) -> u64 {
        self.0.state
    }

    /// Number of elements.
    pub fn elements(&self) -> u32 {
        self.0.math.0
    }

    /// Sets both indices to zero, as after a reset of the queue pair.
    pub fn restart(&self, view: &View<'_>) {
        for index in [self.0.state, self.0.state + 4] {
            view.store_u32_release(index, 0).expect(IMPOSSIBLE);
        }
    }
}

/// A ring that the device fills.
#[derive(Clone, Debug)]
pub struct ConsumerRing(Area);

impl ConsumerRing {
    /// Like [`ProducerRing::new`].
    pub fn new(elements: u32, stride: u32, state: u64, pages: Vec<u64>) -> Self {
        let math = RingMath(elements);
        Self(Area {
            math,
            state,
            pages,
            stride,
        })
    }

    /// Takes the next entry, if there is one.
    ///
    /// # Panics
    /// If the device wrote an impossible index.
    pub fn pop<T: FromBytes + IntoBytes>(&self, view: &View<'_>) -> Option<T> {
        let entry = self.peek(view)?;
        let next = self.0.math.next(self.0.consumer(view));
        let consumed = view.store_u32_release(self.0.state + 4, next);
        consumed.expect(IMPOSSIBLE);
        Some(entry)
    }

    /// Looks at the next entry, if there is one.
    ///
    /// # Panics
    /// If the device wrote an impossible index.
    pub fn peek<T: FromBytes + IntoBytes>(&self, view: &View<'_>) -> Option<T> {
        let (producer, consumer) = (self.0.producer(view), self.0.consumer(view));
        let data = self.0.math.has_data(producer, consumer);
        if !data.expect("the device wrote an impossible producer index") {
            return None;
        }
        let slot = self.0.math.slot(consumer)?;
        let mut entry = T::new_zeroed();
        let read = view.read(self.0.entry(slot), entry.as_mut_bytes());
        read.expect(IMPOSSIBLE);
        Some(entry)
    }

    /// Bus address of the device's producer index; the guest's consumer index follows.
    pub fn state(&self) -> u64 {
        self.0.state
    }
}
