//! Whether somebody else has the core when a poll gives it away, and brings what it waits for.
//!
//! To switch to another thread and back takes several times what asking for it does, so time tells. But what asking takes differs
//! between machines, and from one moment to the next. So what time tells is checked by the kernel's count of switches, now and then:
//! reading it takes as long as giving the core away.

use std::time::Duration;

/// So many times in a row something was brought: then it will be the next time, too.
const ENOUGH: u16 = 4;

/// After so many that is looked at anew.
const BELIEVED: u16 = 256;

/// More than any message takes: who gives the core to those who compute waits for a tick each time.
const TOO_LONG: Duration = Duration::from_micros(20);

/// What giving the core away takes where nobody wants it, before anything is known.
const ALONE: Duration = Duration::from_nanos(600);

/// Of what is known of it, so much is replaced by what a shorter time tells.
const PART: u32 = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Neighbour {
    /// What giving the core away takes where nobody wants it.
    alone: Duration,
    /// How many times in a row something was brought.
    times: u16,
    /// The kernel's count when that began, if it tells.
    switches: Option<u64>,
}

impl Default for Neighbour {
    fn default() -> Self {
        Self {
            alone: ALONE,
            times: 0,
            switches: None,
        }
    }
}

impl Neighbour {
    /// Whether it will bring something if it gets the core at once.
    pub(super) fn is_next(&self) -> bool {
        self.times >= ENOUGH
    }

    /// Whether somebody had a core that is back after so long.
    pub(super) fn had_it(&mut self, away: Duration) -> bool {
        if let Some(less) = self.alone.checked_sub(away) {
            self.alone -= less / PART;
        }
        away >= self.alone * 2
    }

    /// Something is there, and somebody had the core for so long. `switches` is read now and then: how many times this thread's core
    /// went to another one although it would have gone on.
    pub(super) fn brought(&mut self, away: Duration, switches: impl FnOnce() -> Option<u64>) {
        if away > TOO_LONG {
            return self.brought_nothing();
        }
        self.times += 1;
        match self.times {
            1 => self.switches = switches(),
            ENOUGH if !self.has_switched(switches()) => {
                self.alone = away;
                self.times = 0;
            }
            BELIEVED => self.times = 0,
            _ => {}
        }
    }

    /// Nothing is there, or nobody had the core.
    pub(super) fn brought_nothing(&mut self) {
        self.times = 0;
    }

    /// Whether all times but the first, which the count began with, were switches.
    fn has_switched(&self, now: Option<u64>) -> bool {
        let counted = now.zip(self.switches);
        counted.is_none_or(|(now, then)| now.wrapping_sub(then) >= u64::from(ENOUGH) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: Duration = Duration::from_nanos(1);

    /// A core that is given away, and back after so long with what was waited for.
    struct Core {
        neighbour: Neighbour,
        switches: u64,
        /// How many times those were read.
        reads: u32,
    }

    impl Core {
        fn new() -> Self {
            Self {
                neighbour: Neighbour::default(),
                switches: 1_000,
                reads: 0,
            }
        }

        fn is_back(&mut self, away: Duration, is_switched: bool) {
            self.switches += u64::from(is_switched);
            if !self.neighbour.had_it(away) {
                return self.neighbour.brought_nothing();
            }
            self.neighbour.brought(away, || {
                self.reads += 1;
                Some(self.switches)
            });
        }
    }

    #[test]
    fn who_brought_something_four_times_is_next_until_it_does_not() {
        let mut core = Core::new();
        for time in 0..4 {
            assert!(!core.neighbour.is_next(), "{time}");
            core.is_back(NS * 3_000, true);
        }
        assert!(core.neighbour.is_next());
        core.neighbour.brought_nothing();
        assert!(!core.neighbour.is_next());
        (0..8).for_each(|_| core.is_back(TOO_LONG + NS, true));
        assert!(!core.neighbour.is_next(), "who computes brings nothing");
    }

    #[test]
    fn a_core_that_comes_back_slowly_was_had_by_nobody_if_the_kernel_says_so() {
        let mut core = Core::new();
        for _ in 0..1_000 {
            core.is_back(NS * 1_300, false);
            assert!(!core.neighbour.is_next());
        }
        assert_eq!(core.reads, 2, "what it takes is known then");
        (0..4).for_each(|_| core.is_back(NS * 3_000, true));
        assert!(core.neighbour.is_next());
    }

    #[test]
    fn what_is_believed_is_looked_at_anew() {
        let mut core = Core::new();
        (0..4).for_each(|_| core.is_back(NS * 3_000, true));
        let believed = (0..1_000).filter(|_| {
            core.is_back(NS * 3_000, false);
            core.neighbour.is_next()
        });
        assert_eq!(believed.count(), usize::from(BELIEVED - ENOUGH - 1));
    }

    #[test]
    fn what_asking_takes_is_learnt_where_it_takes_less() {
        let mut core = Core::new();
        assert!(!core.neighbour.had_it(NS * 900));
        (0..100).for_each(|_| core.is_back(NS * 300, false));
        assert!(core.neighbour.had_it(NS * 900));
    }

    #[test]
    fn a_kernel_that_does_not_count_is_done_without() {
        let mut neighbour = Neighbour::default();
        (0..4).for_each(|_| neighbour.brought(NS * 3_000, || None));
        assert!(neighbour.is_next());
    }
}
