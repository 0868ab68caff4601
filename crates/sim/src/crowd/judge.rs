//! The checkers, which compare what each tenant got with what it was promised.
//!
//! * Tenants that always want more share by weight with the others that do: groups, and the tenants of a group.
//! * No limit is exceeded, except by its burst and the unit that goes beyond it.
//! * A tenant with a guarantee, or one that sends to a receiver with one, gets it, whatever its weight.
//! * No turn of one tenant moves more than a quantum and a unit, and a turn by its guarantee moves at most as much
//!   again. So the message of a light tenant, which waits for a few turns of the carrier at most, waits for a bounded
//!   number of bytes.

use vrdma_switch::{BURST_NS, Limit};
use vrdma_verbs::Time;

use super::plan::{GroupPlan, Plan, TenantPlan, Terms};
use super::{MESSAGE_BYTES, UNIT_COST, cost};
use crate::member::Carried;
use crate::violation::{Violation, check};

/// The cost of a turn, as the carrier has it.
const QUANTUM: u64 = 64 << 10;

/// Most turns of the carrier that a light tenant's message waits for, with the one that carries it. If its group has
/// greedy tenants, it may also wait for the rounds that pay their debt.
const WAIT_TURNS_MAX: u64 = 3;

/// One in this many messages of light tenants may wait for a debt of its group: normally the tenant is looked at.
const LATE: u64 = 20;

/// Visits that every tenant has had when shares are compared: they are right except for one visit at either end.
const VISITS: u64 = 60;

/// Least time that limits are observed: ten bursts.
const TIME_NS: u64 = 10 * BURST_NS;

/// Shares and guarantees may be off by one part in this many.
const TOLERANCE: u64 = 20;

/// One limit of a tenant or a group: a bucket that drains at its rate and holds a burst.
struct Account {
    name: String,
    limit: Limit,
    rate: u64,
    /// Level in units times nanoseconds a second.
    level: u128,
    at: Time,
}

impl Account {
    fn new(name: String, limit: Limit, rate: u64) -> Self {
        Self {
            name,
            limit,
            rate,
            level: 0,
            at: Time(0),
        }
    }

    /// Adds an amount that has passed; `most` is the largest amount that passes at once.
    fn passes(&mut self, carried: Carried, unit_bytes: u32, now: Time) -> Result<(), Violation> {
        let (amount, most) = match self.limit {
            Limit::OutBits | Limit::InBits => (carried.bytes * 8, u64::from(unit_bytes) * 8),
            Limit::OutOps | Limit::InOps => (carried.messages, 1),
        };
        let drained = u128::from(self.rate) * u128::from(now.0 - self.at.0);
        self.level = self.level.saturating_sub(drained) + u128::from(amount) * NS_A_SECOND;
        self.at = now;
        let holds = u128::from(self.rate) * u128::from(BURST_NS) + u128::from(most) * NS_A_SECOND;
        check(self.level <= holds, || {
            format!(
                "{} passes its limit {:?} of {} by more than its burst: {} where {} fit",
                self.name,
                self.limit,
                self.rate,
                self.level / NS_A_SECOND,
                holds / NS_A_SECOND
            )
        })
    }
}

const NS_A_SECOND: u128 = 1_000_000_000;

/// The state of a tenant, and what it got.
struct Standing {
    name: String,
    group: usize,
    terms: Terms,
    /// Numbers of its own account and its group's.
    accounts: Vec<usize>,
    is_light: bool,
    /// Length of its messages.
    length: u64,
    /// What it got since the shares began to be observed.
    got: Carried,
    /// Turns that it may have in one turn of the carrier.
    turns: u64,
    /// Least cost of one of its visits.
    visit: u64,
    /// Turns in which a light tenant posted the messages that are not done.
    waits_since: Vec<u64>,
}

impl Standing {
    /// Whether it takes all that it can get by its weight.
    fn takes_its_share(&self) -> bool {
        !self.is_light && self.terms.limit.is_none()
    }

    fn got_of(&self, amount: u64) -> Got {
        Got {
            name: self.name.clone(),
            terms: self.terms,
            amount,
        }
    }

    /// Returns what counts for a guarantee: even the shortest unit counts for a minimum, and a long message is several.
    fn counted(&self, of: Limit) -> u64 {
        match of {
            Limit::OutBits | Limit::InBits => 8 * self.got.bytes.max(self.got.units * UNIT_COST),
            Limit::OutOps | Limit::InOps => {
                let each = self.length.div_ceil(MESSAGE_BYTES);
                self.got.bytes * each / self.length
            }
        }
    }
}

pub(super) struct Judge {
    groups: Vec<GroupPlan>,
    tenants: Vec<Standing>,
    accounts: Vec<Account>,
    unit_bytes: u32,
    /// When the shares began to be observed: every tenant had had its first visits.
    begun: Option<Time>,
    now: Time,
    pub(super) light_messages: u64,
    /// Light messages that waited for debts of their groups.
    late: u64,
    pub(super) limited: u64,
    pub(super) guaranteed: u64,
}

impl Judge {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut judge = Self {
            groups: plan.groups.clone(),
            tenants: Vec::new(),
            accounts: Vec::new(),
            unit_bytes: plan.unit_bytes,
            begun: None,
            now: Time(0),
            light_messages: 0,
            late: 0,
            limited: 0,
            guaranteed: 0,
        };
        let adapters = 2 * plan
            .groups
            .iter()
            .map(|group| group.tenants.len())
            .sum::<usize>() as u64;
        for (group, of) in plan.groups.iter().enumerate() {
            let groups = judge.account(format!("group {group}"), of.terms);
            for plan in &of.tenants {
                let name = format!("tenant {} of group {group}", judge.tenants.len());
                let own = judge.account(name.clone(), plan.terms);
                let unit = plan.does.length().min(judge.unit_bytes);
                let guaranteed = plan.terms.guarantee.or(of.terms.guarantee);
                judge.tenants.push(Standing {
                    name,
                    group,
                    terms: plan.terms,
                    accounts: own.into_iter().chain(groups).collect(),
                    is_light: plan.does.is_light(),
                    length: plan.does.length().into(),
                    got: Carried::default(),
                    turns: match guaranteed {
                        // Every second turn of all that adapters have.
                        Some(_) => 2 + adapters.div_ceil(2),
                        // Its own turn, and one in which it is looked at.
                        None => 2,
                    },
                    visit: QUANTUM.max(u64::from(unit) + UNIT_COST),
                    waits_since: Vec::new(),
                });
            }
        }
        judge
    }

    fn account(&mut self, name: String, terms: Terms) -> Option<usize> {
        self.guaranteed += u64::from(terms.guarantee.is_some());
        let (limit, rate) = terms.limit?;
        self.limited += 1;
        self.accounts.push(Account::new(name, limit, rate));
        Some(self.accounts.len() - 1)
    }

    /// Notes that a light tenant has posted a message before a turn.
    pub(super) fn posts(&mut self, tenant: usize, turn: u64) {
        self.tenants[tenant].waits_since.push(turn);
    }

    /// Notes that a message was done in a turn.
    pub(super) fn completes(&mut self, tenant: usize, turn: u64) -> Result<(), Violation> {
        let Standing { waits_since, .. } = &mut self.tenants[tenant];
        if waits_since.is_empty() {
            return Ok(());
        }
        let waited = turn + 1 - waits_since.remove(0);
        self.light_messages += 1;
        self.late += u64::from(waited > WAIT_TURNS_MAX);
        let Standing { name, group, .. } = &self.tenants[tenant];
        let most = WAIT_TURNS_MAX + self.rounds_in_debt(*group);
        check(waited <= most, || {
            format!("a message of {name}, who is light, waits for {waited} turns, not {most}")
        })
    }

    /// Returns how many rounds pay the largest debt that a group can have: that of one turn, and of a turn that a
    /// member had because it was looked at.
    fn rounds_in_debt(&self, group: usize) -> u64 {
        let is_greedy = |plan: &TenantPlan| !plan.does.is_light();
        if !self.groups[group].tenants.iter().any(is_greedy) {
            return 0;
        }
        let weights = self
            .groups
            .iter()
            .map(|group| u64::from(group.terms.weight));
        let heaviest = weights.max().unwrap_or(1);
        let paid = QUANTUM * u64::from(self.groups[group].terms.weight) / heaviest;
        let turn = QUANTUM + u64::from(self.unit_bytes) + UNIT_COST;
        (2 * turn).div_ceil(paid)
    }

    /// Notes what was carried for a tenant in a turn.
    pub(super) fn moves(
        &mut self,
        tenant: usize,
        moved: Carried,
        now: Time,
    ) -> Result<(), Violation> {
        let standing = &mut self.tenants[tenant];
        standing.got += moved;
        let unit = u64::from(self.unit_bytes) + UNIT_COST;
        let most = standing.turns * (QUANTUM + unit);
        check(cost(moved) <= most, || {
            format!(
                "{} moves {} in a turn, not {most} at most",
                standing.name,
                cost(moved)
            )
        })?;
        for account in &standing.accounts {
            self.accounts[*account].passes(moved, self.unit_bytes, now)?;
        }
        Ok(())
    }

    /// Ends a turn.
    pub(super) fn end_turn(&mut self, now: Time) {
        self.now = now;
        if self.begun.is_none() && self.visited(2) {
            self.begun = Some(now);
            self.tenants
                .iter_mut()
                .for_each(|it| it.got = Carried::default());
        }
    }

    /// Whether all tenants that take their shares have had this many visits.
    fn visited(&self, times: u64) -> bool {
        let mut takers = self.tenants.iter().filter(|it| it.takes_its_share());
        takers.all(|it| cost(it.got) >= times * it.visit || self.is_held(it.group))
    }

    /// Whether a group's limit holds up the whole group.
    fn is_held(&self, group: usize) -> bool {
        self.groups[group].terms.limit.is_some()
    }

    pub(super) fn has_seen_enough(&self, now: Time) -> bool {
        let begun = self.begun.is_some_and(|begun| now.0 >= begun.0 + TIME_NS);
        begun && self.visited(VISITS)
    }

    /// Describes the tenants of a run that does not end.
    pub(super) fn describe(&self) -> String {
        let got = self
            .tenants
            .iter()
            .map(|it| format!("{}: {:?}", it.name, it.got));
        got.collect::<Vec<_>>().join(", ")
    }

    /// Compares what all got with what they were promised.
    pub(super) fn shares(&self) -> Result<(), Violation> {
        self.guarantees()?;
        let late = 1 + self.light_messages / LATE;
        check(self.late <= late, || {
            let (late, all) = (self.late, self.light_messages);
            format!("{late} of {all} short messages wait for debts of their groups")
        })?;
        let mut groups = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            if !group.terms.is_weight_alone() {
                continue;
            }
            let takers = self.members(number).filter(|it| it.takes_its_share());
            let takers = takers.filter(|it| it.terms.is_weight_alone());
            let got = takers.map(|it| it.got_of(cost(it.got)));
            let got: Vec<_> = got.collect();
            shared_by_weight(&got)?;
            let guaranteed = self.members(number).any(|it| it.terms.guarantee.is_some());
            if !guaranteed && !got.is_empty() {
                groups.push(self.got_of(number, |it| cost(it.got)));
            }
        }
        shared_by_weight(&groups)
    }

    fn members(&self, group: usize) -> impl Iterator<Item = &Standing> {
        self.tenants.iter().filter(move |it| it.group == group)
    }

    /// Returns what a group got.
    fn got_of(&self, group: usize, amount: impl Fn(&Standing) -> u64) -> Got {
        Got {
            name: format!("group {group}"),
            terms: self.groups[group].terms,
            amount: self.members(group).map(amount).sum(),
        }
    }

    fn guarantees(&self) -> Result<(), Violation> {
        let Some(begun) = self.begun else {
            return Ok(());
        };
        let time = u128::from(self.now.0 - begun.0);
        let tenants = self.tenants.iter().filter_map(|it| {
            let (of, rate) = it.terms.guarantee?;
            Some((it.got_of(it.counted(of)), rate))
        });
        let groups = 0..self.groups.len();
        let groups = groups.filter_map(|group| {
            let (of, rate) = self.groups[group].terms.guarantee?;
            Some((self.got_of(group, |it| it.counted(of)), rate))
        });
        for (got, rate) in tenants.chain(groups) {
            let due = (u128::from(rate) * time / NS_A_SECOND) as u64;
            check(got.amount >= due - due / TOLERANCE, || {
                let (name, amount, promise) = (&got.name, got.amount, got.terms.guarantee);
                format!("{name} gets {amount} of {due} that it is guaranteed by {promise:?}")
            })?;
        }
        Ok(())
    }
}

/// What a tenant or a group got.
struct Got {
    name: String,
    terms: Terms,
    amount: u64,
}

fn shared_by_weight(all: &[Got]) -> Result<(), Violation> {
    let whole: u64 = all.iter().map(|it| it.amount).sum();
    let weights: u64 = all.iter().map(|it| u64::from(it.terms.weight)).sum();
    for Got {
        name,
        terms,
        amount,
    } in all
    {
        let due = whole * u64::from(terms.weight) / weights;
        check(amount.abs_diff(due) <= due / TOLERANCE, || {
            format!("{name} gets {amount}, and {due} are its share by {terms:?}")
        })?;
    }
    Ok(())
}
