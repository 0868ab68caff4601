//! Index arithmetic of the rings shared with the guest (`pvrdma_ring.h`).
//!
//! ```text
//!   counter   0 1 2 … period-1 0 1 …         slot = counter mod usable
//!   state     | producer (u32) | consumer (u32) |
//! ```
//!
//! The driver computes with `n` elements: the next counter is `(i + 1) & (2n - 1)` and the slot
//! `i & (n - 1)`. For a power of two that counts through `2n` values over `n` slots. The two device
//! rings have 1536 and 3072 elements, where the same bit arithmetic has a hole: counters go through
//! 1024 and 2048 values, and only 512 and 1024 slots are ever used. Both cases are one shape here:
//! `usable` slots, a power of two, and counters modulo twice that.

/// Offset in the state page of the producer index of a guest-to-device send ring; the consumer index follows.
pub const SEND_STATE: u64 = 0;
/// The same offset for receive rings, completion queues and the device rings.
pub const RECV_STATE: u64 = 8;
/// Distance from a producer index to its consumer index.
pub const CONSUMER: u64 = 4;

/// Counters and slots of one ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingShape {
    usable: u32,
}

impl RingShape {
    /// Events: three pages of 8 bytes.
    pub const EVENTS: Self = Self::of(3 * 4096 / 8);
    /// Completion notifications: three pages of 4 bytes.
    pub const NOTIFICATIONS: Self = Self::of(3 * 4096 / 4);

    /// A ring that the driver counts with `elements`, at least 1 and below 2^31.
    pub const fn of(elements: u32) -> Self {
        let driver_mask = 2 * elements - 1;
        Self {
            usable: 1 << (driver_mask.trailing_ones() - 1),
        }
    }

    /// Most entries in the ring.
    pub const fn usable(self) -> u32 {
        self.usable
    }

    const fn mask(self) -> u32 {
        2 * self.usable - 1
    }

    /// The counter after `index`.
    pub const fn next(self, index: u32) -> u32 {
        (index + 1) & self.mask()
    }

    /// The counter `count` entries after `index`.
    pub const fn after(self, index: u32, count: u32) -> u32 {
        index.wrapping_add(count) & self.mask()
    }

    /// The slot that a counter names.
    pub const fn slot(self, index: u32) -> u32 {
        index & (self.usable - 1)
    }

    /// Number of entries between consumer and producer; `None` if impossible, since one of them is invalid.
    pub const fn filled(self, producer: u32, consumer: u32) -> Option<u32> {
        if producer & !self.mask() != 0 || consumer & !self.mask() != 0 {
            return None;
        }
        let filled = producer.wrapping_sub(consumer) & self.mask();
        if filled <= self.usable {
            Some(filled)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests;
