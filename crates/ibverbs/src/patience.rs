//! What a poll does when it finds nothing.
//!
//! ```text
//!   the program only polls, or has polled in vain for a while ──► gives its core to a thread that may have work for it
//!   each thread that had its core brought what it waits for   ──► the same, at once
//!   it has just asked for an event: it will sleep next         ──► polls on for a moment, if that was worth it lately
//!   else                                                       ──► returns
//! ```
//!
//! Two threads that spin on one core cost each other a scheduler tick of 4 ms. A thread that sleeps costs two switches
//! and a wake-up, which take longer than many answers. This module knows times and counts, and no queue.

mod yields;

use std::time::{Duration, Instant};

use yields::Yields;

/// Empty polls that follow each other closely after which the poller gives its core away.
const TIGHT_MAX: u32 = 10;

/// The same while no other thread has wanted the core lately: some 3 us. Giving the core away takes as long as ten
/// polls, in which nothing is seen.
const TIGHT_MAX_ALONE: u32 = 80;

/// Polls that follow each other this closely are all that the program does. Other programs look between pieces of work
/// (QEMU twice after each page that it sends), where giving the core away each time costs more than the work.
const TIGHT: Duration = Duration::from_nanos(150);

/// While polls do not follow each other closely, one in this many reads the clock, which takes as long as the rest of
/// a poll.
const CLOCK_EVERY: u32 = 4;

/// Time after which a program that does something between its polls gives its core away: it may be waiting all the
/// same.
const TURN: Duration = Duration::from_micros(50);

/// How long a poll goes on before the program sleeps: about what sleeping and waking up take.
const MOMENT: Duration = Duration::from_micros(20);

/// Moments in vain after which most are left out, and the most successful ones that are remembered.
const CREDIT_MAX: u8 = 4;

/// Without credit, one moment in this many is tried.
const TRIED: u8 = 16;

/// What to do after an empty poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// Return.
    Return,
    /// Give the core away, look once more, and return.
    Yield,
    /// Give the core away and poll again.
    Again,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Patience {
    /// When the queue was last found empty by a poll that read the clock.
    found_empty: Instant,
    /// Empty polls since `found_empty`.
    since_clock: u32,
    /// Empty polls in a row that followed each other closely.
    tight_polls: u32,
    /// Such polls after which the poller gives its core away.
    tight_max: u32,
    /// When the queue became empty, or when the poller last gave its core away.
    waits_since: Option<Instant>,
    /// When the core was given away, if no poll has looked since.
    yielded: Option<Instant>,
    yields: Yields,
    /// Whether the program has asked for an event and not polled since.
    is_armed: bool,
    /// The end of the moment that a poll goes on for.
    moment: Option<Instant>,
    /// Moments that are believed to be worth it.
    credit: u8,
    /// Moments that were left out since the last one.
    left_out: u8,
}

impl Patience {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            found_empty: now,
            since_clock: 0,
            tight_polls: 0,
            tight_max: TIGHT_MAX,
            waits_since: None,
            yielded: None,
            yields: Yields::default(),
            is_armed: false,
            moment: None,
            credit: 1,
            left_out: 0,
        }
    }

    /// Notes that the program asked for an event.
    pub(crate) fn armed(&mut self) {
        self.is_armed = true;
    }

    /// Notes that a poll found something. `clock` is read if the time matters, and `switches` now and then, see
    /// [`Yields::brought`].
    #[inline]
    pub(crate) fn found(
        &mut self,
        clock: impl FnOnce() -> Instant,
        switches: impl FnOnce() -> Option<u64>,
    ) {
        if self.moment.take().is_some() {
            self.credit = (self.credit + 1).min(CREDIT_MAX);
        }
        if let Some(at) = self.yielded.take() {
            let took = clock().duration_since(at);
            match self.was_switch(took) {
                true => self.yields.brought(took, switches),
                false => self.yields.brought_nothing(),
            }
        }
        self.tight_polls = 0;
        self.waits_since = None;
        self.is_armed = false;
    }

    /// Notes that a poll found nothing. `clock` is read if the time matters.
    #[inline]
    pub(crate) fn found_nothing(&mut self, clock: impl FnOnce() -> Instant) -> Rest {
        self.since_clock += 1;
        let is_timed = self.since_clock >= CLOCK_EVERY
            || self.tight_polls > 0
            || self.yielded.is_some()
            || self.yields.pay()
            || self.is_armed
            || self.moment.is_some();
        if is_timed {
            self.found_nothing_at(clock())
        } else {
            Rest::Return
        }
    }

    fn found_nothing_at(&mut self, now: Instant) -> Rest {
        let polls = std::mem::take(&mut self.since_clock);
        if let Some(at) = self.yielded.take() {
            self.was_switch(now.duration_since(at));
            self.yields.brought_nothing();
        }
        if self.goes_on(now) {
            return Rest::Again;
        }
        if self.is_waiting(now, polls) || self.yields.pay() {
            self.yielded = Some(now);
            Rest::Yield
        } else {
            Rest::Return
        }
    }

    /// Whether a yield of this duration was a switch to another thread.
    fn was_switch(&mut self, took: Duration) -> bool {
        let was_switch = self.yields.was_switch(took);
        self.tight_max = match was_switch {
            true => TIGHT_MAX,
            false => (self.tight_max * 2).min(TIGHT_MAX_ALONE),
        };
        was_switch
    }

    /// Whether the poll goes on before the program sleeps.
    fn goes_on(&mut self, now: Instant) -> bool {
        if let Some(end) = self.moment {
            let goes_on = now < end;
            if !goes_on {
                self.moment = None;
                self.credit = self.credit.saturating_sub(1);
            }
            return goes_on;
        }
        if !std::mem::take(&mut self.is_armed) || !self.is_worth_it() {
            return false;
        }
        self.moment = Some(now + MOMENT);
        true
    }

    fn is_worth_it(&mut self) -> bool {
        self.left_out = (self.left_out + 1) % TRIED;
        self.credit > 0 || self.left_out == 0
    }

    /// Whether the program waits for a completion, judged by the times of its empty polls. `polls` of them came since
    /// the clock was last read.
    fn is_waiting(&mut self, now: Instant, polls: u32) -> bool {
        let is_tight = now.duration_since(self.found_empty) < TIGHT * polls;
        self.found_empty = now;
        self.tight_polls = if is_tight {
            self.tight_polls.saturating_add(polls)
        } else {
            0
        };
        let since = *self.waits_since.get_or_insert(now);
        let is_waiting = self.tight_polls > self.tight_max || now.duration_since(since) >= TURN;
        if is_waiting {
            self.waits_since = Some(now);
        }
        is_waiting
    }
}

#[cfg(test)]
mod tests {
    use super::yields::ENOUGH;
    use super::*;

    /// A program with a clock.
    struct Program {
        patience: Patience,
        now: Instant,
    }

    impl Program {
        fn new() -> Self {
            let now = Instant::now();
            let patience = Patience::new(now);
            Self { patience, now }
        }

        /// An empty poll, this long after the last one.
        fn polls(&mut self, after: Duration) -> Rest {
            self.now += after;
            self.patience.found_nothing(|| self.now)
        }

        /// A poll that finds something, this long after the last one.
        fn finds(&mut self, after: Duration) {
            self.now += after;
            self.patience.found(|| self.now, || None);
        }

        /// Asks for an event and polls in vain; returns how many times the poll looked.
        fn looks_before_sleep(&mut self) -> u32 {
            self.patience.armed();
            let again = std::iter::from_fn(|| Some(self.polls(MOMENT / 4)));
            let again = again.take_while(|rest| *rest == Rest::Again);
            again.count() as u32 + 1
        }
    }

    #[test]
    fn who_only_polls_gives_way_more_seldom_where_nobody_wants_the_core() {
        let [alone, beside_another] = [400, 3_000].map(Duration::from_nanos);
        for (had, between) in [(alone, TIGHT_MAX_ALONE), (beside_another, TIGHT_MAX)] {
            let mut program = Program::new();
            let mut polls_between = || {
                let polls = std::iter::from_fn(|| Some(program.polls(TIGHT / 2)));
                let polls = polls.take_while(|rest| *rest == Rest::Return).count();
                program.polls(had);
                polls as u32
            };
            assert_eq!(polls_between(), TIGHT_MAX);
            assert!((0..5).all(|_| polls_between() >= TIGHT_MAX));
            assert_eq!(polls_between(), between, "{had:?}");
        }
    }

    /// Polls in vain until the program gives way, and finds something after `had`; returns the number of polls.
    fn polls_before_giving_way(program: &mut Program, had: Duration) -> usize {
        let tight = TIGHT / 2;
        let polls = std::iter::from_fn(|| Some(program.polls(tight)));
        let polls = 1 + polls.take_while(|rest| *rest == Rest::Return).count();
        program.finds(had);
        polls
    }

    #[test]
    fn to_who_brings_something_each_time_the_core_is_given_at_once() {
        let [alone, beside_another, beside_one_who_computes] =
            [400, 3_000, 4_000_000].map(Duration::from_nanos);
        let usual = |polls: usize| polls > TIGHT_MAX as usize;
        let mut program = Program::new();
        for had in [alone, beside_one_who_computes] {
            let mut polls = (0..20).map(|_| polls_before_giving_way(&mut program, had));
            assert!(polls.all(usual), "{had:?}");
        }
        let mut polls = (0..20).map(|_| polls_before_giving_way(&mut program, beside_another));
        assert!(polls.by_ref().take(ENOUGH.into()).all(usual));
        assert!(polls.all(|polls| polls == 1));
        for breaks in [
            |program: &mut Program| assert_eq!(program.polls(TIGHT * 20), Rest::Return),
            |program: &mut Program| program.finds(Duration::from_millis(4)),
        ] {
            for _ in 0..ENOUGH {
                polls_before_giving_way(&mut program, beside_another);
            }
            assert_eq!(program.polls(TIGHT), Rest::Yield);
            breaks(&mut program);
            assert!(usual(polls_before_giving_way(&mut program, beside_another)));
        }
    }

    #[test]
    fn who_works_between_polls_gives_way_at_its_turn_only() {
        for looks in [1, 2] {
            let mut program = Program::new();
            let mut turns = 0;
            for _ in 0..80 {
                for look in 0..looks {
                    let after = if look == 0 { TURN / 8 } else { Duration::ZERO };
                    if program.polls(after) == Rest::Yield {
                        turns += 1;
                        program.polls(Duration::from_nanos(400));
                    }
                }
            }
            assert!((9..=10).contains(&turns), "{looks} looks: {turns}");
        }
    }

    #[test]
    fn the_clock_is_read_rarely_while_the_program_works_between_polls() {
        let mut program = Program::new();
        let mut read = 0;
        for _ in 0..40 {
            program.now += TIGHT * 2;
            program.patience.found_nothing(|| {
                read += 1;
                program.now
            });
        }
        assert_eq!(read, 40 / CLOCK_EVERY);
    }

    #[test]
    fn who_is_about_to_sleep_polls_on_while_that_is_worth_it() {
        let mut program = Program::new();
        for _ in 0..3 {
            program.patience.armed();
            assert_eq!(program.polls(TURN), Rest::Again);
            program.finds(Duration::ZERO);
        }
        assert!((0..CREDIT_MAX).all(|_| program.looks_before_sleep() > 1));
        let tried = (0..u32::from(TRIED)).filter(|_| program.looks_before_sleep() > 1);
        assert_eq!(tried.count(), 1, "in vain too often");
    }

    #[test]
    fn a_moment_belongs_to_the_first_poll_after_the_request() {
        let mut program = Program::new();
        program.patience.armed();
        program.finds(Duration::ZERO);
        assert_eq!(program.polls(TURN), Rest::Return, "nothing is awaited");
        program.looks_before_sleep();
        assert_ne!(program.polls(TURN), Rest::Again);
    }
}
