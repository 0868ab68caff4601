//! Rounds of visits, and debts that rounds pay for.
//!
//! ```text
//!   queue    ──► 3 ──► 5 ──► 9 ──►          each is visited once in a round
//!     ▲ a round begins: those whose debt is paid by now
//!   debtors  7: after 12 more rounds, 2: after 400 more, ...
//! ```
//! A round pays each debtor its quantum. What rounds pay for a weight of one is summed up, so that it is known when a
//! debt will be paid and nobody looks at a debtor before: a round costs by whom it visits. Who is the only one that waits
//! begins with a whole quantum. Who goes is not looked for: it stays where it is and is skipped when it comes up.

mod gone;
mod weights;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::budget::{Budget, QUANTUM, quantum};
use gone::Gone;
use weights::Weights;

/// Payments are counted in so many parts of a byte: what a round pays for a weight of one is no whole number of bytes.
const PARTS: u64 = 1 << 16;

/// Who waits for a visit, since rounds had paid so much.
#[derive(Clone, Copy, Debug)]
struct Waiting<T> {
    one: T,
    since: u128,
    came: u64,
}

/// Where one waits, which it keeps for whoever wants to take it out.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Ticket {
    /// What rounds will have paid when it is no debtor any more.
    due: u128,
    since: u128,
    weight: u32,
}

/// Who waits until a debt is paid. The order is that of payment, and of coming.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Debtor<T> {
    /// What rounds will have paid when it has something to send again.
    due: u128,
    came: u64,
    since: u128,
    weight: u32,
    one: T,
}

/// Each is in it once. Whoever comes during a round has its first visit in the next one.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    queue: VecDeque<Waiting<T>>,
    /// How many at the front have their visit of this round before them.
    left: usize,
    /// Those of the queue who are.
    gone: Gone<T>,
    debtors: BinaryHeap<Reverse<Debtor<T>>>,
    /// Those of the debtors who are, or wait with another weight by now.
    gone_debtors: Gone<T>,
    /// Of the debtors.
    weights: Weights,
    /// How many have come.
    came: u64,
    /// What rounds have paid so far for a weight of one.
    paid: u128,
    /// The largest weight of those who wanted more than their quantum when this round began, and of those who did
    /// since then.
    heaviest: [u32; 2],
    /// How many were looked at.
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
    /// Those who wait, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        let queued = self.queue.iter().map(|waiting| (waiting.one, waiting.came));
        let queued = queued.filter(|it| !self.gone.has(it.0, it.1));
        let debtors = self.debtors.iter().map(|it| (it.0.one, it.0.came));
        let debtors = debtors.filter(|it| !self.gone_debtors.has(it.0, it.1));
        queued.chain(debtors).map(|it| it.0)
    }

    /// One of them.
    pub(super) fn any(&mut self) -> Option<T> {
        self.drop_gone();
        let queued = self.queue.front().map(|waiting| waiting.one);
        queued.or_else(|| Some(self.debtors.peek()?.0.one))
    }

    /// One of such a weight, with what is left of its budget, waits for its visit from now on.
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
        // What is paid by now, by another weight, leaves the debtors when the next round begins: a ticket tells by it who
        // is among them.
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

    /// Who is visited next. With it a round begins if the last one is over.
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
                // One more, and the only one that waits has a whole quantum.
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

    /// What the [front](Self::front), of such a weight and with such a budget when it was left alone, may send in its
    /// visit; `None` if it is in debt, since it was charged while it waited.
    pub(super) fn allows(&self, budget: Budget, weight: u32) -> Option<Budget> {
        let since = self.queue.front()?.since;
        let rounds = u64::try_from(self.paid - since).unwrap_or(u64::MAX);
        let paid = rounds.saturating_mul(weight.into()) / PARTS;
        // Never nothing: who has paid would not get on.
        let most = quantum(weight, self.heaviest[0]).max(1);
        let mut budget = budget;
        budget.pay(paid, most);
        (!budget.is_spent()).then_some(budget)
    }

    /// The front has its visit.
    pub(super) fn pop(&mut self) {
        self.take_front();
    }

    /// The front, which is in debt, waits until that is paid.
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

    /// One that waits with such a ticket does so no more.
    pub(super) fn remove(&mut self, one: T, ticket: Ticket) {
        if self.is_in_debt(ticket) {
            return self.leave_debtor(one, ticket);
        }
        self.gone.add(one, self.came);
        if self.gone.are_most(self.queue.len()) {
            self.sweep();
        }
    }

    /// All whose debt is paid were put into the queue when that was paid.
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

    /// Whoever is next then, in the queue and among the debtors, waits.
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

    /// Most of the queue are gone, and it may be that of a group that nobody visits.
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

    /// Nobody waits any more: who did.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        let all = self.iter().collect();
        self.queue.clear();
        self.left = 0;
        self.debtors.clear();
        (self.gone, self.gone_debtors) = (Gone::default(), Gone::default());
        self.weights.clear();
        all
    }

    /// One of such a weight wants more than it got.
    pub(super) fn wants_more(&mut self, weight: u32) {
        self.heaviest[1] = self.heaviest[1].max(weight);
    }

    /// One that waits with such a ticket has another weight, by which its debt is paid: its ticket then.
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
