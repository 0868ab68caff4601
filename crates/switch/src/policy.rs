//! Limits, guarantees and weight of an adapter or a port group, and how often the limits held something up.
//!
//! A guarantee has a meter, too: an adapter that has had less than its meter lets pass is *owed* something.
//!
//! An adapter's policy knows that of its port group, whose meters all its adapters share. What passes is charged to
//! both, and both have to be open.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::num::{NonZeroU32, NonZeroU64};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use once_cell::race::OnceBox;

use crate::shaping::Meter;

/// A quantity that can be limited, and guaranteed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Limit {
    /// Bits a second that an adapter sends.
    OutBits,
    /// Messages a second that it sends.
    OutOps,
    /// Bits a second that arrive for it.
    InBits,
    /// Messages a second that arrive for it.
    InOps,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 4] = [Self::OutBits, Self::OutOps, Self::InBits, Self::InOps];

    /// The limits of what an adapter sends.
    pub const OUT: [Self; 2] = [Self::OutBits, Self::OutOps];

    /// The limits of what arrives for it.
    pub const IN: [Self; 2] = [Self::InBits, Self::InOps];
}

/// A policy; see the module.
#[derive(Default, Debug)]
pub struct Policy {
    /// One less than the weight, so that the default is 1.
    more_weight: AtomicU32,
    /// A bit for each limit that has a rate, and for each guarantee, so that a policy without any costs one look.
    rates: AtomicU32,
    /// Made on demand: most adapters have neither limits nor guarantees, and there may be 16,384.
    limits: OnceBox<Enforced>,
    guarantees: OnceBox<[Meter; Limit::ALL.len()]>,
    group: Option<Arc<Policy>>,
}

/// Limits and their effects.
#[derive(Default, Debug)]
struct Enforced {
    meters: [Meter; Limit::ALL.len()],
    effects: [Counters; Limit::ALL.len()],
}

/// The bits of all limits; those of guarantees are the higher ones.
const LIMITS: u32 = (1 << Limit::ALL.len()) - 1;

/// Returns the bits of these guarantees.
const fn guarantee_bits(of: [Limit; 2]) -> u32 {
    ((1 << of[0] as u32) | (1 << of[1] as u32)) << Limit::ALL.len()
}

#[derive(Default, Debug)]
struct Counters {
    waits: AtomicU64,
    waited_ns: AtomicU64,
    drops: AtomicU64,
}

/// What a limit has caused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// Number of waits.
    pub waits: u64,
    /// Total nanoseconds waited.
    pub waited_ns: u64,
    /// Dropped packets from uplinks and multicast datagrams.
    pub drops: u64,
}

impl PartialEq for Policy {
    /// Compares the settings only.
    fn eq(&self, other: &Self) -> bool {
        let set = |policy: &Self| {
            let rates = Limit::ALL.map(|limit| [policy.rate(limit), policy.guarantee(limit)]);
            (policy.weight(), rates)
        };
        set(self) == set(other) && self.group == other.group
    }
}

impl Eq for Policy {}

impl Policy {
    /// Makes the policy of an adapter in a port group that has the policy `group`.
    pub fn in_group(group: Arc<Self>) -> Self {
        Self {
            group: Some(group),
            ..Self::default()
        }
    }

    /// Returns the rate of a limit.
    pub fn rate(&self, limit: Limit) -> Option<NonZeroU64> {
        self.meter(limit)?.rate()
    }

    fn meter(&self, limit: Limit) -> Option<&Meter> {
        Some(&self.limits.get()?.meters[limit as usize])
    }

    fn enforced(&self) -> &Enforced {
        self.limits.get_or_init(Box::default)
    }

    /// Sets or removes the rate of a limit.
    pub fn set_rate(&self, limit: Limit, rate: Option<NonZeroU64>) {
        if rate.is_some() || self.limits.get().is_some() {
            self.enforced().meters[limit as usize].set_rate(rate);
        }
        self.mark(1 << limit as u32, rate.is_some());
    }

    fn mark(&self, bit: u32, is_set: bool) {
        match is_set {
            true => self.rates.fetch_or(bit, Relaxed),
            false => self.rates.fetch_and(!bit, Relaxed),
        };
    }

    /// Returns the rate that is guaranteed.
    pub fn guarantee(&self, of: Limit) -> Option<NonZeroU64> {
        self.guarantees.get()?[of as usize].rate()
    }

    /// Sets or removes a guarantee.
    pub fn set_guarantee(&self, of: Limit, rate: Option<NonZeroU64>) {
        if rate.is_some() || self.guarantees.get().is_some() {
            self.guarantees.get_or_init(Box::default)[of as usize].set_rate(rate);
        }
        self.mark((LIMITS + 1) << of as u32, rate.is_some());
    }

    /// Whether it, or its group, has a guarantee of one direction.
    #[inline]
    pub fn is_guaranteed(&self, of: [Limit; 2]) -> bool {
        let bits = guarantee_bits(of);
        self.both()
            .any(|policy| policy.rates.load(Relaxed) & bits != 0)
    }

    /// Whether it, or its group, has had less than its guarantee of one direction.
    pub fn is_owed(&self, of: [Limit; 2], now_ns: u64) -> bool {
        let sets = self.both().filter_map(|policy| policy.guarantees.get());
        let meters = sets.flat_map(|meters| of.map(|limit| &meters[limit as usize]));
        let mut guaranteed = meters.filter(|meter| meter.rate().is_some());
        guaranteed.any(|meter| meter.wait_ns(now_ns) == 0)
    }

    /// Counts an amount that it has had, through its guarantee or not.
    pub fn note_guaranteed(&self, of: Limit, amount: u64, now_ns: u64) {
        let sets = self.both().filter_map(|policy| policy.guarantees.get());
        sets.for_each(|meters| meters[of as usize].note(amount, now_ns));
    }

    /// Whether it, or its group, has any limit.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.both()
            .any(|policy| policy.rates.load(Relaxed) & LIMITS != 0)
    }

    /// Returns the weight of an adapter's turns, or of those of a whole group, beside others.
    pub fn weight(&self) -> NonZeroU32 {
        NonZeroU32::MIN.saturating_add(self.more_weight.load(Relaxed))
    }

    /// Sets the weight.
    pub fn set_weight(&self, weight: NonZeroU32) {
        self.more_weight.store(weight.get() - 1, Relaxed);
    }

    /// Returns the nanoseconds until a limit lets the next one pass; 0 if it does.
    pub fn wait_ns(&self, limit: Limit, now_ns: u64) -> u64 {
        let waits = self.both().map(|policy| policy.own_wait_ns(limit, now_ns));
        waits.max().unwrap_or_default()
    }

    /// Returns the same without the group's limit.
    pub fn own_wait_ns(&self, limit: Limit, now_ns: u64) -> u64 {
        self.meter(limit).map_or(0, |meter| meter.wait_ns(now_ns))
    }

    /// Returns the policy of its port group.
    pub fn group(&self) -> Option<&Arc<Self>> {
        self.group.as_ref()
    }

    /// Returns the limit among these that needs the longest wait, and how long.
    pub fn longest_wait(&self, limits: &[Limit], now_ns: u64) -> Option<(Limit, u64)> {
        let waits = limits.iter().map(|limit| {
            let ns = self.wait_ns(*limit, now_ns);
            (*limit, ns)
        });
        waits.filter(|(_, ns)| *ns > 0).max_by_key(|(_, ns)| *ns)
    }

    /// Charges an amount that has passed.
    pub fn charge(&self, limit: Limit, amount: u64, now_ns: u64) {
        let meters = self.both().filter_map(|policy| policy.meter(limit));
        meters.for_each(|meter| meter.charge(amount, now_ns));
    }

    /// Counts a wait.
    pub fn count_wait(&self, limit: Limit, ns: u64) {
        for policy in self.both() {
            let counters = &policy.enforced().effects[limit as usize];
            counters.waits.fetch_add(1, Relaxed);
            counters.waited_ns.fetch_add(ns, Relaxed);
        }
    }

    /// Counts a drop.
    pub fn count_drop(&self, limit: Limit) {
        for policy in self.both() {
            let counters = &policy.enforced().effects[limit as usize];
            counters.drops.fetch_add(1, Relaxed);
        }
    }

    /// Returns what these limits have caused together, for an adapter or for a whole group.
    pub fn effects(&self, limits: &[Limit]) -> Effects {
        let mut sum = Effects::default();
        let Some(enforced) = self.limits.get() else {
            return sum;
        };
        for limit in limits {
            let counters = &enforced.effects[*limit as usize];
            sum.waits += counters.waits.load(Relaxed);
            sum.waited_ns += counters.waited_ns.load(Relaxed);
            sum.drops += counters.drops.load(Relaxed);
        }
        sum
    }

    /// Returns this policy and its group's.
    fn both(&self) -> impl Iterator<Item = &Self> {
        core::iter::once(self).chain(self.group.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_the_adapters_and_the_groups_limit_hold() {
        let group = Arc::<Policy>::default();
        let [a, b] = [(); 2].map(|()| Policy::in_group(Arc::clone(&group)));
        group.set_rate(Limit::InBits, NonZeroU64::new(1000));
        a.charge(Limit::InBits, 1000, 0);
        assert!(b.wait_ns(Limit::InBits, 0) > 900_000_000, "of its group");
        assert_eq!(b.wait_ns(Limit::OutBits, 0), 0);
        group.set_rate(Limit::InBits, None);
        assert_eq!(a.wait_ns(Limit::InBits, 0), 0);
        a.set_rate(Limit::InBits, NonZeroU64::new(1000));
        a.charge(Limit::InBits, 1000, 0);
        assert!(a.longest_wait(&Limit::IN, 0) > Some((Limit::InBits, 900_000_000)));
        assert_eq!(b.longest_wait(&Limit::IN, 0), None, "not its own");
    }

    #[test]
    fn who_has_had_its_guarantee_is_owed_nothing_until_time_has_passed() {
        for (of, each) in [
            (Limit::OUT, 0),
            (Limit::OUT, 1),
            (Limit::IN, 0),
            (Limit::IN, 1),
        ] {
            let group = Arc::<Policy>::default();
            let [a, b] = [(); 2].map(|()| Policy::in_group(Arc::clone(&group)));
            let one = of[each];
            assert!(!a.is_guaranteed(of) && !a.is_owed(of, 0));
            a.set_guarantee(one, NonZeroU64::new(1_000_000));
            assert!(a.is_guaranteed(of) && a.is_owed(of, 0) && !b.is_guaranteed(of));
            assert!(!a.is_limited(), "a guarantee is no limit");
            a.note_guaranteed(one, 10_000, 0);
            assert!(!a.is_owed(of, 0) && a.is_owed(of, 10_000_000));
            group.set_guarantee(one, NonZeroU64::new(1_000_000));
            assert!(a.is_owed(of, 0) && b.is_owed(of, 0), "of its group");
            b.note_guaranteed(one, 10_000, 0);
            assert!(!a.is_owed(of, 0) && !b.is_owed(of, 0));
            assert_ne!(group, Arc::default());
            group.set_guarantee(one, None);
            a.set_guarantee(one, None);
            assert!(!a.is_guaranteed(of) && !a.is_owed(of, NS));
            assert_eq!(group, Arc::default());
        }
    }

    #[test]
    fn a_guarantee_is_of_one_direction() {
        let policy = Policy::default();
        policy.set_guarantee(Limit::InOps, NonZeroU64::new(1000));
        assert!(policy.is_guaranteed(Limit::IN) && !policy.is_guaranteed(Limit::OUT));
        assert!(policy.is_owed(Limit::IN, 0) && !policy.is_owed(Limit::OUT, 0));
        policy.set_rate(Limit::InOps, NonZeroU64::new(2000));
        policy.set_guarantee(Limit::InOps, None);
        assert!(policy.is_limited() && !policy.is_guaranteed(Limit::IN));
    }

    /// Long after everything that was sent.
    const NS: u64 = 1_000_000_000;

    #[test]
    fn a_group_counts_for_all_its_adapters() {
        let group = Arc::<Policy>::default();
        let [a, b] = [(); 2].map(|()| Policy::in_group(Arc::clone(&group)));
        a.count_wait(Limit::OutBits, 7);
        b.count_wait(Limit::OutOps, 8);
        b.count_drop(Limit::InBits);
        let waited = |waits, waited_ns, drops| Effects {
            waits,
            waited_ns,
            drops,
        };
        assert_eq!(group.effects(&Limit::OUT), waited(2, 15, 0));
        assert_eq!(group.effects(&Limit::IN), waited(0, 0, 1));
        assert_eq!(a.effects(&Limit::OUT), waited(1, 7, 0));
        assert_eq!(b.effects(&Limit::ALL), waited(1, 8, 1));
    }
}
