//! Whether it pays to yield the core: another thread gets it, and leaves what a poll waits for.
//!
//! A switch to another thread and back takes several times as long as a yield that no thread wants, so the time tells
//! which it was. But these times differ between machines, and from one moment to the next. So the judgement is checked
//! now and then by the kernel's count of switches, which takes as long to read as a yield.

use std::time::Duration;

/// Yields in a row that brought something, after which the next one is expected to.
pub(super) const ENOUGH: u16 = 4;

/// Yields after which the row begins anew, and with it the check.
const CHECKED: u16 = 256;

/// Longer than any message takes: another thread computes, and a yield to it costs a tick of the scheduler.
const TOO_LONG: Duration = Duration::from_micros(20);

/// Assumed duration of a yield that no thread wants, before anything is known.
const UNWANTED: Duration = Duration::from_nanos(600);

/// A shorter time corrects the known one by the difference, divided by this.
const PART: u32 = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Yields {
    /// Duration of a yield that no other thread wants.
    unwanted: Duration,
    /// Yields in a row that brought something.
    row: u16,
    /// The kernel's count of switches when the row began, if the kernel tells.
    switches: Option<u64>,
}

impl Default for Yields {
    fn default() -> Self {
        Self {
            unwanted: UNWANTED,
            row: 0,
            switches: None,
        }
    }
}

impl Yields {
    /// Whether the next yield is expected to bring something.
    pub(super) fn pay(&self) -> bool {
        self.row >= ENOUGH
    }

    /// Whether a yield of this duration was a switch to another thread.
    pub(super) fn was_switch(&mut self, took: Duration) -> bool {
        if let Some(less) = self.unwanted.checked_sub(took) {
            self.unwanted -= less / PART;
        }
        took >= self.unwanted * 2
    }

    /// Notes that a yield that seems to have been a switch brought something. `switches` counts this thread's
    /// involuntary switches; it is called at the beginning of a row and when the row is long enough.
    pub(super) fn brought(&mut self, took: Duration, switches: impl FnOnce() -> Option<u64>) {
        if took > TOO_LONG {
            return self.brought_nothing();
        }
        self.row += 1;
        match self.row {
            1 => self.switches = switches(),
            ENOUGH if !self.were_switches(switches()) => {
                self.unwanted = took;
                self.row = 0;
            }
            CHECKED => self.row = 0,
            _ => {}
        }
    }

    /// Notes that a yield brought nothing, or was no switch.
    pub(super) fn brought_nothing(&mut self) {
        self.row = 0;
    }

    /// Whether all yields of a row were switches, except the first, after which the count was read.
    fn were_switches(&self, now: Option<u64>) -> bool {
        let counted = now.zip(self.switches);
        counted.is_none_or(|(now, then)| now.wrapping_sub(then) >= u64::from(ENOUGH) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: Duration = Duration::from_nanos(1);

    /// A program whose yields all bring something, and the kernel's count.
    struct Program {
        yields: Yields,
        switches: u64,
        /// Times that the count was read.
        reads: u32,
    }

    impl Program {
        fn new() -> Self {
            Self {
                yields: Yields::default(),
                switches: 1_000,
                reads: 0,
            }
        }

        fn yields(&mut self, took: Duration, is_switch: bool) {
            self.switches += u64::from(is_switch);
            if !self.yields.was_switch(took) {
                return self.yields.brought_nothing();
            }
            self.yields.brought(took, || {
                self.reads += 1;
                Some(self.switches)
            });
        }
    }

    #[test]
    fn a_row_that_brought_something_pays_until_one_does_not() {
        let mut program = Program::new();
        for time in 0..4 {
            assert!(!program.yields.pay(), "{time}");
            program.yields(NS * 3_000, true);
        }
        assert!(program.yields.pay());
        program.yields.brought_nothing();
        assert!(!program.yields.pay());
        (0..8).for_each(|_| program.yields(TOO_LONG + NS, true));
        assert!(!program.yields.pay(), "another thread computes");
    }

    #[test]
    fn a_slow_yield_is_no_switch_if_the_kernel_says_so() {
        let mut program = Program::new();
        for _ in 0..1_000 {
            program.yields(NS * 1_300, false);
            assert!(!program.yields.pay());
        }
        assert_eq!(program.reads, 2, "what it takes is known then");
        (0..4).for_each(|_| program.yields(NS * 3_000, true));
        assert!(program.yields.pay());
    }

    #[test]
    fn a_long_row_is_checked_anew() {
        let mut program = Program::new();
        (0..4).for_each(|_| program.yields(NS * 3_000, true));
        let paid = (0..1_000).filter(|_| {
            program.yields(NS * 3_000, false);
            program.yields.pay()
        });
        assert_eq!(paid.count(), usize::from(CHECKED - ENOUGH - 1));
    }

    #[test]
    fn what_an_unwanted_one_takes_is_learnt() {
        let mut program = Program::new();
        assert!(!program.yields.was_switch(NS * 900));
        (0..100).for_each(|_| program.yields(NS * 300, false));
        assert!(program.yields.was_switch(NS * 900));
    }

    #[test]
    fn a_kernel_that_does_not_count_is_done_without() {
        let mut yields = Yields::default();
        (0..4).for_each(|_| yields.brought(NS * 3_000, || None));
        assert!(yields.pay());
    }
}
