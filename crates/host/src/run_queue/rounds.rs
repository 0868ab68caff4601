//! Rounds of visits, and debts that rounds pay for.
//!
//! ```text
//!   queue    ──► 3 ──► 5 ──► 9 ──►          each is visited once in a round
//!     ▲ a round begins: the debtors whose debt is paid by now
//!   debtors  7: after 12 more rounds, 2: after 400 more, ...
//! ```
//! A round pays each debtor its quantum. The payments for a weight of one are summed up, so it is known when a debt
//! will be paid, and no debtor is looked at before: the cost of a round is that of its visits. An entry that is the
//! only one to wait begins with a whole quantum. An entry that is removed is not searched for: it stays in place and is
//! skipped when it comes up.

mod gone;
mod weights;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::budget::{Budget, QUANTUM, quantum};
use gone::Gone;
use weights::Weights;

/// Parts of a byte in which payments are counted: what a round pays for a weight of one is no whole number of bytes.
const PARTS: u64 = 1 << 16;

/// An entry that waits for a visit, and what rounds had paid when it came.
#[derive(Clone, Copy, Debug)]
struct Waiting<T> {
    one: T,
    since: u128,
    came: u64,
}

/// Where an entry waits; kept by its owner to take the entry out again.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Ticket {
    /// What rounds will have paid when it is no debtor any more.
    due: u128,
    since: u128,
    weight: u32,
}

/// An entry that waits until its debt is paid. The order is that of payment, then of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Debtor<T> {
    /// What rounds will have paid when it has something to send again.
    due: u128,
    came: u64,
    since: u128,
    weight: u32,
    one: T,
}

/// The entries, each once. An entry that comes during a round has its first visit in the next one.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    queue: VecDeque<Waiting<T>>,
    /// Number of entries at the front that have yet to be visited in this round.
    left: usize,
    /// Entries of the queue that are gone.
    gone: Gone<T>,
    debtors: BinaryHeap<Reverse<Debtor<T>>>,
    /// Entries of the debtors that are gone, or wait with another weight by now.
    gone_debtors: Gone<T>,
    /// Weights of the debtors.
    weights: Weights,
    /// Number of entries that have come.
    came: u64,
    /// What rounds have paid so far for a weight of one.
    paid: u128,
    /// The largest weight of those that wanted more than their quantum by the beginning of this round, and of those
    /// that did since.
    heaviest: [u32; 2],
    /// Number of entries that were looked at.
    #[cfg(test)]
    pub(super) steps: u64,
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            left: 0,
            gone: Gone::default(),
            debtors: BinaryHeap::new(),
            gone_debtors: Gone::default(),
            weights: Weights::default(),
            came: 0,
            paid: 0,
            heaviest: [1; 2],
            #[cfg(test)]
            steps: 0,
        }
    }
}

impl<T: Copy + Ord> Rounds<T> {
    /// Returns the entries that wait, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        let queued = self.queue.iter().map(|waiting| (waiting.one, waiting.came));
        let queued = queued.filter(|it| !self.gone.has(it.0, it.1));
        let debtors = self.debtors.iter().map(|it| (it.0.one, it.0.came));
        let debtors = debtors.filter(|it| !self.gone_debtors.has(it.0, it.1));
        queued.chain(debtors).map(|it| it.0)
    }

    /// Returns one of them.
    pub(super) fn any(&mut self) -> Option<T> {
        self.drop_gone();
        let queued = self.queue.front().map(|waiting| waiting.one);
        queued.or_else(|| Some(self.debtors.peek()?.0.one))
    }

    /// Adds an entry of this weight, with the rest of its budget, which waits for its visit from now on.
    pub(super) fn push(&mut self, one: T, budget: Budget, weight: u32) -> Ticket {
        let since = self.paid;
        let Some(debt) = budget.debt() else {
            self.came += 1;
            let came = self.came;
            self.queue.push_back(Waiting { one, since, came });
            return Ticket::default();
        };
        self.owe(one, since, debt, weight)
    }

    fn owe(&mut self, one: T, since: u128, debt: u64, weight: u32) -> Ticket {
        let weight = weight.max(1);
        let parts = debt.saturating_mul(PARTS).div_ceil(weight.into());
        // A debt that is already paid by the new weight leaves the debtors when the next round begins: a ticket tells
        // by its `due` who is among them.
        let due = (since + u128::from(parts)).max(self.paid + 1);
        self.came += 1;
        self.weights.add(weight);
        self.debtors.push(Reverse(Debtor {
            due,
            came: self.came,
            since,
            weight,
            one,
        }));
        Ticket { due, since, weight }
    }

    /// Returns the entry to visit next, and begins a round if the last one is over.
    pub(super) fn front(&mut self) -> Option<T> {
        self.drop_gone();
        if self.left == 0 {
            self.begin();
        }
        Some(self.queue.front()?.one)
    }

    fn begin(&mut self) {
        let debtors = self.weights.heaviest().unwrap_or(1);
        self.heaviest = [self.heaviest[1].max(debtors), 1];
        let step = u128::from(PARTS * QUANTUM / u64::from(self.heaviest[0]));
        let mut paid = step;
        if self.queue.is_empty()
            && let Some(Reverse(first)) = self.debtors.peek()
        {
            // Rounds in which nobody is visited, all at once.
            let owed = first.due.saturating_sub(self.paid);
            paid = owed.next_multiple_of(step).max(step);
            if self.debtors.len() == 1 {
                // One more, so that the only one that waits has a whole quantum.
                paid += step;
            }
        }
        self.paid += paid;
        while let Some(Reverse(debtor)) = self.debtors.peek()
            && debtor.due <= self.paid
        {
            let Debtor {
                one, since, came, ..
            } = *debtor;
            let weight = debtor.weight;
            self.debtors.pop();
            self.step();
            if !self.gone_debtors.take(one, came) {
                self.weights.remove(weight);
                self.queue.push_back(Waiting { one, since, came });
            }
        }
        self.left = self.queue.len();
    }

    /// Returns the budget of the [front](Self::front) for its visit, from its weight and its budget as of its last
    /// visit; `None` if it is in debt, since it was charged while it waited.
    pub(super) fn allows(&self, budget: Budget, weight: u32) -> Option<Budget> {
        let since = self.queue.front()?.since;
        let rounds = u64::try_from(self.paid - since).unwrap_or(u64::MAX);
        let paid = rounds.saturating_mul(weight.into()) / PARTS;
        // Never nothing: an entry that has paid would make no progress.
        let most = quantum(weight, self.heaviest[0]).max(1);
        let mut budget = budget;
        budget.pay(paid, most);
        (!budget.is_spent()).then_some(budget)
    }

    /// Takes the front out for its visit.
    pub(super) fn pop(&mut self) {
        self.take_front();
    }

    /// Makes the front, which is in debt, wait until the debt is paid.
    pub(super) fn defer(&mut self, budget: Budget, weight: u32) -> Ticket {
        let (Some(front), Some(debt)) = (self.take_front(), budget.debt()) else {
            return Ticket::default();
        };
        self.owe(front.one, front.since, debt, weight)
    }

    fn take_front(&mut self) -> Option<Waiting<T>> {
        self.left = self.left.saturating_sub(1);
        self.step();
        self.queue.pop_front()
    }

    /// Removes an entry that waits with this ticket.
    pub(super) fn remove(&mut self, one: T, ticket: Ticket) {
        if self.is_in_debt(ticket) {
            return self.leave_debtor(one, ticket);
        }
        self.gone.add(one, self.came);
        if self.gone.are_most(self.queue.len()) {
            self.sweep();
        }
    }

    /// Whether an entry is among the debtors: each debtor moved to the queue when its debt was paid.
    fn is_in_debt(&self, ticket: Ticket) -> bool {
        ticket.due > self.paid
    }

    fn leave_debtor(&mut self, one: T, ticket: Ticket) {
        self.weights.remove(ticket.weight);
        self.gone_debtors.add(one, self.came);
        if self.gone_debtors.are_most(self.debtors.len()) {
            let gone = std::mem::take(&mut self.gone_debtors);
            self.debtors.retain(|it| !gone.has(it.0.one, it.0.came));
        }
    }

    /// Drops entries at the front that are gone; the next in the queue and among the debtors are waiting ones then.
    #[inline]
    fn drop_gone(&mut self) {
        while let Some(front) = self.queue.front()
            && self.gone.take(front.one, front.came)
        {
            self.take_front();
        }
        while let Some(Reverse(first)) = self.debtors.peek()
            && self.gone_debtors.take(first.one, first.came)
        {
            self.debtors.pop();
            self.step();
        }
    }

    /// Sweeps a queue most of which is gone; it may be that of a group that is not visited.
    #[cold]
    fn sweep(&mut self) {
        let mut left = 0;
        for at in 0..self.queue.len() {
            self.step();
            let waiting = self.queue.pop_front();
            let stays = waiting.filter(|waiting| !self.gone.has(waiting.one, waiting.came));
            left += usize::from(stays.is_some() && at < self.left);
            self.queue.extend(stays);
        }
        self.left = left;
        self.gone = Gone::default();
    }

    /// Empties the rounds; returns the entries that waited.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        let all = self.iter().collect();
        self.queue.clear();
        self.left = 0;
        self.debtors.clear();
        (self.gone, self.gone_debtors) = (Gone::default(), Gone::default());
        self.weights.clear();
        all
    }

    /// Notes that an entry of this weight wants more than it got.
    pub(super) fn wants_more(&mut self, weight: u32) {
        self.heaviest[1] = self.heaviest[1].max(weight);
    }

    /// Gives an entry that waits with this ticket another weight, by which its debt is paid; returns its new ticket.
    pub(super) fn reweigh(
        &mut self,
        one: T,
        ticket: Ticket,
        budget: Budget,
        weight: u32,
    ) -> Ticket {
        match budget.debt().filter(|_| self.is_in_debt(ticket)) {
            Some(debt) => {
                self.leave_debtor(one, ticket);
                self.owe(one, ticket.since, debt, weight)
            }
            None => ticket,
        }
    }

    fn step(&mut self) {
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }
}

#[cfg(test)]
mod tests;
