//! The usual behaviour of a CQ's owner: polling, or sleeping until it is told.
//!
//! This is always a guess. It decides how long a maybe-armed CQ waits, never whether it is notified.

use core::time::Duration;

use vrdma_verbs::Time;

use super::PATIENCE;

/// After this many watches in a row that end with a notification, the guest counts as a sleeper.
const SLEEPER_AFTER: u8 = 3;

/// One in this many of a sleeper's completions is watched all the same, to notice when it polls. The price is one
/// [`PATIENCE`] in as many notifications.
const PROBE_EVERY: u8 = 32;

/// A poller's patience doubles up to 2^5 times [`PATIENCE`], about 1 ms: its vCPU may be off its core
/// for that long, and a poller that becomes a sleeper waits no longer than that, three times.
const DOUBLINGS_MAX: u8 = 5;

/// A sleeper writes at most three POLLs from one notification to the next (drain, arm, drain): more
/// of them show a poller.
const POLLS_OF_A_POLLER: u8 = 4;

/// How long a POLL counts as recent; after that the program may have gone to sleep.
const POLL_IS_NEWS: Duration = Duration::from_micros(64);

/// What is remembered of one CQ.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Habit {
    last_poll: Time,
    /// POLLs seen since the last notification or ARM.
    polls: u8,
    /// Successive watches that ended with a notification.
    overslept: u8,
    /// Number of times that the patience was doubled.
    doublings: u8,
    /// Notifications since the last probe.
    unprobed: u8,
}

impl Habit {
    pub(super) const fn new() -> Self {
        Self {
            last_poll: Time(0),
            polls: 0,
            overslept: 0,
            doublings: 0,
            unprobed: 0,
        }
    }

    /// How long to wait until the guest looks without being told; `None` for a sleeper.
    pub(super) fn patience(&mut self, now: Time) -> Option<Duration> {
        if self.overslept < SLEEPER_AFTER {
            return Some(PATIENCE * (1 << self.doublings));
        }
        if self.is_polling(now) || self.probe_is_due() {
            return Some(PATIENCE);
        }
        None
    }

    /// Notes an ARM: a thread is about to sleep.
    pub(super) fn armed(&mut self) {
        self.overslept = SLEEPER_AFTER;
        self.doublings = 0;
        self.polls = 0;
    }

    pub(super) fn polled(&mut self, now: Time) {
        self.polls = self.polls.saturating_add(1);
        self.last_poll = now;
    }

    pub(super) fn notified(&mut self) {
        self.polls = 0;
    }

    pub(super) fn consumed_in_time(&mut self) {
        self.overslept = 0;
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
    }

    pub(super) fn overslept(&mut self) {
        self.overslept = (self.overslept + 1).min(SLEEPER_AFTER);
        self.doublings /= 2;
    }

    fn is_polling(&self, now: Time) -> bool {
        self.polls >= POLLS_OF_A_POLLER && now.since(self.last_poll) < POLL_IS_NEWS
    }

    fn probe_is_due(&mut self) -> bool {
        self.unprobed = (self.unprobed + 1) % PROBE_EVERY;
        self.unprobed == 0
    }
}

#[cfg(test)]
impl Habit {
    /// The habit of an owner that slept through the last watches and whose next completion is no probe.
    pub(super) const fn sleeper() -> Self {
        Self {
            overslept: SLEEPER_AFTER,
            ..Self::new()
        }
    }
}
