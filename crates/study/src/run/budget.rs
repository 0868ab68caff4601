//! Divides the time of a limited run.
//!
//! ```text
//!   share:   |-- s0 send latency --|-- s0 read latency --|- ... -|-- s2 --|   each group by its weight beside those
//!            |  A B A B            |  A B .              |                |   to come; what one leaves over is the
//!                                                                             next ones', what it takes too much too
//!            a sixth of the time is not shared out: it is for the cells that shares do not reach
//!   begin:   what had no turn yet, as long as it fits into what is left; first what is quick
//!   repeat:  further turns, A B A B, as long as they fit
//! ```
//!
//! In the first pass a turn begins only inside its group's share, so that a group that is slow, or whose cells fail at
//! their limits, costs the others at most one turn. A share may be shorter than a turn: the first two cells of a group,
//! whose ratio is the subject of a study, have a turn each as long as any time is left, if they are quick.

use std::time::{Duration, Instant};

/// A clock.
pub trait Clock {
    /// The time since some fixed moment.
    fn now(&self) -> Duration;
}

/// The clock of a run.
#[derive(Debug)]
pub struct Watch(Instant);

impl Watch {
    /// Starts the clock.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Watch {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Number of rivals of a group that have a first turn whatever its share, and the seconds that it may take, about.
const RIVALS: usize = 2;
const QUICK: u64 = 20;

/// Part of the time, as a divisor, that is kept for cells that their group's share did not reach.
const KEPT: u32 = 6;

/// A pass over all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// Each group uses its share.
    Share,
    /// Cells without a turn have one, if it is quick.
    BeginQuick,
    /// Cells without a turn have one.
    Begin,
    /// All turns.
    Repeat,
}

impl Pass {
    /// The passes of a run.
    pub(super) fn of(time: Option<Duration>) -> &'static [Self] {
        match time {
            None => &[Self::Share],
            Some(_) => &[Self::Share, Self::BeginQuick, Self::Begin, Self::Repeat],
        }
    }
}

/// A turn that could begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// Whether its cell had no turn yet.
    pub(super) is_first: bool,
    /// Index of its cell in the group.
    pub(super) place: usize,
    /// Its seconds, about, without the start of what serves other turns too.
    pub(super) seconds: u64,
    /// Seconds for what must be started.
    pub(super) start: u64,
}

/// The time budget of a run; without a limit every turn is allowed.
pub(super) struct Budget<'a> {
    clock: &'a dyn Clock,
    end: Option<Duration>,
    /// Time that is not shared out.
    kept: Duration,
    pass: Pass,
    share_end: Duration,
    has_refused: bool,
}

impl<'a> Budget<'a> {
    pub(super) fn new(clock: &'a dyn Clock, time: Option<Duration>) -> Self {
        Self {
            clock,
            end: time.map(|time| clock.now() + time),
            kept: time.unwrap_or_default() / KEPT,
            pass: Pass::Share,
            share_end: Duration::ZERO,
            has_refused: false,
        }
    }

    pub(super) fn begin_pass(&mut self, pass: Pass) {
        self.pass = pass;
        self.has_refused = false;
    }

    /// Begins a group that needs about `seconds` of the `of_all` that it and all later groups need.
    pub(super) fn begin(&mut self, seconds: u64, of_all: u64) {
        let shared = self.left().saturating_sub(self.kept);
        self.share_end = self.clock.now() + share(shared, seconds, of_all);
    }

    pub(super) fn allows(&mut self, turn: Turn) -> bool {
        let is_allowed = self.end.is_none() || self.has_time_for(turn);
        self.has_refused |= !is_allowed;
        is_allowed
    }

    /// Whether a turn was refused in this pass.
    pub(super) fn has_refused(&self) -> bool {
        self.has_refused
    }

    fn has_time_for(&self, turn: Turn) -> bool {
        let left = self.left();
        let fits = Duration::from_secs(turn.start + turn.seconds) <= left;
        let is_rival = turn.is_first && turn.place < RIVALS && turn.seconds <= QUICK;
        match self.pass {
            Pass::Share => self.clock.now() < self.share_end || is_rival && left > Duration::ZERO,
            Pass::BeginQuick => turn.is_first && fits && turn.seconds <= QUICK,
            Pass::Begin => turn.is_first && fits,
            Pass::Repeat => fits,
        }
    }

    fn left(&self) -> Duration {
        self.end
            .unwrap_or_default()
            .saturating_sub(self.clock.now())
    }
}

/// The share of `left` for one of several weights.
fn share(left: Duration, weight: u64, of_all: u64) -> Duration {
    match of_all {
        0 => left,
        all => left.mul_f64(weight.min(all) as f64 / all as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Duration {
            Duration::from_secs(1000)
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    fn turn(place: usize, seconds: u64) -> Turn {
        Turn {
            is_first: true,
            place,
            seconds,
            start: 0,
        }
    }

    #[test]
    fn what_a_group_leaves_over_is_the_next_ones() {
        assert_eq!(share(MINUTE, 10, 30), Duration::from_secs(20));
        assert_eq!(share(MINUTE, 10, 20), Duration::from_secs(30));
        assert_eq!(share(MINUTE, 10, 10), MINUTE);
        assert_eq!(share(MINUTE, 1, 0), MINUTE);
    }

    /// A clock that is set by the test.
    struct Told(std::cell::Cell<u64>);

    impl Clock for Told {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.get())
        }
    }

    #[test]
    fn a_part_is_kept_for_what_shares_do_not_reach() {
        let clock = Told(std::cell::Cell::new(0));
        let mut budget = Budget::new(&clock, Some(MINUTE));
        budget.begin(10, 10);
        clock.0.set(49);
        assert!(budget.allows(turn(9, 1)));
        clock.0.set(50);
        assert!(!budget.allows(turn(9, 1)));
        budget.begin_pass(Pass::BeginQuick);
        assert!(budget.allows(turn(9, 10)) && !budget.allows(turn(9, 11)));
    }

    #[test]
    fn without_a_limit_everything_is_allowed() {
        let mut budget = Budget::new(&Stopped, None);
        budget.begin(10, 10);
        assert!(budget.allows(turn(9, 1000)) && !budget.has_refused());
    }

    #[test]
    fn no_time_is_time_for_nothing() {
        let mut budget = Budget::new(&Stopped, Some(Duration::ZERO));
        for &pass in Pass::of(Some(Duration::ZERO)) {
            budget.begin_pass(pass);
            budget.begin(10, 10);
            assert!(!budget.allows(turn(0, 1)) && budget.has_refused());
        }
    }

    #[test]
    fn without_a_share_only_quick_rivals_begin() {
        let mut budget = Budget::new(&Stopped, Some(MINUTE));
        budget.begin(0, 10);
        assert!(budget.allows(turn(1, QUICK)));
        // The first turn also boots the guests.
        let boots = Turn {
            start: QUICK,
            ..turn(1, QUICK)
        };
        assert!(budget.allows(boots));
        assert!(!budget.allows(turn(2, 1)) && !budget.allows(turn(0, QUICK + 1)));
        let again = Turn {
            is_first: false,
            ..turn(0, 1)
        };
        assert!(!budget.allows(again));
    }

    #[test]
    fn later_passes_take_what_fits() {
        let mut budget = Budget::new(&Stopped, Some(MINUTE));
        let again = |seconds| Turn {
            is_first: false,
            ..turn(7, seconds)
        };
        budget.begin_pass(Pass::BeginQuick);
        assert!(budget.allows(turn(7, QUICK)) && !budget.allows(turn(7, QUICK + 1)));
        budget.begin_pass(Pass::Begin);
        assert!(budget.allows(turn(7, 60)) && !budget.allows(turn(7, 61)));
        assert!(!budget.allows(again(1)));
        budget.begin_pass(Pass::Repeat);
        assert!(budget.allows(again(60)) && !budget.has_refused());
        assert!(!budget.allows(again(61)) && budget.has_refused());
    }
}
