//! What is expected next, of programs that wait for each other.
//!
//! ```text
//!   core yielded ──► request ──► answer ──► core yielded ──► request ──► answer ──► ...
//!                    `── a period: two pieces of work ─┘
//! ```
//! Two programs that wait for each other through a shard on the core of one of them bring it the same number of pieces of work
//! between two silences each time. Then the shard knows more than that it has nothing to do: in the middle of a period the answer
//! comes from another core, where its program runs; at the end who shares the core is next, and every system call before that one
//! gets it is part of the latency.

/// Periods with as much work in a row after which the next is believed to be such too.
const ENOUGH: u32 = 4;

/// After so many nothing more is looked for at the end of one.
const STEADY: u32 = 32;

/// One of so many is checked: at its end the shard looks on for a moment, or an answer that comes a little later would never be
/// seen to belong to it. An odd number, since a period that is seen as two has its answer in every second, and each must have its check.
const CHECKED: u32 = 17;

/// After a check that found more, so many are checked in a row.
const DOUBTED: u32 = 8;

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Nobody knows.
    Unknown,
    /// More work of this period, by somebody on another core.
    Work,
    /// Its end, by what is known: to be checked for a moment.
    Doubt,
    /// Its end: nothing, until others had this core.
    Silence,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Periods {
    /// Pieces of work in this one.
    work: u32,
    /// In each one lately.
    usual: u32,
    /// How many had as much.
    alike: u32,
    /// How many more are doubted.
    doubted: u32,
    /// A piece of work in this one was of many messages.
    is_stream: bool,
}

impl Periods {
    /// A piece of work, of few messages or of many: who sends many does not wait for each, and at the end of those nothing is
    /// gained by looking on.
    pub(super) fn worked(&mut self, many: bool) {
        self.work = self.work.saturating_add(1);
        self.is_stream |= many;
    }

    /// The core goes to others, or to sleep.
    pub(super) fn ended(&mut self) {
        let work = std::mem::take(&mut self.work);
        let is_stream = std::mem::take(&mut self.is_stream);
        if work == 0 {
            return;
        }
        // Only then: where periods differ anyway, a moment at the end of each would be lost.
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

    /// Whether this one is over, so surely that nothing more need be looked for.
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

    /// After periods with so many pieces of work each.
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
        // The first one is not steady yet.
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
