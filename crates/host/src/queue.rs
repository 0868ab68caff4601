//! The members that wait for a limit, in the order of arrival.
//!
//! A member that sends while others wait sends one turn's worth and then waits behind them. Without this, the member
//! that happens to look first whenever the limit opens would take everything.

use std::collections::BTreeMap;

use vrdma_switch::PortId;
use vrdma_verbs::Time;

use crate::limits::LOOK_AGAIN;

struct Waiter {
    member: PortId,
    since: Time,
    /// When it was told to go on, unless it has found the limit closed again.
    told: Option<Time>,
}

/// The waiting members, each once.
#[derive(Default)]
pub(crate) struct Queue {
    /// By number.
    waiters: BTreeMap<u64, Waiter>,
    numbers: BTreeMap<PortId, u64>,
    next: u64,
    /// The member that has sent last, and may go on until another one does.
    serving: Option<PortId>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Whether a member may send before all that wait.
    pub(crate) fn lets(&self, member: PortId) -> bool {
        let first = self.waiters.values().next();
        self.serving == Some(member) || first.is_none_or(|first| first.member == member)
    }

    /// Makes a member wait, or keep waiting.
    pub(crate) fn wait(&mut self, member: PortId, now: Time) {
        if self.serving == Some(member) {
            self.serving = None;
        }
        let number = *self.numbers.entry(member).or_insert(self.next);
        if number == self.next {
            self.next += 1;
        }
        let waiter = self.waiters.entry(number).or_insert(Waiter {
            member,
            since: now,
            told: None,
        });
        waiter.told = None;
    }

    /// Notes that a member has sent something; returns since when it waited, if it did.
    pub(crate) fn serve(&mut self, member: PortId) -> Option<Time> {
        let number = self.numbers.remove(&member)?;
        self.serving = Some(member);
        let waiter = self.waiters.remove(&number)?;
        Some(waiter.since)
    }

    /// Returns the member to be told to go on: the first, since no other one may. Members that were told long ago and
    /// did not come back are forgotten.
    pub(crate) fn open(&mut self, now: Time) -> Option<PortId> {
        self.serving = None;
        while let Some(mut first) = self.waiters.first_entry() {
            let waiter = first.get_mut();
            match waiter.told {
                None => {
                    waiter.told = Some(now);
                    return Some(waiter.member);
                }
                Some(at) if now < at + LOOK_AGAIN => return None,
                Some(_) => self.numbers.remove(&first.remove().member),
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PortId = PortId(1);
    const B: PortId = PortId(2);

    #[test]
    fn who_has_sent_waits_behind_the_others() {
        let mut queue = Queue::default();
        queue.wait(A, Time(1));
        queue.wait(B, Time(1));
        assert!(queue.lets(A) && !queue.lets(B));
        assert_eq!(queue.open(Time(5)), Some(A));
        assert_eq!(queue.open(Time(6)), None, "it was told");
        assert_eq!(queue.serve(A), Some(Time(1)));
        assert!(queue.lets(A), "its turn");
        queue.wait(A, Time(6));
        assert!(queue.lets(B) && !queue.lets(A));
        assert_eq!(queue.serve(B), Some(Time(1)));
        assert_eq!(queue.serve(B), None, "it waits no more");
        assert!(queue.lets(A));
        assert_eq!(queue.serve(A), Some(Time(6)));
        assert!(queue.is_empty() && queue.lets(B));
    }

    #[test]
    fn who_does_not_come_back_holds_up_nobody_for_long() {
        let mut queue = Queue::default();
        queue.wait(A, Time(1));
        queue.wait(B, Time(2));
        assert_eq!(queue.open(Time(5)), Some(A));
        queue.wait(B, Time(6));
        assert!(!queue.lets(B));
        assert_eq!(queue.open(Time(5) + LOOK_AGAIN), Some(B), "A is forgotten");
        assert!(queue.lets(B));
        assert_eq!(queue.serve(A), None);
    }
}
