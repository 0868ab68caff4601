//! A bad link on purpose: loss, delay, duplication, reordering and corruption by a seeded generator.
//!
//! ```text
//!   frame ─► lost? ─► twice? ─► each: a bit turned? ─► late by delay, jitter, reordering? ─► out
//!                                                          '─ held until `release(now)`
//! ```
//! Pure: time comes in as nanoseconds, frames leave through a callback. The same seed and the same calls give the same
//! link again.

mod spec;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use spec::{FaultSpec, Probability, SpecError};

use crate::segment::Hop;

/// Most frames and bytes that are held; further ones are lost, as at a full queue.
const HELD_MAX: usize = 16_384;
const HELD_BYTES_MAX: usize = 64 << 20;

/// Range of the extra delay of a reordered frame, in nanoseconds: enough for some frames of a busy link to pass it.
const REORDER_NS: std::ops::Range<u64> = 20_000..500_000;

/// A link with faults, for one direction.
#[derive(Debug)]
pub struct Faults {
    spec: FaultSpec,
    random: fastrand::Rng,
    held: BinaryHeap<Reverse<Held>>,
    held_bytes: usize,
    number: u64,
    lost: u64,
}

/// A frame that is held, ordered by when it leaves, then by when it came.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Held {
    due: u64,
    number: u64,
    frame: Vec<u8>,
    hop: HopOrder,
}

/// A [`Hop`] in a held frame, which is never compared: the numbers before it differ.
#[derive(PartialEq, Eq, Debug)]
struct HopOrder(Hop);

impl PartialOrd for HopOrder {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HopOrder {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl Faults {
    /// Makes a link that behaves as `spec` says.
    pub fn new(spec: FaultSpec) -> Self {
        Self {
            spec,
            random: fastrand::Rng::with_seed(spec.seed),
            held: BinaryHeap::new(),
            held_bytes: 0,
            number: 0,
            lost: 0,
        }
    }

    /// Number of frames lost on purpose, or because too many were held.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Passes a frame on, now or later, once, twice or never.
    pub fn send(&mut self, now: u64, hop: Hop, frame: &[u8], out: &mut impl FnMut(Hop, &[u8])) {
        if self.happens(self.spec.loss) {
            self.lost += 1;
            return;
        }
        let copies = 1 + usize::from(self.happens(self.spec.duplicate));
        for _ in 0..copies {
            let corrupt = self.happens(self.spec.corrupt);
            let late = self.lateness();
            if !corrupt && late == 0 {
                out(hop, frame);
                continue;
            }
            let mut frame = frame.to_vec();
            if corrupt {
                self.turn_a_bit(&mut frame);
            }
            if late == 0 {
                out(hop, &frame);
            } else {
                self.hold(now.saturating_add(late), hop, frame);
            }
        }
    }

    /// Returns when the next held frame is due.
    pub fn next_deadline(&self) -> Option<u64> {
        self.held.peek().map(|Reverse(held)| held.due)
    }

    /// Passes on the frames that are due.
    pub fn release(&mut self, now: u64, out: &mut impl FnMut(Hop, &[u8])) {
        while self.next_deadline().is_some_and(|due| due <= now) {
            let Some(Reverse(held)) = self.held.pop() else {
                return;
            };
            self.held_bytes -= held.frame.len();
            out(held.hop.0, &held.frame);
        }
    }

    fn hold(&mut self, due: u64, hop: Hop, frame: Vec<u8>) {
        if self.held.len() >= HELD_MAX || self.held_bytes + frame.len() > HELD_BYTES_MAX {
            self.lost += 1;
            return;
        }
        self.held_bytes += frame.len();
        self.number += 1;
        self.held.push(Reverse(Held {
            due,
            number: self.number,
            frame,
            hop: HopOrder(hop),
        }));
    }

    /// Returns the nanoseconds by which a frame is late.
    fn lateness(&mut self) -> u64 {
        let mut late = self.spec.delay_ns;
        if self.spec.jitter_ns > 0 {
            late += self.random.u64(0..=self.spec.jitter_ns);
        }
        if self.happens(self.spec.reorder) {
            late += self.random.u64(REORDER_NS);
        }
        late
    }

    fn turn_a_bit(&mut self, frame: &mut [u8]) {
        if !frame.is_empty() {
            let at = self.random.usize(0..frame.len());
            frame[at] ^= 1 << self.random.u8(0..8);
        }
    }

    /// Whether a fault happens. Draws nothing for a fault that is off, so that the outcome of one fault does not depend
    /// on others that are off.
    fn happens(&mut self, probability: Probability) -> bool {
        probability.0 > 0 && self.random.u32(0..Probability::ALWAYS.0) < probability.0
    }
}
