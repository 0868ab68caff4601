//! How a shard waits for work.
//!
//! | mode | without work |
//! |---|---|
//! | adaptive | polls on for a moment if messages follow each other closely ([`adaptive`]), then sleeps until something wakes it or its next deadline, which the carrier makes early while doorbells in memory must be looked at |
//! | always | polls on. It never sleeps, so nobody has to wake it; for a core that nobody else uses ([`pin`]) |

mod adaptive;
pub(crate) mod pin;

use std::time::Duration;

use vrdma_api::PollMode;
use vrdma_verbs::Time;

use adaptive::Adaptive;

/// What a shard does when a turn found nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// Looks again at once.
    Poll,
    /// Looks again once others on its core had their turn.
    Yield,
    /// Sleeps for so long, or until something wakes it.
    Sleep(Option<Duration>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Polling {
    mode: PollMode,
    adaptive: Adaptive,
    last_work: Time,
}

impl Polling {
    pub(crate) fn new(mode: PollMode) -> Self {
        Self {
            mode,
            adaptive: Adaptive::default(),
            last_work: Time(0),
        }
    }

    /// A turn found work.
    pub(crate) fn worked(&mut self, now: Time) {
        self.adaptive.found(now, self.last_work);
        self.last_work = now;
    }

    /// A socket had something: that is work, but says nothing of how closely messages follow.
    pub(crate) fn served(&mut self, now: Time) {
        self.last_work = now;
    }

    /// A turn found none. `watching` says that a guest with doorbells in memory may occupy a core to wait
    /// for its next message; `timer` is the time to the nearest deadline.
    pub(crate) fn rest(&mut self, now: Time, watching: bool, timer: Option<Duration>) -> Rest {
        if self.mode == PollMode::Always {
            return Rest::Poll;
        }
        if self.adaptive.goes_on(now, self.last_work, watching) {
            return Rest::Yield;
        }
        Rest::Sleep(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Time = Time(1_000_000_000);

    #[test]
    fn a_shard_that_polls_always_never_sleeps() {
        let mut polling = Polling::new(PollMode::Always);
        for watching in [false, true] {
            assert_eq!(polling.rest(SECOND, watching, None), Rest::Poll);
        }
    }

    #[test]
    fn an_adaptive_shard_without_work_sleeps_until_its_timer() {
        let mut polling = Polling::new(PollMode::Adaptive);
        let timer = Some(Duration::from_millis(3));
        assert_eq!(polling.rest(SECOND, false, timer), Rest::Sleep(timer));
        assert_eq!(polling.rest(SECOND, false, None), Rest::Sleep(None));
    }

    #[test]
    fn work_that_follows_closely_is_waited_for() {
        let mut polling = Polling::new(PollMode::Adaptive);
        let mut now = SECOND;
        for _ in 0..8 {
            polling.worked(now);
            now = now + Duration::from_micros(20);
        }
        assert_eq!(polling.rest(now, false, None), Rest::Yield);
    }
}
