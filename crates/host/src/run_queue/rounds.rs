//! Rounds of visits, and the largest weight among those who want more than they get.

use std::collections::VecDeque;

use crate::budget::quantum;

/// Each is in it once. Whoever comes during a round has its first visit in the next one.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    queue: VecDeque<T>,
    /// How many at the front have their visit of this round before them.
    left: usize,
    /// The largest weight of those who had more to send than their quantum in the last round, and so far in
    /// this one.
    heaviest: [u32; 2],
}

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            left: 0,
            heaviest: [1; 2],
        }
    }
}

impl<T: Copy + PartialEq> Rounds<T> {
    /// Those who wait, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        self.queue.iter().copied()
    }

    /// One waits for its visit from now on.
    pub(super) fn push(&mut self, one: T) {
        self.queue.push_back(one);
    }

    /// Who is visited next. With it a round begins if the last one is over.
    pub(super) fn front(&mut self) -> Option<T> {
        let front = self.queue.front().copied()?;
        if self.left == 0 {
            self.left = self.queue.len();
            self.heaviest = [self.heaviest[1], 1];
        }
        Some(front)
    }

    /// The [front](Self::front) has its visit.
    pub(super) fn pop(&mut self) {
        if self.queue.pop_front().is_some() {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// One waits no more.
    pub(super) fn remove(&mut self, one: T) {
        if let Some(at) = self.queue.iter().position(|queued| *queued == one) {
            self.queue.remove(at);
            self.left -= usize::from(at < self.left);
        }
    }

    /// What a visit of this round adds to the budget of one of such a weight.
    pub(super) fn quantum(&self, weight: u32) -> u64 {
        quantum(weight, self.heaviest[0])
    }

    /// One of such a weight wants more than it got.
    pub(super) fn wants_more(&mut self, weight: u32) {
        self.heaviest[1] = self.heaviest[1].max(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, QUANTUM};

    /// Who always wants more, by weight, and what each got in visits that cost so much.
    struct Greedy {
        weights: Vec<u32>,
        budgets: Vec<Budget>,
        got: Vec<u64>,
    }

    impl Greedy {
        fn new(rounds: &mut Rounds<usize>, weights: &[u32]) -> Self {
            (0..weights.len()).for_each(|one| rounds.push(one));
            Self {
                weights: weights.to_vec(),
                budgets: vec![Budget::default(); weights.len()],
                got: vec![0; weights.len()],
            }
        }

        /// One visit; what it takes is whole units.
        fn visit(&mut self, rounds: &mut Rounds<usize>, unit: u64) -> usize {
            let one = rounds.front().unwrap();
            rounds.pop();
            self.budgets[one].renew(rounds.quantum(self.weights[one]));
            while !self.budgets[one].is_spent() {
                self.budgets[one].charge(unit);
                self.got[one] += unit;
            }
            rounds.wants_more(self.weights[one]);
            rounds.push(one);
            one
        }
    }

    #[test]
    fn shares_are_by_weight_whatever_the_units_are() {
        for unit in [1032, 64 << 10, 257 << 10] {
            let mut rounds = Rounds::default();
            let mut greedy = Greedy::new(&mut rounds, &[1, 3, 100, 7]);
            for _ in 0..400_000 {
                greedy.visit(&mut rounds, unit);
            }
            let whole = greedy.got.iter().sum::<u64>() / 111;
            for (got, weight) in greedy.got.iter().zip(&greedy.weights) {
                let due = whole * u64::from(*weight);
                assert!(got.abs_diff(due) <= due / 20, "{got} of {due} due");
            }
        }
    }

    #[test]
    fn each_is_visited_once_in_a_round() {
        let mut rounds = Rounds::default();
        let mut greedy = Greedy::new(&mut rounds, &[1, 100, 1]);
        for _ in 0..50 {
            let round = [(); 3].map(|()| greedy.visit(&mut rounds, 257 << 10));
            assert_eq!(round, [0, 1, 2]);
        }
    }

    #[test]
    fn who_comes_waits_for_the_next_round_and_who_goes_holds_up_nobody() {
        let mut rounds = Rounds::default();
        (0..3).for_each(|one| rounds.push(one));
        assert_eq!(rounds.front(), Some(0));
        rounds.pop();
        rounds.push(7);
        rounds.remove(1);
        rounds.remove(1);
        assert_eq!((rounds.front(), rounds.left), (Some(2), 1));
        rounds.pop();
        rounds.wants_more(5);
        assert_eq!((rounds.front(), rounds.left), (Some(7), 1));
        assert_eq!(rounds.heaviest, [5, 1], "a new round");
        rounds.remove(7);
        assert_eq!((rounds.front(), rounds.left), (None, 0));
    }

    #[test]
    fn the_heaviest_counts_for_one_round_after_it_wanted_more() {
        let mut rounds = Rounds::default();
        rounds.push(0);
        rounds.wants_more(4);
        let quanta = [(); 3].map(|()| {
            rounds.front();
            let quantum = rounds.quantum(1);
            rounds.pop();
            rounds.push(0);
            quantum
        });
        assert_eq!(quanta, [QUANTUM / 4, QUANTUM, QUANTUM]);
    }
}
