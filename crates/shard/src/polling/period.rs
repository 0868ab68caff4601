//! What is expected next from programs that wait for each other.
//!
//! ```text
//!   core yielded ──► request ──► answer ──► core yielded ──► request ──► answer ──► ...
//!                    `── a period: two pieces of work ─┘
//! ```
//! Two programs that wait for each other through a shard on the core of one of them bring it the same number of pieces
//! of work between two silences each time. Then the shard knows more than that it has nothing to do. In the middle of a
//! period the answer comes from another core, where its program runs. At the end the program that shares the core is
//! next, and every system call before it gets the core is part of the latency.

/// Periods in a row with the same amount of work after which the next is expected to have it, too.
const ENOUGH: u32 = 4;

/// Such periods in a row after which the end of one is no longer checked by looking for more.
const STEADY: u32 = 32;

/// One of this many periods is checked: at its end the shard keeps looking for a moment, since otherwise an answer that
/// comes a little later would never be seen to belong to it. The number is odd: a period that is taken for two has its
/// answer in every second one, and each of the two must be checked.
const CHECKED: u32 = 17;

/// Periods in a row that are checked after a check that found more.
const DOUBTED: u32 = 8;

/// What is expected next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Not known.
    Unknown,
    /// More work of this period, from a program on another core.
    Work,
    /// Probably the end of the period: to be checked for a moment.
    Doubt,
    /// The end of the period: nothing, until others had this core.
    Silence,
}

/// The periods; see the module.
#[derive(Debug, Default)]
pub(super) struct Periods {
    /// Pieces of work in this period.
    work: u32,
    /// Pieces of work in each period lately.
    usual: u32,
    /// Number of periods in a row with that many.
    alike: u32,
    /// Number of periods that are still to be checked.
    doubted: u32,
    /// A piece of work in this period was of many messages.
    is_stream: bool,
}

impl Periods {
    /// Notes a piece of work, of few messages or of many. A program that sends many does not wait for each, so at the
    /// end of such a period nothing is gained by looking on.
    pub(super) fn worked(&mut self, many: bool) {
        self.work = self.work.saturating_add(1);
        self.is_stream |= many;
    }

    /// Notes that the core goes to others, or to sleep.
    pub(super) fn ended(&mut self) {
        let work = std::mem::take(&mut self.work);
        let is_stream = std::mem::take(&mut self.is_stream);
        if work == 0 {
            return;
        }
        // Only in this case: where periods differ anyway, a moment at the end of each would be lost.
        self.doubted = match self.is_checked() && work > self.usual && !is_stream {
            true => DOUBTED,
            false => self.doubted.saturating_sub(1),
        };
        self.alike = match work == self.usual {
            true => self.alike.saturating_add(1),
            false => 0,
        };
        self.usual = work;
    }

    /// Whether this period is over, so surely that nothing more need be looked for.
    pub(super) fn is_over(&self) -> bool {
        self.alike >= STEADY && self.next() == Next::Silence
    }

    fn is_checked(&self) -> bool {
        !self.is_stream && self.alike >= CHECKED && self.alike.is_multiple_of(CHECKED)
    }

    pub(super) fn next(&self) -> Next {
        let is_known = self.alike >= ENOUGH;
        let is_doubted = self.doubted > 0 && !self.is_stream;
        match self.work {
            0 => Next::Unknown,
            _ if !is_known && is_doubted => Next::Doubt,
            _ if !is_known => Next::Unknown,
            work if work < self.usual => Next::Work,
            work if work > self.usual => Next::Unknown,
            _ if is_doubted || self.is_checked() => Next::Doubt,
            _ => Next::Silence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the state after periods with these numbers of pieces of work.
    fn after(periods: &[u32]) -> Periods {
        let mut after = Periods::default();
        for work in periods {
            (0..*work).for_each(|_| after.worked(false));
            after.ended();
        }
        after
    }

    fn during_the_next(mut periods: Periods) -> [Next; 4] {
        std::array::from_fn(|_| {
            let next = periods.next();
            periods.worked(false);
            next
        })
    }

    #[test]
    fn who_takes_turns_is_known_after_some() {
        use Next::{Silence, Unknown, Work};
        assert_eq!(during_the_next(after(&[2; 4])), [Unknown; 4]);
        assert_eq!(
            during_the_next(after(&[2; 5])),
            [Unknown, Work, Silence, Unknown]
        );
        assert_eq!(
            during_the_next(after(&[1; 5])),
            [Unknown, Silence, Unknown, Unknown]
        );
    }

    #[test]
    fn one_that_differs_makes_it_unknown() {
        for other in [1, 3] {
            let periods = [2, 2, 2, 2, 2, other, 2, 2, 2, 2];
            assert_eq!(during_the_next(after(&periods)), [Next::Unknown; 4]);
        }
    }

    #[test]
    fn after_a_check_that_found_more_the_next_ones_are_doubted() {
        use Next::{Doubt, Unknown};
        let checked = CHECKED as usize + 1;
        let mut periods = vec![1; checked];
        assert_eq!(during_the_next(after(&periods))[..2], [Unknown, Doubt]);
        periods.push(2);
        for _ in 0..DOUBTED {
            assert_eq!(during_the_next(after(&periods))[..2], [Unknown, Doubt]);
            periods.push(1 + periods.len() as u32 % 2);
        }
        assert_eq!(during_the_next(after(&periods)), [Unknown; 4]);
    }

    #[test]
    fn the_end_of_a_steady_one_is_checked_now_and_then() {
        let mut periods = after(&[2; STEADY as usize]);
        let mut checked = 0;
        for _ in 0..CHECKED * 4 {
            periods.worked(false);
            assert!(!periods.is_over(), "in its middle");
            periods.worked(false);
            checked += u32::from(!periods.is_over());
            periods.ended();
        }
        // The first period is not steady yet; four of the others are checked.
        assert_eq!(checked, 1 + 4);
        periods.worked(false);
        periods.ended();
        periods.worked(false);
        assert!(!periods.is_over(), "after another one");
    }

    #[test]
    fn a_stream_of_messages_is_not_doubted() {
        let mut periods = after(&[1; CHECKED as usize + 1]);
        periods.worked(true);
        assert_eq!(periods.next(), Next::Silence);
        periods.worked(false);
        periods.ended();
        periods.worked(false);
        assert_eq!(periods.next(), Next::Unknown, "of another length");
    }

    #[test]
    fn silence_without_work_is_no_period() {
        let periods = [2, 0, 2, 0, 0, 2, 2, 2, 0];
        assert_eq!(during_the_next(after(&periods))[1], Next::Work);
    }
}
