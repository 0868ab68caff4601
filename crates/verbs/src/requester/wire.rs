//! What a wire asks of the requester: a window that adapts to losses, acknowledgements asked for,
//! slices of READs, and a probe when nothing comes back.
//!
//! ```text
//!   unacked                          next        sent
//!      [ on their way: at most window ][ again    ]        after going back
//!
//!   answer      window grows: doubles each round trip up to the threshold, then by a packet
//!   loss        window and threshold shrink, once each round trip: by a quarter when round trips have
//!               become long, for a queue is full somewhere, else by a sixteenth; and to twice what
//!               arrives between two losses, for all behind a lost packet goes again
//!   silence     for two round trips: the oldest packet goes again, alone, with an acknowledgement
//!               asked for; then after twice the time, and so on until the local ACK time-out
//! ```
//!
//! The probe is a repeated request like any other (IBTA 9.7.5.1.2): it finds out about lost tails and
//! lost answers long before the local ACK time-out, which is tens of milliseconds, and does not count
//! as a retry. The answer to it covers everything that arrived.

use core::time::Duration;

use vrdma_wire::Psn;

use crate::attr::QpState;
use crate::qp::Qp;
use crate::requester::rate::Rate;
use crate::requester::{Pending, Phase, Requester};
use crate::time::Time;
use crate::work::SendOp;

/// Packets of a fresh connection's window, of the smallest and of the largest one. The smallest keeps
/// an answer coming back while others are lost; the largest fits a socket's receive buffer.
const WINDOW_FIRST: u32 = 64;
const WINDOW_MIN: u32 = 16;
const WINDOW_MAX: u32 = 1024;

/// The same largest window in bytes.
const WINDOW_BYTES: u32 = 2 << 20;

/// Packets after which an acknowledgement is asked for, whatever they are.
const ACK_EVERY: u32 = 16;

/// Packets of the answer to one READ request, by how many READs may be outstanding.
const READ_SLICE_MIN: u32 = 32;
const READ_SLICE_MAX: u32 = 128;

/// Patience before the first round trip is known, what is always added to round trips because both
/// ends share their processor with others, and the longest of all.
const PATIENCE_FIRST: Duration = Duration::from_millis(5);
const PATIENCE_EXTRA: Duration = Duration::from_micros(250);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// State of a queue pair whose peer is behind a wire.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    window: u32,
    threshold: u32,
    /// Packets answered towards the next packet of the window.
    grown: u32,
    /// Packets answered since the last loss, and between losses on average.
    run: u32,
    usual_run: u32,
    /// A loss before this PSN has shrunk the window already.
    shrunk_until: Option<Psn>,
    /// Packets sent since an acknowledgement was asked for.
    unasked: u32,
    /// Round trip, smoothed, and its deviation.
    round_trip: Option<(Duration, Duration)>,
    /// The shortest one seen.
    shortest: Duration,
    /// A packet whose answer will tell the round trip.
    sample: Option<(Psn, Time)>,
    probe_at: Option<Time>,
    /// Probes since anything came back.
    probes: u32,
    pub(crate) rate: Option<Rate>,
    /// A packet waits for the rate.
    pub(crate) held: bool,
}

impl Default for Wire {
    fn default() -> Self {
        Self {
            window: WINDOW_FIRST,
            threshold: WINDOW_MAX,
            grown: 0,
            run: 0,
            usual_run: WINDOW_MAX,
            shrunk_until: None,
            unasked: 0,
            round_trip: None,
            shortest: Duration::MAX,
            sample: None,
            probe_at: None,
            probes: 0,
            rate: None,
            held: false,
        }
    }
}

impl Wire {
    /// While nothing comes back, one packet at a time is enough.
    fn room(&self) -> u32 {
        if self.probes > 0 { 1 } else { self.window }
    }

    fn ack_every(&self) -> u32 {
        (self.window / 4).clamp(1, ACK_EVERY)
    }

    /// Two round trips, or one and four deviations (as RFC 6298 2.3), doubled by every probe.
    fn patience(&self) -> Duration {
        let base = match self.round_trip {
            Some((mean, deviation)) => mean + mean.max(4 * deviation) + PATIENCE_EXTRA,
            None => PATIENCE_FIRST,
        };
        (base * (1 << self.probes.min(10))).min(PATIENCE_MAX)
    }

    fn sent(&mut self, end: Psn, asked: bool, fresh: bool, now: Time) {
        self.unasked = if asked { 0 } else { self.unasked + 1 };
        if asked && fresh && self.sample.is_none() {
            self.sample = Some((end, now));
        }
        if self.probe_at.is_none() {
            self.probe_at = Some(now + self.patience());
        }
    }

    /// So many packets have been answered; `more` are on their way.
    fn answered(&mut self, packets: u32, unacked: Psn, more: bool, now: Time) {
        self.probes = 0;
        self.run = self.run.saturating_add(packets);
        if let Some((_, begun)) = self.sample.take_if(|(psn, _)| !unacked.is_before(*psn)) {
            self.measured(now.since(begun));
        }
        self.shrunk_until.take_if(|psn| !unacked.is_before(*psn));
        if self.window < self.threshold {
            self.window += packets;
        } else {
            self.grown += packets;
            self.window += self.grown / self.window;
            self.grown %= self.window;
        }
        self.probe_at = more.then(|| now + self.patience());
    }

    /// RFC 6298 2.2 and 2.3.
    fn measured(&mut self, sample: Duration) {
        self.shortest = self.shortest.min(sample);
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2),
            Some((mean, deviation)) => (
                (7 * mean + sample) / 8,
                (3 * deviation + mean.abs_diff(sample)) / 4,
            ),
        });
    }

    /// Data was lost; `sent` is one after the newest packet. Counts once for all that was on its way.
    fn lost(&mut self, sent: Psn) {
        if self.shrunk_until.is_none() {
            self.shrunk_until = Some(sent);
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        let share = if self.queues_build_up() { 4 } else { 16 };
        self.usual_run = (3 * self.usual_run + self.run.min(WINDOW_MAX)) / 4;
        self.run = 0;
        let shrunk = self.window - self.window / share;
        self.window = shrunk.min(2 * self.usual_run).max(WINDOW_MIN);
        self.threshold = self.window;
    }

    /// Round trips are more than twice the shortest: our packets wait somewhere.
    fn queues_build_up(&self) -> bool {
        let mean = self.round_trip.map(|(mean, _)| mean);
        mean.is_some_and(|mean| mean > 2 * self.shortest + PATIENCE_EXTRA)
    }

    /// What is on its way does not tell the round trip any more (Karn's rule).
    fn rewound(&mut self) {
        self.sample = None;
        self.unasked = 0;
    }

    /// The rate before it is limited: a window each round trip.
    fn free_rate(&self, mtu: u32) -> u64 {
        let round_trip = self.round_trip.map_or(PATIENCE_FIRST, |(mean, _)| mean);
        let nanoseconds = (round_trip.as_nanos() as u64).max(1000);
        u64::from(self.window) * u64::from(mtu) * 1_000_000_000 / nanoseconds
    }
}

impl<R> Requester<R> {
    /// Packets of SENDs and WRITEs were answered, or data came.
    #[inline]
    pub(super) fn wire_answered(&mut self, packets: u32, now: Time) {
        if self.wire.is_none() {
            return;
        }
        let more = !self.is_answered() || self.unacked != self.sent;
        let unacked = self.unacked;
        if let Some(wire) = &mut self.wire {
            wire.answered(packets, unacked, more, now);
        }
    }

    /// A unit goes out, up to `end`.
    #[inline]
    pub(super) fn note_on_wire(&mut self, end: Psn, asked: bool, now: Time) {
        if let Some(wire) = &mut self.wire {
            let fresh = self.sent.is_before(end);
            wire.sent(end, asked, fresh, now);
        }
    }

    pub(super) fn wire_lost(&mut self) {
        let sent = self.sent;
        if let Some(wire) = &mut self.wire {
            wire.lost(sent);
        }
    }

    /// A packet was lost and all behind it go again.
    pub(super) fn wire_gap(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.shrink();
        }
    }

    pub(super) fn wire_rewound(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.rewound();
        }
    }

    /// When silence has lasted too long, or the rate lets a packet go.
    #[inline]
    pub(super) fn wire_deadline(&self) -> Option<Time> {
        let wire = self.wire.as_deref()?;
        let rate = wire.rate.as_ref().filter(|_| wire.held);
        let deadlines = [wire.probe_at, rate.map(|rate| rate.next_at)];
        deadlines.into_iter().flatten().min()
    }

    /// Whatever the rate held back tries again now.
    pub(super) fn wire_released(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.held = false;
        }
    }

    /// Whether it is time for a probe; the next one is later then.
    pub(super) fn takes_probe(&mut self, now: Time) -> bool {
        let waits = self.rnr_until.is_none();
        let silent = waits && (self.unacked != self.sent || !self.awaiting.is_empty());
        let Some(wire) = &mut self.wire else {
            return false;
        };
        if wire.probe_at.is_none_or(|at| at > now) {
            return false;
        }
        if !silent {
            wire.probe_at = None;
            return false;
        }
        wire.shrink();
        wire.probes += 1;
        wire.probe_at = Some(now + wire.patience());
        true
    }
}

impl<R> Qp<R> {
    /// Packets from a place in a READ to the end of its slice. Slices begin at the same places
    /// whenever they are asked for: part of one is a repetition that every responder answers, parts
    /// of two are not.
    pub(super) fn read_slice(&self, at: u32) -> u32 {
        let outstanding = u32::from(self.attr.max_rd_atomic).max(1);
        let slice = (READ_SLICE_MAX / outstanding).clamp(READ_SLICE_MIN, READ_SLICE_MAX);
        slice - at % slice
    }

    /// Whether the next unit may go, and whether it asks for an acknowledgement.
    pub(super) fn fit_window(&mut self, packets: u32, last: bool, now: Time) -> Option<bool> {
        let follows = last && self.more_follows();
        let mtu = self.attr.path_mtu.bytes();
        let Requester {
            next,
            unacked,
            sent,
            wire,
            ..
        } = &mut self.requester;
        let wire = wire.get_or_insert_default();
        let outstanding = next.since(*unacked);
        wire.window = wire.window.min(WINDOW_MAX).min(WINDOW_BYTES / mtu);
        if outstanding > 0 && outstanding + packets > wire.room() {
            return None;
        }
        if !wire.pays(u64::from(mtu), now) {
            return None;
        }
        let ends = last && !(follows && wire.rate.is_none());
        let full = outstanding + packets >= wire.room();
        let again = next == unacked && next != sent;
        Some(ends || full || again || wire.unasked + 1 >= wire.ack_every())
    }

    /// Whether another SEND or WRITE goes out right behind, whose acknowledgement covers this one's.
    fn more_follows(&self) -> bool {
        let Some(Pending { wr, phase, .. }) = self.requester.queue.get(self.requester.cursor + 1)
        else {
            return false;
        };
        let plain = matches!(
            wr.op,
            SendOp::Send | SendOp::SendImm(_) | SendOp::Write(_) | SendOp::WriteImm(..)
        );
        let open = matches!(phase, Phase::Posted | Phase::Started);
        plain && open && !wr.fence && self.attr.state == QpState::Rts
    }

    /// The peer's adapter says that our packets meet congestion.
    pub(crate) fn slow_down(&mut self, now: Time) {
        let mtu = self.attr.path_mtu.bytes();
        let wire = self.requester.wire.get_or_insert_default();
        let free = wire.free_rate(mtu);
        let rate = wire.rate.get_or_insert_with(|| Rate::new(free, now));
        rate.notify(now);
    }

    /// Whether the rate lets READ data of a packet go.
    pub(crate) fn pays_for_data(&mut self, now: Time) -> bool {
        let mtu = u64::from(self.attr.path_mtu.bytes());
        let wire = self.requester.wire.as_mut();
        wire.is_none_or(|wire| wire.pays(mtu, now))
    }
}

impl Wire {
    /// Takes the price of a packet, unless it is too early for one.
    fn pays(&mut self, bytes: u64, now: Time) -> bool {
        let Some(rate) = &mut self.rate else {
            return true;
        };
        self.held = !rate.is_open(now);
        if self.held {
            return false;
        }
        rate.spend(bytes, now);
        if rate.is_over() {
            self.rate = None;
        }
        true
    }
}
