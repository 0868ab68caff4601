//! Two adapters with a path between them that takes time and loses frames, according to a seeded generator.

use std::collections::BTreeMap;
use std::time::Duration;

use vrdma_verbs::Time;
use vrdma_verbs::object::QpType;
use vrdma_wire::{Ecn, TrafficClass};

use super::{Node, Pair, Setup};

/// Faults of the path, in hundredths of a percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) loss: u64,
    pub(crate) double: u64,
    pub(crate) reorder: u64,
    pub(crate) corrupt: u64,
    pub(crate) mark: u64,
}

/// A path with a delay for each way, and a time for each frame.
pub(crate) struct Path {
    pub(crate) pair: Pair,
    pub(crate) faults: Faults,
    pub(crate) delay: Duration,
    pub(crate) frame_time: Duration,
    pub(crate) frames: u64,
    free_at: [Time; 2],
    /// Frames by arrival; the second number keeps their order.
    under_way: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    random: u64,
}

impl Path {
    pub(crate) fn new(setup: Setup, faults: Faults, delay: Duration, seed: u64) -> Self {
        Self {
            pair: Pair::wired(QpType::Rc, setup),
            faults,
            delay,
            frame_time: Duration::from_micros(1),
            frames: 0,
            free_at: [Time(0); 2],
            under_way: BTreeMap::new(),
            random: seed | 1,
        }
    }

    /// Whether an event of this chance happens, in hundredths of a percent; xorshift64.
    fn chance(&mut self, of: u64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % 10_000 < of
    }

    fn put(&mut self, from: usize, mut frame: Vec<u8>) {
        self.frames += 1;
        let now = self.pair.now;
        self.free_at[from] = self.free_at[from].max(now) + self.frame_time;
        if self.chance(self.faults.loss) {
            return;
        }
        if self.chance(self.faults.mark) {
            mark(&mut frame);
        }
        if self.chance(self.faults.corrupt) {
            let at = self.random as usize % frame.len();
            frame[at] ^= 0x10;
        }
        let mut at = self.free_at[from] + self.delay;
        if self.chance(self.faults.reorder) {
            at = at + self.frame_time * 5;
        }
        if self.chance(self.faults.double) {
            let key = (at + self.frame_time * 3, self.frames << 1 | 1);
            self.under_way.insert(key, (1 - from, frame.clone()));
        }
        self.under_way
            .insert((at, self.frames << 1), (1 - from, frame));
    }

    fn send(&mut self) {
        for from in [0, 1] {
            for frame in self.pair.frames_of(from) {
                self.put(from, frame);
            }
        }
    }

    /// Runs until the first node has this many send completions, or until `end`.
    pub(crate) fn run_until(&mut self, completions: usize, end: Time) {
        while self.pair.nodes[0].sent.len() < completions {
            self.send();
            let arrival = self.under_way.keys().next().map(|(at, _)| *at);
            let timer = self.pair.next_deadline();
            let Some(next) = arrival.into_iter().chain(timer).min() else {
                return;
            };
            self.pair.now = next.max(self.pair.now);
            if self.pair.now > end {
                return;
            }
            if timer.is_some_and(|at| at <= self.pair.now) {
                self.pair.expire();
            }
            while let Some(entry) = self.under_way.first_entry() {
                if entry.key().0 > self.pair.now {
                    break;
                }
                let (to, frame) = entry.remove();
                let now = self.pair.now;
                self.pair.nodes[to].receive_frame(&frame, now);
            }
            self.pair.nodes.iter_mut().for_each(Node::drain_outputs);
        }
    }
}

/// Marks an IPv4 frame as a router would.
fn mark(frame: &mut [u8]) {
    let class = TrafficClass(frame[15]);
    if class.ecn() == Ecn::NotCapable {
        return;
    }
    frame[15] = class.with_ecn(Ecn::Experienced).0;
    frame[24..26].fill(0);
    let sum = vrdma_wire::internet_checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}
