//! How a shard waits for work.
//!
//! | mode | without work |
//! |---|---|
//! | adaptive | polls on for a moment if messages follow each other closely ([`adaptive`]), then sleeps until something wakes it or its next deadline, which the carrier makes early while doorbells in memory must be looked at |
//! | always | polls on. It never sleeps, so nobody has to wake it; for a core that nobody else uses ([`pin`]) |
//!
//! On a core of its own a shard makes no system calls in the first moments after work ([`CLOSE`]). On a core that it
//! shares with programs it learns when they are next ([`period`]).

mod adaptive;
mod backoff;
mod period;
pub(crate) mod pin;

use std::time::Duration;

use vrdma_api::PollMode;
use vrdma_verbs::Time;

use adaptive::Adaptive;
use backoff::{Backoff, CROWDED};
use period::{Next, Periods};

/// A message that follows this closely would wait for the kernel: asking the sockets and giving the core away take as
/// long as the message itself. Sockets wait no longer than this after the last message; while messages keep coming,
/// they wait as long as ever. Where others use the core, the program that was just woken may be one of them, and would
/// wait for it.
const CLOSE: Duration = Duration::from_micros(2);

/// An expected answer comes within this time, if at all.
const ANSWER: Duration = Duration::from_micros(10);

/// What a shard does when a turn found nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// Looks again at once.
    Poll,
    /// Looks again at once, at memory only: rings, but not sockets.
    Look,
    /// Looks again after the others on its core had their turn.
    Yield,
    /// Like `Yield`, but without a look at sockets first.
    YieldAtOnce,
    /// Sleeps until its next deadline, or until something wakes it.
    Sleep,
}

/// How long the core must have come back at once before the next backoff is short again, where the program that shares
/// the core is known to be next. In that time more is gained than a tick of the scheduler (4 ms) costs, since a sleep
/// and a wake-up are a quarter of a short message.
const WORTH_EXPECTED: Duration = Duration::from_millis(100);

/// The same time where yielding is only tried, and gains less.
const WORTH_TRIED: Duration = Duration::from_millis(320);

/// Why a core was yielded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// The program that shares the core is next.
    Expected,
    /// The program that shares the core may be next.
    Tried,
}

/// How a shard rests; see the module.
#[derive(Debug)]
pub(crate) struct Polling {
    mode: PollMode,
    owns_core: bool,
    adaptive: Adaptive,
    periods: Periods,
    /// Backoffs of the two kinds of yielding.
    expected: Backoff,
    tried: Backoff,
    /// The core was yielded, and is not known to be back.
    yielded: Option<(Why, Time)>,
    last_work: Time,
}

impl Polling {
    pub(crate) fn new(mode: PollMode, owns_core: bool) -> Self {
        Self {
            mode,
            owns_core,
            adaptive: Adaptive::default(),
            periods: Periods::default(),
            expected: Backoff::new(WORTH_EXPECTED),
            tried: Backoff::new(WORTH_TRIED),
            yielded: None,
            last_work: Time(0),
        }
    }

    /// Notes that a turn that began at `began` found work.
    pub(crate) fn worked(&mut self, began: Time, now: Time) {
        self.came_back(now);
        self.adaptive.found(now, self.last_work);
        self.periods.worked(now.since(began) >= CLOSE);
        self.last_work = now;
    }

    /// Notes that a socket had something: that is work, but says nothing of how closely messages follow.
    pub(crate) fn served(&mut self, now: Time) {
        self.last_work = now;
    }

    /// Whether the shard yields its core right after work: nothing more is expected until others had the core, so a
    /// turn would look in vain. It does not sleep in this case, since there may be more to do all the same.
    pub(crate) fn yields_after_work(&mut self, now: Time, watching: bool) -> bool {
        let yields = self.periods.is_over()
            && self.mode == PollMode::Adaptive
            && !self.owns_core
            && self.expected.allows(now)
            && self.expects(now, watching);
        if yields {
            self.note(Rest::YieldAtOnce, now);
        }
        yields
    }

    /// Returns what to do after a turn without work. `watching` says that a guest with doorbells in memory may occupy a
    /// core to wait for its next message.
    pub(crate) fn rest(&mut self, now: Time, watching: bool) -> Rest {
        self.came_back(now);
        let is_close = now < self.last_work + CLOSE;
        let is_always = self.mode == PollMode::Always;
        if self.owns_core && is_close && (is_always || self.expects(now, watching)) {
            return Rest::Look;
        }
        if is_always {
            return Rest::Poll;
        }
        let rest = match self.expects(now, watching) {
            true if self.owns_core => Rest::Yield,
            true => self.among_others(now, is_close),
            false => Rest::Sleep,
        };
        self.note(rest, now);
        rest
    }

    fn expects(&self, now: Time, watching: bool) -> bool {
        self.adaptive.expects(now, self.last_work, watching)
    }

    /// Returns what to do on a core that others use, too.
    fn among_others(&self, now: Time, is_close: bool) -> Rest {
        match self.periods.next() {
            Next::Work | Next::Doubt if is_close => Rest::Look,
            Next::Work if now < self.last_work + ANSWER => Rest::Poll,
            Next::Silence | Next::Doubt if self.expected.allows(now) => Rest::YieldAtOnce,
            Next::Unknown if self.tried.allows(now) => Rest::Yield,
            // A client that rings wakes the shard.
            _ => Rest::Sleep,
        }
    }

    fn note(&mut self, rest: Rest, now: Time) {
        self.yielded = match rest {
            Rest::YieldAtOnce => Some((Why::Expected, now)),
            Rest::Yield => Some((Why::Tried, now)),
            _ => None,
        };
        let sleeps = rest == Rest::Sleep;
        if sleeps || self.yielded.is_some() {
            self.periods.ended();
        }
        match sleeps {
            true => self.adaptive.sleeps(),
            false => self.adaptive.looks_on(),
        }
    }

    /// Notes that the core is back, if it was yielded.
    fn came_back(&mut self, now: Time) {
        match self.yielded.take() {
            Some((Why::Expected, at)) if now >= at + CROWDED => self.expected.came_late(now),
            Some((Why::Tried, at)) if now >= at + CROWDED => self.tried.came_late(now),
            _ => {}
        }
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
            assert_eq!(polling.rest(SECOND, watching), Rest::Poll);
        }
    }

    #[test]
    fn an_adaptive_shard_without_work_sleeps() {
        let mut polling = Polling::new(PollMode::Adaptive, false);
        assert_eq!(polling.rest(SECOND, false), Rest::Sleep);
    }

    /// Returns what it does after a silence that follows closely spaced messages.
    fn rest_after(mut polling: Polling, silence: Duration) -> Rest {
        let mut now = SECOND;
        for _ in 0..8 {
            now = now + Duration::from_micros(20);
            polling.worked(now, now);
        }
        polling.rest(now + silence, false)
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

    /// Makes a shard whose core two programs use in turns that wait for each other; returns it and the end of the last
    /// turn.
    fn between_two_programs() -> (Polling, Time) {
        after_periods(Polling::new(PollMode::Adaptive, false), 8)
    }

    fn after_periods(mut polling: Polling, periods: u32) -> (Polling, Time) {
        let mut now = SECOND;
        for _ in 0..periods {
            now = now + Duration::from_micros(3);
            polling.worked(now, now);
            polling.worked(now, now);
            while polling.rest(now, false) == Rest::Look {
                now = now + CLOSE / 2;
            }
        }
        (polling, now)
    }

    #[test]
    fn after_many_periods_the_core_is_yielded_right_after_work_where_others_use_it() {
        for (mode, owns_core, periods, yields) in [
            (PollMode::Adaptive, false, 8, false),
            (PollMode::Adaptive, false, 60, true),
            (PollMode::Adaptive, true, 60, false),
            (PollMode::Always, false, 60, false),
        ] {
            let (mut polling, mut now) = after_periods(Polling::new(mode, owns_core), periods);
            now = now + Duration::from_micros(3);
            polling.worked(now, now);
            assert!(!polling.yields_after_work(now, false), "in the middle");
            polling.worked(now, now);
            assert!(!polling.yields_after_work(now, true), "guests ring");
            assert_eq!(
                polling.yields_after_work(now, false),
                yields,
                "{mode:?} {periods}"
            );
            let late = now + CROWDED;
            polling.worked(late, late);
            polling.worked(late, late);
            assert!(!polling.yields_after_work(late, false), "it came back late");
        }
    }

    #[test]
    fn an_answer_that_comes_a_moment_later_is_seen_to_belong_to_its_period() {
        let mut polling = Polling::new(PollMode::Adaptive, false);
        let mut now = SECOND;
        let mut yields_between = 0;
        for period in 0..100 {
            now = now + Duration::from_micros(3);
            polling.worked(now, now);
            let answer = now + Duration::from_nanos(700);
            while now < answer {
                let rest = polling.rest(now, false);
                yields_between += u32::from(period >= 40 && rest != Rest::Look);
                now = now + Duration::from_nanos(100);
            }
            polling.worked(now, now);
            while polling.rest(now, false) == Rest::Look {
                now = now + Duration::from_nanos(100);
            }
        }
        assert_eq!(
            yields_between, 0,
            "the shard took the first half for a period"
        );
    }

    #[test]
    fn in_the_middle_of_a_period_an_answer_is_waited_for() {
        let (mut polling, mut now) = between_two_programs();
        now = now + Duration::from_micros(3);
        polling.worked(now, now);
        for (silence, rest) in [
            (Duration::ZERO, Rest::Look),
            (CLOSE, Rest::Poll),
            (ANSWER, Rest::Sleep),
        ] {
            assert_eq!(polling.rest(now + silence, false), rest);
        }
    }

    #[test]
    fn at_its_end_the_core_goes_to_who_is_next_until_it_comes_back_late() {
        let (mut polling, mut now) = between_two_programs();
        let mut period = |polling: &mut Polling, after: Duration| {
            now = now + after;
            polling.worked(now, now);
            polling.worked(now, now);
            polling.rest(now, false)
        };
        let at_once = Duration::from_micros(3);
        assert_eq!(period(&mut polling, at_once), Rest::YieldAtOnce);
        assert_eq!(period(&mut polling, at_once), Rest::YieldAtOnce);
        let rests = [CROWDED, at_once, at_once].map(|after| period(&mut polling, after));
        assert_eq!(rests, [Rest::Sleep; 3]);
        assert_eq!(
            period(&mut polling, Duration::from_millis(20)),
            Rest::YieldAtOnce
        );
    }
}
