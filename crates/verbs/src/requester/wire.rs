//! State of a requester for a peer behind a wire: a window that adapts to losses, requests for acknowledgements, slices
//! of READs, and a probe when nothing comes back.
//!
//! ```text
//!   unacked                          next        sent
//!      [ on their way: at most window ][ again    ]        after going back
//!
//!   answer      window grows: doubles each round trip up to the threshold, then by a packet
//!   loss        window and threshold shrink, once each round trip: by a quarter when round trips have
//!               become long, for a queue is full somewhere, else by a sixteenth; and to twice what
//!               arrives between two losses, for all behind a lost packet goes again
//!   queues      of more than 10 ms: window and threshold shrink by a quarter each round trip
//!   silence     for two round trips: the oldest packet goes again, alone, with an acknowledgement
//!               asked for; then after twice the time, and so on until the local ACK time-out
//! ```
//!
//! The probe is a repeated request like any other (IBTA 9.7.5): it finds lost tails and lost answers long before the
//! local ACK time-out, which is tens of milliseconds, and does not count as a retry. The answer to it covers everything
//! that arrived.

use core::time::Duration;

use vrdma_wire::Psn;

use crate::requester::credit::Credit;
use crate::requester::rate::Rate;
use crate::time::Time;

/// Window of a fresh connection, smallest and largest window, in packets. The smallest keeps an answer coming back
/// while others are lost; the largest fits a socket's receive buffer.
const WINDOW_FIRST: u32 = 64;
const WINDOW_MIN: u32 = 16;
pub(super) const WINDOW_MAX: u32 = 1024;

/// The same largest window in bytes.
pub(super) const WINDOW_BYTES: u32 = 2 << 20;

/// Packets of any kind after which an acknowledgement is asked for.
const ACK_EVERY: u32 = 16;

/// Fewest and most packets of the answer to one READ request; how many depends on the READs that may be outstanding.
pub(super) const READ_SLICE_MIN: u32 = 32;
pub(super) const READ_SLICE_MAX: u32 = 128;

/// Patience before the first round trip is known; the time that is always added to round trips, because both ends share
/// their processor with others; and the longest patience.
const PATIENCE_FIRST: Duration = Duration::from_millis(5);
const PATIENCE_EXTRA: Duration = Duration::from_micros(250);
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// Time for which a host may not answer because its processors have other work, as both have while a VM migrates
/// between them: longer time-outs are enough as they are. Time-outs become at most four times what was asked for, which
/// is two doublings.
const BUSY_HOST: Duration = Duration::from_millis(16);
const DOUBLED_MOST: u32 = 2;

/// State of a queue pair whose peer is behind a wire.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    pub(super) window: u32,
    threshold: u32,
    /// Packets answered towards the next packet of the window.
    grown: u32,
    /// Packets answered since the last loss, and between losses on average.
    run: u32,
    usual_run: u32,
    /// PSN before which a loss has shrunk the window already.
    shrunk_until: Option<Psn>,
    /// Packets sent since an acknowledgement was asked for.
    pub(super) unasked: u32,
    /// Smoothed round trip, and its deviation.
    pub(super) round_trip: Option<(Duration, Duration)>,
    /// The shortest round trip seen.
    pub(super) shortest: Duration,
    /// Packet whose answer will give the round trip, and when it was sent.
    sample: Option<(Psn, Time)>,
    /// PSN up to which an acknowledgement was asked for.
    asked: Option<Psn>,
    /// The round trip that was just measured.
    pub(super) newest: Option<Duration>,
    pub(super) probe_at: Option<Time>,
    /// Number of probes since anything came back.
    pub(super) probes: u32,
    /// Number of times that patience was doubled since it was last known to be enough.
    doubled: u32,
    /// Whether the packet whose answer should give the round trip was sent again as a probe, so that the answer may be
    /// to either.
    ambiguous: bool,
    pub(crate) rate: Option<Rate>,
    /// Whether a packet waits for the rate.
    pub(crate) held: bool,
    /// Credits of the peer, if it sends any.
    pub(super) credit: Option<Credit>,
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
            asked: None,
            newest: None,
            probe_at: None,
            probes: 0,
            doubled: 0,
            ambiguous: false,
            rate: None,
            held: false,
            credit: None,
        }
    }
}

impl Wire {
    /// Returns how many packets may be on their way. While nothing comes back, one at a time is enough.
    pub(super) fn room(&self, holds_back: bool) -> u32 {
        match (self.probes, holds_back) {
            (0, false) => self.window,
            (0, true) => self.window.min(WINDOW_MIN),
            _ => 1,
        }
    }

    /// Whether an answer that was asked for is due.
    pub(super) fn waits_for_answer(&self, unacked: Psn) -> bool {
        self.asked.is_some_and(|psn| unacked.is_before(psn))
    }

    pub(super) fn ack_every(&self) -> u32 {
        (self.window / 4).clamp(1, ACK_EVERY)
    }

    /// Returns the patience: two round trips, or one and four deviations (as RFC 6298 2.3), doubled by every probe.
    pub(super) fn patience(&self) -> Duration {
        let base = match self.round_trip {
            Some((mean, deviation)) => mean + mean.max(4 * deviation) + PATIENCE_EXTRA,
            None => PATIENCE_FIRST,
        };
        (base * (1 << self.doubled.min(10))).min(PATIENCE_MAX)
    }

    #[inline(never)]
    pub(super) fn sent(&mut self, end: Psn, packets: u32, asked: bool, fresh: bool, now: Time) {
        if asked {
            self.asked = Some(end);
            self.unasked = 0;
        } else {
            self.unasked += packets;
        }
        if asked && fresh && self.sample.is_none() {
            self.sample = Some((end, now));
            self.ambiguous = false;
        }
        // Karn's rule.
        if !fresh
            && self
                .sample
                .take_if(|(psn, _)| !end.is_before(*psn))
                .is_some()
        {
            self.ambiguous = self.probes > 0;
        }
        if self.probe_at.is_none() {
            self.probe_at = Some(now + self.patience());
        }
    }

    /// Notes that `packets` have been answered; `more` are on their way.
    pub(super) fn answered(&mut self, packets: u32, unacked: Psn, more: bool, now: Time) {
        self.probes = 0;
        if !self.ambiguous {
            self.doubled = 0;
        }
        self.run = self.run.saturating_add(packets);
        self.shrunk_until.take_if(|psn| !unacked.is_before(*psn));
        if let Some((_, begun)) = self.sample.take_if(|(psn, _)| !unacked.is_before(*psn)) {
            self.measured(now.since(begun));
        }
        if self.window < self.threshold {
            self.window += packets;
        } else {
            self.grown += packets;
            self.window += self.grown / self.window;
            self.grown %= self.window;
        }
        debug_assert!(self.window > 0, "a window never closes");
        self.probe_at = more.then(|| now + self.patience());
    }

    /// Takes in a measured round trip, by RFC 6298 2.2 and 2.3.
    fn measured(&mut self, sample: Duration) {
        self.newest = Some(sample);
        self.shortest = self.shortest.min(sample);
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2),
            Some((mean, deviation)) => (
                (7 * mean + sample) / 8,
                (3 * deviation + mean.abs_diff(sample)) / 4,
            ),
        });
    }

    /// Shrinks the window: packets queue somewhere for longer than is useful.
    pub(super) fn relieve(&mut self) {
        self.window = (self.window - self.window / 4).max(WINDOW_MIN);
        self.threshold = self.window;
    }

    /// Returns the local ACK time-out: between one and four times what the connection's owner asked for (IBTA
    /// 9.7.6.1.3), longer for longer round trips. Packets that are sent again give no round trip. So each attempt in
    /// vain doubles a time-out within which a host may just have been busy.
    pub(super) fn ack_timeout(&self, asked: Duration, retries: u8) -> Duration {
        let (mean, deviation) = self.round_trip.unwrap_or_default();
        let most = 4 * asked;
        let expected = (2 * mean + 8 * deviation).clamp(asked, most);
        let doubled = expected * (1 << u32::from(retries).min(DOUBLED_MOST));
        expected.max(doubled.min(most).min(BUSY_HOST))
    }

    /// Notes that data was lost; `sent` is one after the newest packet. It counts once for all packets that were on
    /// their way.
    pub(super) fn lost(&mut self, sent: Psn) {
        if self.shrunk_until.is_none() {
            self.shrunk_until = Some(sent);
            self.shrink();
        }
    }

    pub(super) fn shrink(&mut self) {
        let share = if self.queues_build_up() { 4 } else { 16 };
        self.usual_run = (3 * self.usual_run + self.run.min(WINDOW_MAX)) / 4;
        self.run = 0;
        let shrunk = self.window - self.window / share;
        self.window = shrunk.min(2 * self.usual_run).max(WINDOW_MIN);
        debug_assert!(self.usual_run <= WINDOW_MAX, "runs count up to a window");
        self.threshold = self.window;
    }

    /// Whether round trips are more than twice the shortest, so that packets wait somewhere.
    fn queues_build_up(&self) -> bool {
        let mean = self.round_trip.map(|(mean, _)| mean);
        mean.is_some_and(|mean| mean > 2 * self.shortest + PATIENCE_EXTRA)
    }

    /// Notes that the oldest packet goes again; the next time it takes longer.
    pub(super) fn probe(&mut self) {
        self.probes += 1;
        self.doubled += 1;
    }

    /// Forgets the silence of a peer that could not answer.
    pub(super) fn forget_silence(&mut self) {
        self.probe_at = None;
        self.sample = None;
        (self.probes, self.doubled) = (0, 0);
    }

    pub(super) fn rewound(&mut self) {
        self.asked = None;
        self.unasked = 0;
    }

    /// Returns the rate before it is limited: a window each round trip.
    pub(super) fn free_rate(&self, mtu: u32) -> u64 {
        let round_trip = self.round_trip.map_or(PATIENCE_FIRST, |(mean, _)| mean);
        let nanoseconds = (round_trip.as_nanos() as u64).max(1000);
        u64::from(self.window) * u64::from(mtu) * 1_000_000_000 / nanoseconds
    }
}

impl Wire {
    /// Takes the cost of a packet from the rate, unless it is too early for one.
    pub(super) fn pays(&mut self, bytes: u64, now: Time) -> bool {
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
