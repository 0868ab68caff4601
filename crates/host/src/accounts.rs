//! Members and port groups beyond a limit: whoever has more to send that is charged to them waits, and sends to
//! others meanwhile.
//!
//! ```text
//!   unit ──► charge ──► beyond a limit: closed ──► who has more for it waits, in the order of coming
//!                            └── time, or another limit ──► open ──► they go on in that order
//! ```
//! Any shard may have the members: all shards charge the same policies. One that has not found an account closed
//! yet sends a unit before it does, which the meter remembers.

use std::collections::BTreeMap;
use std::sync::Arc;

use vrdma_switch::{Limit, MAX_PORTS, Policy, PortId};
use vrdma_verbs::Time;

use crate::limits::{LOOK_AGAIN, pause};
use crate::queue::Queue;
use crate::shared::Shared;

/// One limit of one member, and with it that of its port group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    pub(crate) port: PortId,
    pub(crate) limit: Limit,
}

/// What has passed for an account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) amount: u64,
    /// The member that sent it or asked for it, which may have waited.
    pub(crate) by: Option<PortId>,
    pub(crate) now: Time,
}

/// A meter by the address of its policy, which is alive as long as the meter is in the table.
type Key = (usize, Limit);

/// A meter that takes no more for now, or has not until a moment ago.
struct Closed {
    policy: Arc<Policy>,
    /// When it is looked at again.
    look_at: Time,
    queue: Queue,
}

/// What limits a member, as the shards knew it in an epoch.
struct Known {
    epoch: u64,
    policy: Option<Arc<Policy>>,
}

/// Of all members and port groups, in one shard.
#[derive(Default)]
pub(crate) struct Accounts {
    /// By port; one that was never asked for has none.
    known: Vec<Option<Known>>,
    /// Four for each member and port group at most, each with the members that wait for it here.
    closed: BTreeMap<Key, Closed>,
    /// No later than the first of the closed ones is looked at.
    look_at: Option<Time>,
}

impl Accounts {
    /// What limits a member of any shard.
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

    /// Whether something has to be asked or charged of a member at all.
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

    /// Something for an account has passed.
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

    /// The wait of who sent something is over, and that of others may begin.
    #[cold]
    fn note(&mut self, policy: &Arc<Policy>, limit: Limit, passed: Passed) {
        let Passed { by, now, .. } = passed;
        let mut since = None;
        for policy in both(policy) {
            let wait = policy.own_wait_ns(limit, now.0);
            if wait > 0 {
                self.close(policy, limit, wait, now);
            }
            let Some(closed) = self.closed.get_mut(&key(policy, limit)) else {
                continue;
            };
            let Some(waited) = by.and_then(|by| closed.queue.serve(by)) else {
                continue;
            };
            since = since.into_iter().chain([waited]).min();
            if wait == 0 {
                // Others may have been held up by the order only.
                closed.look_at = now;
                self.look_at = Some(now);
            }
        }
        if let Some(since) = since {
            policy.count_wait(limit, now.since(since).as_nanos() as u64);
        }
    }

    fn close(&mut self, policy: &Arc<Policy>, limit: Limit, wait_ns: u64, now: Time) {
        let look_at = now + pause(wait_ns);
        self.look_at = Some(self.look_at.map_or(look_at, |at| at.min(look_at)));
        let closed = self.closed.entry(key(policy, limit));
        let closed = closed.or_insert_with(|| Closed {
            policy: Arc::clone(policy),
            look_at,
            queue: Queue::default(),
        });
        closed.look_at = closed.look_at.min(look_at);
    }

    /// Whether any takes no more for now.
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
                self.close(policy, limit, wait, now);
            }
            if let Some(closed) = self.closed.get_mut(&key(policy, limit))
                && (wait > 0 || !closed.queue.lets(member))
            {
                closed.queue.wait(member, now);
                return true;
            }
        }
        false
    }

    /// Who waited for accounts that are open by now, in their order.
    pub(crate) fn take_opened(&mut self, now: Time) -> Vec<PortId> {
        if self.look_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        let mut waited = Vec::new();
        self.closed.retain(|(_, limit), closed| {
            if closed.look_at > now {
                return true;
            }
            let wait = closed.policy.own_wait_ns(*limit, now.0);
            closed.look_at = now + pause(wait);
            if wait == 0 {
                closed.look_at = now + LOOK_AGAIN;
                waited.extend(closed.queue.open(now));
            }
            wait > 0 || !closed.queue.is_empty()
        });
        self.look_at = self.closed.values().map(|closed| closed.look_at).min();
        waited
    }

    /// When an account is to be looked at.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.look_at
    }
}

fn key(policy: &Arc<Policy>, limit: Limit) -> Key {
    (Arc::as_ptr(policy) as usize, limit)
}

/// A member's policy and its group's.
fn both(policy: &Arc<Policy>) -> impl Iterator<Item = &Arc<Policy>> {
    [Some(policy), policy.group()].into_iter().flatten()
}
