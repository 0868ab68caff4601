use std::collections::BTreeMap;

use super::*;

/// Entries that always want more, by weight, and what each got in visits.
struct Greedy {
    weights: Vec<u32>,
    budgets: Vec<Budget>,
    got: Vec<u64>,
}

impl Greedy {
    fn new(rounds: &mut Rounds<usize>, weights: &[u32]) -> Self {
        for (one, weight) in weights.iter().enumerate() {
            rounds.push(one, Budget::default(), *weight);
        }
        Self {
            weights: weights.to_vec(),
            budgets: vec![Budget::default(); weights.len()],
            got: vec![0; weights.len()],
        }
    }

    /// Makes one visit, which takes whole units.
    fn visit(&mut self, rounds: &mut Rounds<usize>, unit: u64) -> usize {
        let one = rounds.front().unwrap();
        let (budget, weight) = (&mut self.budgets[one], self.weights[one]);
        *budget = rounds.allows(*budget, weight).expect("its debt is paid");
        rounds.pop();
        while !budget.is_spent() {
            budget.charge(unit);
            self.got[one] += unit;
        }
        rounds.wants_more(weight);
        rounds.push(one, *budget, weight);
        one
    }

    fn visits<const N: usize>(&mut self, rounds: &mut Rounds<usize>, unit: u64) -> [usize; N] {
        [(); N].map(|()| self.visit(rounds, unit))
    }
}

#[test]
fn shares_are_by_weight_whatever_the_units_are() {
    for unit in [1032, 64 << 10, 257 << 10] {
        let mut rounds = Rounds::default();
        let mut greedy = Greedy::new(&mut rounds, &[1, 3, 100, 7]);
        for _ in 0..100_000 {
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
    let mut greedy = Greedy::new(&mut rounds, &[1; 3]);
    for _ in 0..50 {
        assert_eq!(greedy.visits(&mut rounds, QUANTUM), [0, 1, 2]);
    }
}

#[test]
fn a_round_costs_by_whom_it_visits() {
    const CROWD: usize = 10_000;
    let mut rounds = Rounds::default();
    let mut weights = vec![1; CROWD];
    weights.push(100);
    let mut greedy = Greedy::new(&mut rounds, &weights);
    while greedy.got.contains(&0) {
        greedy.visit(&mut rounds, 257 << 10);
    }
    let before = rounds.steps;
    let visits = (0..CROWD).map(|_| greedy.visit(&mut rounds, 257 << 10));
    let of_heavy = visits.filter(|one| *one == CROWD).count() as u64;
    assert!(of_heavy > 50, "the crowd waits for rounds of the heavy one");
    // One step when a debt is paid, and one for the visit; some debts were paid before, and some are paid now.
    let steps = rounds.steps - before;
    assert!(steps <= 3 * CROWD as u64, "{steps}");
}

#[test]
fn rounds_that_visit_nobody_are_not_begun_one_by_one() {
    let left_of_first = |debtors: u64| {
        let mut rounds = Rounds::default();
        let mut budget = Budget::default();
        budget.charge(1000 * QUANTUM + 7);
        for one in 0..debtors {
            let mut owes = budget;
            owes.charge(one * QUANTUM);
            rounds.push(one, owes, 1);
        }
        assert_eq!(rounds.front(), Some(0));
        assert_eq!(rounds.steps, 1);
        rounds.allows(budget, 1).unwrap()
    };
    let whole_rounds = Budget::of(QUANTUM - 7);
    assert_eq!(left_of_first(2), whole_rounds);
    assert_eq!(left_of_first(1), Budget::of(QUANTUM), "nobody else waits");
}

#[test]
fn who_was_charged_while_it_waited_waits_until_that_is_paid() {
    let mut rounds = Rounds::default();
    for one in 0..2 {
        rounds.push(one, Budget::of(1), 1);
    }
    let mut charged = Budget::of(1);
    charged.charge(3 * QUANTUM);
    assert_eq!(rounds.front(), Some(0));
    assert_eq!(rounds.allows(charged, 1), None);
    rounds.defer(charged, 1);
    for round in 1..=3 {
        assert_eq!(rounds.front(), Some(1), "in round {round}");
        rounds.pop();
        rounds.push(1, Budget::of(1), 1);
    }
    assert_eq!(rounds.front(), Some(0));
    assert_eq!(rounds.allows(charged, 1), Some(Budget::of(1)));
}

#[test]
fn who_comes_waits_for_the_next_round_and_who_goes_holds_up_nobody() {
    let mut rounds = Rounds::default();
    for one in 0..3 {
        rounds.push(one, Budget::of(1), 1);
    }
    assert_eq!(rounds.front(), Some(0));
    rounds.pop();
    rounds.push(7, Budget::of(1), 1);
    rounds.remove(1, Ticket::default());
    assert_eq!((rounds.front(), rounds.left), (Some(2), 1));
    rounds.pop();
    rounds.wants_more(5);
    assert_eq!((rounds.front(), rounds.left), (Some(7), 1));
    assert_eq!(rounds.heaviest, [5, 1], "a new round");
    rounds.remove(7, Ticket::default());
    assert_eq!((rounds.front(), rounds.left), (None, 0));
    let ticket = rounds.push(9, Budget::default(), 3);
    rounds.remove(9, ticket);
    assert_eq!((rounds.front(), rounds.weights.debtors()), (None, 0));
}

#[test]
fn the_heaviest_counts_for_one_round_after_it_wanted_more() {
    let mut rounds = Rounds::default();
    rounds.push(0, Budget::of(1), 1);
    rounds.wants_more(4);
    let quanta = [(); 3].map(|()| {
        rounds.front();
        let allowed = rounds.allows(Budget::of(1), 1).unwrap();
        rounds.pop();
        rounds.push(0, Budget::of(1), 1);
        allowed
    });
    let quanta = quanta.map(|left| {
        [QUANTUM / 4, QUANTUM]
            .iter()
            .position(|it| Budget::of(*it) == left)
    });
    assert_eq!(quanta, [Some(0), Some(1), Some(1)]);
}

#[test]
fn a_debtor_counts_among_the_heaviest_until_it_has_paid() {
    let mut rounds = Rounds::default();
    let mut debt = Budget::default();
    debt.charge(2 * QUANTUM);
    rounds.push(0, Budget::of(1), 1);
    rounds.push(1, debt, 8);
    for _ in 0..3 {
        assert_eq!(rounds.front(), Some(0));
        assert_eq!(rounds.heaviest[0], 8);
        rounds.pop();
        rounds.push(0, Budget::of(1), 1);
    }
    assert_eq!(rounds.front(), Some(1));
    rounds.pop();
    rounds.front();
    rounds.pop();
    rounds.push(0, Budget::of(1), 1);
    rounds.front();
    assert_eq!(rounds.heaviest[0], 1);
}

/// Returns how often an entry of weight 100 is visited before another one has paid a quantum by this weight.
fn visits_beside(weight: u32) -> usize {
    let (mut rounds, mut debt) = (Rounds::default(), Budget::default());
    debt.charge(QUANTUM);
    let ticket = rounds.push(0, debt, 1);
    rounds.push(1, Budget::of(1), 100);
    rounds.reweigh(0, ticket, debt, weight);
    let visits = std::iter::from_fn(|| {
        rounds.wants_more(100);
        let one = rounds.front()?;
        rounds.pop();
        rounds.push(1, Budget::of(1), 100);
        (one == 1).then_some(())
    });
    visits.count()
}

#[test]
fn another_weight_pays_a_debt_that_there_is() {
    assert_eq!([1, 2, 100].map(visits_beside), [101, 51, 2]);
}

#[test]
fn who_is_gone_is_not_looked_for_and_may_come_again() {
    const CROWD: usize = 9000;
    let mut rounds = Rounds::default();
    let mut debt = Budget::default();
    debt.charge(QUANTUM);
    let tickets = (0..CROWD).map(|one| {
        let budget = if one % 2 == 0 { Budget::of(1) } else { debt };
        rounds.push(one, budget, 1)
    });
    let tickets: Vec<_> = tickets.collect();
    let goes = |one: &usize| !one.is_multiple_of(3);
    for one in (0..CROWD).rev().filter(goes) {
        rounds.remove(one, tickets[one]);
    }
    assert!(rounds.steps <= CROWD as u64, "{}", rounds.steps);
    for again in [1, 2] {
        rounds.push(again, Budget::of(1), 1);
    }
    assert!(rounds.queue.len() <= CROWD / 3 && rounds.debtors.len() <= CROWD / 3);
    let visits = std::iter::from_fn(|| {
        let one = rounds.front()?;
        rounds.pop();
        Some(one)
    });
    let visited: Vec<_> = visits.collect();
    let stay = |rest: usize| (0..CROWD).filter(move |one| one % 3 == 0 && one % 2 == rest);
    let expected: Vec<_> = stay(0).chain([1, 2]).chain(stay(1)).collect();
    assert_eq!(visited, expected);
    assert_eq!(rounds.weights.debtors(), 0, "nobody is in debt");
}

/// An entry that waits.
#[derive(Clone, Copy)]
struct One {
    budget: Budget,
    weight: u32,
    ticket: Ticket,
}

#[test]
fn whoever_waits_is_there_once_whatever_happens() {
    let mut random = fastrand::Rng::with_seed(0x5eed);
    let mut rounds = Rounds::default();
    let mut waiting = BTreeMap::<u32, One>::new();
    for _ in 0..20_000 {
        let (number, weight) = (random.u32(..20), random.u32(1..100));
        match (random.u8(..4), waiting.get(&number).copied()) {
            (0, Some(one)) => {
                rounds.remove(number, one.ticket);
                waiting.remove(&number);
            }
            (1, Some(One { budget, ticket, .. })) => {
                let ticket = rounds.reweigh(number, ticket, budget, weight);
                let one = One {
                    budget,
                    weight,
                    ticket,
                };
                waiting.insert(number, one);
            }
            (0 | 1, None) => {
                let mut budget = Budget::of(1);
                budget.charge(random.u64(..3) * QUANTUM);
                let ticket = rounds.push(number, budget, weight);
                let one = One {
                    budget,
                    weight,
                    ticket,
                };
                waiting.insert(number, one);
            }
            _ => visit_front(&mut rounds, &mut waiting),
        }
        let there: Vec<_> = waiting.keys().copied().collect();
        let mut told: Vec<_> = rounds.iter().collect();
        told.sort_unstable();
        assert_eq!(told, there);
        assert_eq!(rounds.any().is_some(), !there.is_empty());
        let in_debt = waiting.values().filter(|it| rounds.is_in_debt(it.ticket));
        assert_eq!(rounds.weights.debtors(), in_debt.count());
    }
}

/// Visits the next entry, or lets it wait on in debt.
fn visit_front(rounds: &mut Rounds<u32>, waiting: &mut BTreeMap<u32, One>) {
    let Some(front) = rounds.front() else { return };
    let one = waiting.get_mut(&front).expect("it waits");
    if rounds.allows(one.budget, one.weight).is_some() {
        rounds.pop();
        waiting.remove(&front);
    } else {
        one.ticket = rounds.defer(one.budget, one.weight);
    }
}
