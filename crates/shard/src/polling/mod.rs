//! How a shard waits for work.
//!
//! | mode | without work |
//! |---|---|
//! | adaptive | polls on for a moment if messages follow each other closely ([`adaptive`]), then sleeps until something wakes it or its next deadline, which the carrier makes early while doorbells in memory must be looked at |
//! | always | polls on. It never sleeps, so nobody has to wake it; for a core that nobody else uses ([`pin`]) |
//!
//! On a core of its own a shard asks the kernel for nothing in the first moments after work ([`CLOSE`]).

mod adaptive;
pub(crate) mod pin;

use std::time::Duration;

use vrdma_api::PollMode;
use vrdma_verbs::Time;

use adaptive::Adaptive;

/// A message that follows so closely would wait for the kernel: asking the sockets and giving the core away take as long as
/// the message itself. Sockets wait no longer than this, and while messages come without end as long as ever. Where others use
/// the core, the program that was just woken may be one of them, and would wait for it.
const CLOSE: Duration = Duration::from_micros(2);

/// What a shard does when a turn found nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// Looks again at once.
    Poll,
    /// Looks again at once at what is in memory only: rings, and not sockets.
    Look,
    /// Looks again once others on its core had their turn.
    Yield,
    /// Sleeps for so long, or until something wakes it.
    Sleep(Option<Duration>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Polling {
    mode: PollMode,
    owns_core: bool,
    adaptive: Adaptive,
    last_work: Time,
}

impl Polling {
    pub(crate) fn new(mode: PollMode, owns_core: bool) -> Self {
        Self {
            mode,
            owns_core,
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
        let is_always = self.mode == PollMode::Always;
        if !is_always && !self.adaptive.goes_on(now, self.last_work, watching) {
            return Rest::Sleep(timer);
        }
        if self.owns_core && now < self.last_work + CLOSE {
            return Rest::Look;
        }
        if is_always { Rest::Poll } else { Rest::Yield }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Time = Time(1_000_000_000);

    #[test]
    fn a_shard_that_polls_always_never_sleeps() {
        let mut polling = Polling::new(PollMode::Always, false);
        for watching in [false, true] {
            assert_eq!(polling.rest(SECOND, watching, None), Rest::Poll);
        }
    }

    #[test]
    fn an_adaptive_shard_without_work_sleeps_until_its_timer() {
        let mut polling = Polling::new(PollMode::Adaptive, false);
        let timer = Some(Duration::from_millis(3));
        assert_eq!(polling.rest(SECOND, false, timer), Rest::Sleep(timer));
        assert_eq!(polling.rest(SECOND, false, None), Rest::Sleep(None));
    }

    /// What it does so long after messages that followed each other closely.
    fn rest_after(mut polling: Polling, silence: Duration) -> Rest {
        let mut now = SECOND;
        for _ in 0..8 {
            now = now + Duration::from_micros(20);
            polling.worked(now);
        }
        polling.rest(now + silence, false, None)
    }

    #[test]
    fn work_that_follows_closely_is_waited_for() {
        let [at_once, later] = [CLOSE / 2, CLOSE];
        for (mode, owns_core, silence, rest) in [
            (PollMode::Adaptive, false, at_once, Rest::Yield),
            (PollMode::Adaptive, true, at_once, Rest::Look),
            (PollMode::Adaptive, true, later, Rest::Yield),
            (PollMode::Always, true, at_once, Rest::Look),
            (PollMode::Always, true, later, Rest::Poll),
        ] {
            let polling = Polling::new(mode, owns_core);
            assert_eq!(rest_after(polling, silence), rest, "{mode:?} {silence:?}");
        }
    }
}
