//! Members and port groups beyond a limit: a member whose traffic is charged to one of them waits, and sends to others
//! meanwhile.
//!
//! ```text
//!   unit ──► charge ──► beyond a limit: closed ──► members with more for it wait, in the order of arrival
//!                            └── time, or another limit ──► open ──► they go on in that order
//! ```
//! Members of any shard are limited so: all shards charge the same policies. A shard that has not found an account
//! closed yet may still send a unit; the meter remembers it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use vrdma_switch::{Limit, MAX_PORTS, Policy, PortId};
use vrdma_verbs::Time;

use crate::limits::{LOOK_AGAIN, pause};
use crate::queue::Queue;
use crate::shared::Shared;

/// One limit of one member, together with the same limit of its port group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    pub(crate) port: PortId,
    pub(crate) limit: Limit,
}

/// An amount that has passed, to be charged to an account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) amount: u64,
    /// The member that sent it or asked for it, which may have waited.
    pub(crate) by: Option<PortId>,
    pub(crate) now: Time,
}

/// The address of the meter's policy, which lives as long as the meter is in the table, and the limit.
type Key = (usize, Limit);

/// A meter that takes no more for now, or took no more until a moment ago.
struct Closed {
    policy: Arc<Policy>,
    /// When the meter is looked at again.
    look_at: Time,
    queue: Queue,
}

/// The closed meters, at most four for each member and port group, each with the members that wait for it here.
#[derive(Default)]
struct ClosedOnes {
    by_key: BTreeMap<Key, Closed>,
    /// When each meter is looked at again, so that none is looked at before its time.
    deadlines: BTreeSet<(Time, Key)>,
}

/// What limits a member, as the shards knew it in an epoch.
struct Known {
    epoch: u64,
    policy: Option<Arc<Policy>>,
}

/// The accounts of all members and port groups, in one shard.
#[derive(Default)]
pub(crate) struct Accounts {
    /// By port; a port that was never asked for has no entry.
    known: Vec<Option<Known>>,
    closed: ClosedOnes,
}

impl Accounts {
    /// Returns the policy that limits a member of any shard.
    #[inline]
    pub(crate) fn policy(&mut self, shared: &Shared, port: PortId) -> Option<&Arc<Policy>> {
        let (number, epoch) = (port.0 as usize, shared.epoch());
        if number >= MAX_PORTS {
            return None;
        }
        let known = self.known.get(number).and_then(Option::as_ref);
        if known.is_none_or(|known| known.epoch != epoch) {
            self.ask(shared, port);
        }
        self.known.get(number)?.as_ref()?.policy.as_ref()
    }

    /// Whether a member has any limit that must be asked or charged.
    #[inline]
    pub(crate) fn is_limited(&mut self, shared: &Shared, port: PortId) -> bool {
        let policy = self.policy(shared, port);
        policy.is_some_and(|policy| policy.is_limited())
    }

    #[cold]
    fn ask(&mut self, shared: &Shared, port: PortId) {
        let number = port.0 as usize;
        if self.known.len() <= number {
            self.known.resize_with(number + 1, || None);
        }
        self.known[number] = Some(Known {
            epoch: shared.epoch(),
            policy: shared.policy(port),
        });
    }

    /// Charges an account for something that has passed.
    #[inline]
    pub(crate) fn charge(&mut self, shared: &Shared, account: Account, passed: Passed) {
        let Passed { amount, now, .. } = passed;
        let policy = self.policy(shared, account.port).filter(|_| amount > 0);
        let Some(policy) = policy else { return };
        policy.charge(account.limit, amount, now.0);
        if policy.wait_ns(account.limit, now.0) > 0 {
            let policy = Arc::clone(policy);
            self.note(&policy, account.limit, passed);
        } else if self.is_any_closed()
            && let Some(policy) = self.policy(shared, account.port).cloned()
        {
            self.note(&policy, account.limit, passed);
        }
    }

    /// Ends the wait of the sender, and closes or reopens the account for others.
    #[cold]
    fn note(&mut self, policy: &Arc<Policy>, limit: Limit, passed: Passed) {
        let Passed { by, now, .. } = passed;
        let mut since = None;
        for policy in both(policy) {
            let wait = policy.own_wait_ns(limit, now.0);
            if wait > 0 {
                self.closed.close(policy, limit, now + pause(wait));
            }
            let Some(queue) = self.closed.queue(key(policy, limit)) else {
                continue;
            };
            let Some(waited) = by.and_then(|by| queue.serve(by)) else {
                continue;
            };
            since = since.into_iter().chain([waited]).min();
            if wait == 0 {
                // Others may have been held up by the order only.
                self.closed.look_at(key(policy, limit), now);
            }
        }
        if let Some(since) = since {
            policy.count_wait(limit, now.since(since).as_nanos() as u64);
        }
    }

    /// Whether any account takes no more for now.
    #[inline]
    pub(crate) fn is_any_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Whether an account takes more: a quick answer, which may be wrong if any [is
    /// closed](Self::is_any_closed).
    #[inline]
    pub(crate) fn takes(&mut self, shared: &Shared, account: Account, now: Time) -> bool {
        let policy = self.policy(shared, account.port);
        policy.is_none_or(|policy| policy.wait_ns(account.limit, now.0) == 0)
    }

    /// Whether a member has to wait for an account. It is told when to go on.
    #[cold]
    pub(crate) fn holds_up(
        &mut self,
        shared: &Shared,
        member: PortId,
        account: Account,
        now: Time,
    ) -> bool {
        let Some(policy) = self.policy(shared, account.port).cloned() else {
            return false;
        };
        let limit = account.limit;
        for policy in both(&policy) {
            let wait = policy.own_wait_ns(limit, now.0);
            if wait > 0 {
                self.closed.close(policy, limit, now + pause(wait));
            }
            if let Some(queue) = self.closed.queue(key(policy, limit))
                && (wait > 0 || !queue.lets(member))
            {
                queue.wait(member, now);
                return true;
            }
        }
        false
    }

    /// Returns the members that waited for accounts that are open by now, in their order.
    pub(crate) fn take_opened(&mut self, now: Time) -> Vec<PortId> {
        let mut waited = Vec::new();
        while let Some(key) = self.closed.next_due(now) {
            waited.extend(self.closed.look(key, now));
        }
        waited
    }

    /// When an account has to be looked at.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.closed.next_deadline()
    }
}

impl ClosedOnes {
    fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn queue(&mut self, key: Key) -> Option<&mut Queue> {
        self.by_key.get_mut(&key).map(|closed| &mut closed.queue)
    }

    /// Closes a meter: it is looked at again at `look_at`, or earlier if that was already due.
    fn close(&mut self, policy: &Arc<Policy>, limit: Limit, look_at: Time) {
        let key = key(policy, limit);
        let known = self.by_key.get(&key);
        if known.is_some_and(|closed| closed.look_at <= look_at) {
            return;
        }
        if known.is_none() {
            let closed = Closed {
                policy: Arc::clone(policy),
                look_at,
                queue: Queue::default(),
            };
            self.by_key.insert(key, closed);
        }
        self.look_at(key, look_at);
    }

    /// Sets when a meter is looked at again.
    fn look_at(&mut self, key: Key, at: Time) {
        if let Some(closed) = self.by_key.get_mut(&key) {
            self.deadlines.remove(&(closed.look_at, key));
            closed.look_at = at;
            self.deadlines.insert((at, key));
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Returns a meter whose time has come.
    fn next_due(&self, now: Time) -> Option<Key> {
        let (at, key) = *self.deadlines.first()?;
        (at <= now).then_some(key)
    }

    /// Returns the member that may go on. A meter that is open and has no waiting members is forgotten.
    fn look(&mut self, key: Key, now: Time) -> Option<PortId> {
        let closed = self.by_key.get_mut(&key)?;
        let wait = closed.policy.own_wait_ns(key.1, now.0);
        if wait > 0 {
            self.look_at(key, now + pause(wait));
            return None;
        }
        let told = closed.queue.open(now);
        if closed.queue.is_empty() {
            self.deadlines.remove(&(closed.look_at, key));
            self.by_key.remove(&key);
        } else {
            self.look_at(key, now + LOOK_AGAIN);
        }
        told
    }
}

fn key(policy: &Arc<Policy>, limit: Limit) -> Key {
    (Arc::as_ptr(policy) as usize, limit)
}

/// Returns a member's policy and its group's.
fn both(policy: &Arc<Policy>) -> impl Iterator<Item = &Arc<Policy>> {
    [Some(policy), policy.group()].into_iter().flatten()
}
