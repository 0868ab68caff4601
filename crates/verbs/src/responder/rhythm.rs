//! Whether the owner of a queue pair answers each message at once, so that the acknowledgement can go
//! with the answer (IBTA 9.7.5.1.2 lets a responder coalesce them).
//!
//! ```text
//!   message ─► acknowledgement due ── a request of ours within HOLD ──► answered, once more
//!                  ▲                └─ another message, or HOLD is over ──► from the beginning
//!                  └ answered ENOUGH times: it waits for the request, for HOLD at most
//! ```
//! By itself an acknowledgement costs each end a system call, and a sleeping end a wake-up: as much as the message.
//! Without an answer the acknowledgement must not wait, because the sender may wait for it.

use core::time::Duration;

use crate::time::Time;

/// Time for which an acknowledgement waits for a request of this end, and within which a request has to follow to count
/// as an answer. It is several times what it takes to wake a program and to be woken by it, and far less than what a
/// peer waits before it asks again.
const HOLD: Duration = Duration::from_micros(50);

/// Answers in a row after which the next one is expected.
const ENOUGH: u8 = 4;

/// The rhythm of one queue pair, as the module describes it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Rhythm {
    /// Time at which an acknowledgement became due, if no request of this end has gone since.
    heard: Option<Time>,
    /// Number of answers in a row.
    answers: u8,
    /// Whether an acknowledgement waits for a request of this end.
    holds: bool,
}

impl Rhythm {
    /// Notes that an acknowledgement is due; true if it has to wait.
    pub(super) fn hear(&mut self, now: Time) -> bool {
        if self.heard.replace(now).is_some() {
            self.answers = 0;
        }
        self.holds = self.answers >= ENOUGH;
        self.holds
    }

    /// Notes that a request of this end goes out; true if an acknowledgement waits for it.
    #[inline]
    pub(super) fn answer(&mut self, now: Time) -> bool {
        let Some(heard) = self.heard.take() else {
            return false;
        };
        self.answers = match now < heard + HOLD {
            true => (self.answers + 1).min(ENOUGH),
            false => 0,
        };
        core::mem::take(&mut self.holds)
    }

    /// Ends a wait that has lasted long enough.
    pub(super) fn expire(&mut self, now: Time) {
        if self.holds_until().is_some_and(|until| until <= now) {
            self.holds = false;
        }
    }

    /// Ends a wait, since something has to go at once.
    pub(super) fn hurry(&mut self) {
        self.holds = false;
    }

    /// Returns until when an acknowledgement waits.
    pub(super) fn holds_until(&self) -> Option<Time> {
        self.heard.filter(|_| self.holds).map(|heard| heard + HOLD)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Makes a rhythm of answers that took these times; also returns the time after them.
    fn after(answers: &[Duration]) -> (Rhythm, Time) {
        let (mut rhythm, mut now) = (Rhythm::default(), Time(1_000_000));
        for took in answers {
            rhythm.hear(now);
            now = now + *took;
            rhythm.answer(now);
        }
        (rhythm, now)
    }

    #[test]
    fn answers_are_expected_of_who_gave_some() {
        for given in 0..ENOUGH {
            let (mut rhythm, now) = after(&vec![US * 20; usize::from(given)]);
            assert!(!rhythm.hear(now), "after {given}");
            assert_eq!(rhythm.holds_until(), None);
        }
        let (mut rhythm, now) = after(&[US * 20; 100]);
        assert!(rhythm.hear(now));
        assert_eq!(rhythm.holds_until(), Some(now + HOLD));
        assert!(rhythm.answer(now + US));
        assert_eq!(rhythm.holds_until(), None);
    }

    #[test]
    fn slow_answers_are_none() {
        let (mut rhythm, now) = after(&[HOLD; 100]);
        assert!(!rhythm.hear(now));
    }

    #[test]
    fn one_that_did_not_come_ends_it() {
        let (mut rhythm, now) = after(&[US * 20; 100]);
        assert!(rhythm.hear(now));
        assert!(!rhythm.hear(now + HOLD * 2), "the first was not answered");
        let (mut rhythm, now) = after(&[US * 20; 100]);
        rhythm.hear(now);
        assert!(rhythm.answer(now + HOLD), "late");
        assert!(!rhythm.hear(now + HOLD));
    }

    #[test]
    fn waiting_ends_in_time() {
        let (mut rhythm, now) = after(&[US * 20; 100]);
        rhythm.hear(now);
        rhythm.expire(now + (HOLD - US));
        assert_eq!(rhythm.holds_until(), Some(now + HOLD));
        rhythm.expire(now + HOLD);
        assert_eq!(rhythm.holds_until(), None);
    }

    #[test]
    fn requests_of_our_own_accord_answer_nothing() {
        let (mut rhythm, now) = after(&[]);
        for _ in 0..100 {
            assert!(!rhythm.answer(now));
        }
        assert!(!rhythm.hear(now));
    }

    #[test]
    fn what_must_not_wait_takes_along_what_waits() {
        let (mut rhythm, now) = after(&[US; 100]);
        rhythm.hear(now);
        rhythm.hurry();
        assert_eq!(rhythm.holds_until(), None);
    }
}
