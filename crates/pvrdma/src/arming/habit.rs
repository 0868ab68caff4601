//! What the owner of a CQ usually does: poll it, or sleep until it is told.
//!
//! Only ever a guess. It decides how long a maybe-armed CQ waits, never whether it is notified.

use core::time::Duration;

use vrdma_verbs::Time;

use super::PATIENCE;

/// After so many watches in a row that nobody woke up for, the guest is a sleeper.
const SLEEPER_AFTER: u8 = 3;

/// One in so many of a sleeper's completions is watched all the same, to notice that it polls now. The
/// price is one [`PATIENCE`] in so many notifications.
const PROBE_EVERY: u8 = 32;

/// A poller's patience doubles up to 2^5 times [`PATIENCE`], about 1 ms: its vCPU may be off its core
/// for that long, and a poller that becomes a sleeper waits no longer than that, three times.
const DOUBLINGS_MAX: u8 = 5;

/// A sleeper writes at most three POLLs from one notification to the next (drain, arm, drain): more
/// of them show a poller.
const POLLS_OF_A_POLLER: u8 = 4;

/// A POLL is news for that long; later its writer may have gone to sleep.
const POLL_IS_NEWS: Duration = Duration::from_micros(64);

/// The memory of one CQ.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Habit {
    last_poll: Time,
    /// POLLs seen since the last notification or ARM.
    polls: u8,
    /// Watches that ended with a notification, in a row.
    overslept: u8,
    /// Doublings of the patience.
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

    /// How long to wait for the guest to look by itself; `None` for a sleeper.
    pub(super) fn patience(&mut self, now: Time) -> Option<Duration> {
        if self.overslept < SLEEPER_AFTER {
            return Some(PATIENCE * (1 << self.doublings));
        }
        if self.is_polling(now) || self.probe_is_due() {
            return Some(PATIENCE);
        }
        None
    }

    /// An ARM was seen: somebody means to sleep.
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
    /// Somebody who slept through the last watches and whose next completion is no probe.
    pub(super) const fn sleeper() -> Self {
        Self {
            overslept: SLEEPER_AFTER,
            ..Self::new()
        }
    }
}
