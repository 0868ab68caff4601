//! Which queue pair sends next: users take turns, the clients of a user among themselves, and the queue pairs of a
//! client among themselves.
//!
//! ```text
//!   round of users ──► round of a user's clients ──► its ready queue pairs
//!     deficit            deficit                       who has had the least
//! ```
//! Users and clients take turns by deficit round robin: each has a quantum of cost a round, and what a unit cost beyond
//! it is missing in the next round. So 4,096 queue pairs of one client get what the single one of another gets. Queue
//! pairs of a client take turns by start-time fair queueing, unit by unit, so that none waits for the quanta of
//! thousands. On each level, a sender of long messages gets as many bytes as a sender of short ones gets in bytes and
//! operations.
//!
//! This module does not know the engine: it is told what is ready, and what was sent is charged.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
#[cfg(test)]
use alloc::{vec, vec::Vec};

use vrdma_verbs::object::{Owner, QpId};

/// Cost that each may spend in a round, in bytes: enough for one unit of 64 KiB with its fixed cost.
pub(crate) const QUANTUM: u64 = 64 << 10;

/// Fixed cost of a unit besides its bytes: copying this many bytes takes as long as handling an empty unit.
const UNIT_COST: u64 = 2 << 10;

/// The user and the context that a queue pair belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Client {
    /// The user. All guests count as one.
    pub user: u32,
    /// The context.
    pub owner: Owner,
}

/// The members of one level that have something to send.
#[derive(Debug)]
struct Round<K, T> {
    order: VecDeque<K>,
    entries: BTreeMap<K, Entry<T>>,
}

#[derive(Debug, Default)]
struct Entry<T> {
    /// What is left of the quantum; below zero, the cost that was spent too much.
    left: i64,
    queue: T,
}

impl<K, T> Default for Round<K, T> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            entries: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Copy, T: Default> Round<K, T> {
    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the queue of `key`, which takes part from now on.
    fn enter(&mut self, key: K) -> &mut T {
        let order = &mut self.order;
        let entry = self.entries.entry(key).or_insert_with(|| {
            order.push_back(key);
            Entry {
                left: QUANTUM as i64,
                queue: T::default(),
            }
        });
        &mut entry.queue
    }

    /// Returns the key whose turn it is, and its queue.
    fn front(&mut self) -> Option<(K, &mut T)> {
        loop {
            let key = *self.order.front()?;
            let entry = self.entries.get_mut(&key)?;
            if entry.left > 0 {
                break;
            }
            entry.left += QUANTUM as i64;
            self.order.rotate_left(1);
        }
        let key = *self.order.front()?;
        Some((key, &mut self.entries.get_mut(&key)?.queue))
    }

    fn charge(&mut self, key: K, cost: u64) -> Option<&mut T> {
        let entry = self.entries.get_mut(&key)?;
        entry.left = entry.left.saturating_sub_unsigned(cost);
        Some(&mut entry.queue)
    }

    /// Removes the key in front, which has nothing to send any more, with its credit or debt.
    fn leave_front(&mut self) {
        if let Some(key) = self.order.pop_front() {
            self.entries.remove(&key);
        }
    }
}

/// Queue pairs of one client. Dropped when none of them has anything to send.
#[derive(Debug, Default)]
struct Line {
    /// Ready queue pairs, by the cost that each has had.
    ready: BTreeSet<(u64, QpId)>,
    /// Cost that each queue pair which sent something has had; no more entries than the client has queue pairs.
    had: BTreeMap<QpId, u64>,
    /// Cost that the last sender had before it sent. A queue pair that comes later counts as having had as much.
    least: u64,
}

impl Line {
    fn push(&mut self, qp: QpId) {
        let had = self.had.get(&qp).copied().unwrap_or_default();
        self.ready.insert((had.max(self.least), qp));
    }

    fn pop(&mut self) -> Option<QpId> {
        let (had, qp) = self.ready.pop_first()?;
        self.least = had;
        Some(qp)
    }

    /// Charges the queue pair that was popped last for what it has sent.
    fn charge(&mut self, qp: QpId, cost: u64) {
        self.had.insert(qp, self.least.saturating_add(cost));
    }
}

/// Ready queue pairs in the order of their turns. A queue pair that is gone leaves its entry behind: the caller that
/// pops it has to know whether it is still ready.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    users: Round<u32, Round<Owner, Line>>,
}

impl Ready {
    /// Whether nobody takes part. A client that has just sent its last unit still does, until the next
    /// [`pop`](Self::pop).
    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    pub(crate) fn push(&mut self, client: Client, qp: QpId) {
        let clients = self.users.enter(client.user);
        clients.enter(client.owner).push(qp);
    }

    /// Takes the next queue pair, and the client to [charge](Self::charge) for what it sends.
    pub(crate) fn pop(&mut self) -> Option<(Client, QpId)> {
        while let Some((user, clients)) = self.users.front() {
            while let Some((owner, qps)) = clients.front() {
                match qps.pop() {
                    Some(qp) => return Some((Client { user, owner }, qp)),
                    None => clients.leave_front(),
                }
            }
            self.users.leave_front();
        }
        None
    }

    /// Charges for a unit of `bytes` that the queue pair popped last has sent.
    pub(crate) fn charge(&mut self, client: Client, qp: QpId, bytes: u64) {
        let cost = bytes.saturating_add(UNIT_COST);
        let clients = self.users.charge(client.user, cost);
        if let Some(line) = clients.and_then(|clients| clients.charge(client.owner, cost)) {
            line.charge(qp, cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue pair that always has units of `bytes`.
    struct Sender {
        client: Client,
        qp: QpId,
        bytes: u64,
    }

    fn sender(user: u32, owner: u32, qp: u32, bytes: u64) -> Sender {
        Sender {
            client: Client {
                user,
                owner: Owner(owner),
            },
            qp: QpId(qp),
            bytes,
        }
    }

    /// Returns the cost that each sender got after `units` units.
    fn shares(senders: &[Sender], units: usize) -> Vec<u64> {
        let mut ready = Ready::default();
        let mut cost = vec![0; senders.len()];
        for sender in senders {
            ready.push(sender.client, sender.qp);
        }
        for _ in 0..units {
            let (client, qp) = ready.pop().unwrap();
            let at = senders.iter().position(|sender| sender.qp == qp).unwrap();
            assert_eq!(client, senders[at].client);
            ready.charge(client, qp, senders[at].bytes);
            cost[at] += senders[at].bytes + UNIT_COST;
            ready.push(client, qp);
        }
        cost
    }

    fn within(percent: u64, a: u64, b: u64) -> bool {
        a.abs_diff(b) * 100 <= percent * a.max(b)
    }

    #[test]
    fn long_and_short_messages_get_the_same() {
        let got = shares(&[sender(1, 1, 1, 64 << 10), sender(1, 2, 2, 64)], 100_000);
        assert!(within(2, got[0], got[1]), "{got:?}");
    }

    #[test]
    fn long_and_short_messages_of_one_client_get_the_same() {
        let mut senders = vec![sender(1, 1, 0, 64 << 10)];
        senders.extend((1..=3).map(|qp| sender(1, 1, qp, 64)));
        let got = shares(&senders, 100_000);
        for short in &got[1..] {
            assert!(within(2, got[0], *short), "{got:?}");
        }
    }

    /// Two queue pairs that send one short unit each time they come do not keep one with long units waiting.
    #[test]
    fn who_comes_again_has_had_what_it_had() {
        let mut ready = Ready::default();
        let (long, short) = (
            sender(1, 1, 0, 64 << 10),
            [1, 2].map(|qp| sender(1, 1, qp, 64)),
        );
        ready.push(long.client, long.qp);
        let mut turns = 0;
        for round in 0..1000 {
            let next = &short[round % 2];
            ready.push(next.client, next.qp);
            let (client, qp) = ready.pop().unwrap();
            let is_long = qp == long.qp;
            ready.charge(client, qp, if is_long { long.bytes } else { 64 });
            if is_long {
                turns += 1;
                ready.push(client, qp);
                ready.pop().unwrap();
            }
        }
        assert!(turns >= 1000 / (2 * QUANTUM / UNIT_COST) as u32, "{turns}");
    }

    #[test]
    fn many_queue_pairs_of_one_client_get_no_more() {
        let mut senders = vec![sender(1, 1, 0, 64)];
        senders.extend((1..=64).map(|qp| sender(1, 2, qp, 64)));
        let got = shares(&senders, 200_000);
        let of_many = got[1..].iter().sum();
        assert!(within(2, got[0], of_many), "{} and {of_many}", got[0]);
        let (least, most) = (got[1..].iter().min(), got[1..].iter().max());
        assert!(within(2, *least.unwrap(), *most.unwrap()));
    }

    #[test]
    fn many_clients_of_one_user_get_no_more() {
        let mut senders = vec![sender(1, 1, 0, 4096)];
        senders.extend((1..=10).map(|number| sender(2, number + 1, number, 4096)));
        let got = shares(&senders, 100_000);
        let of_many = got[1..].iter().sum();
        assert!(within(2, got[0], of_many), "{} and {of_many}", got[0]);
    }

    #[test]
    fn who_has_nothing_to_send_is_passed_over() {
        let mut ready = Ready::default();
        let (idle, busy) = (sender(1, 1, 1, 64), sender(2, 2, 2, 64));
        ready.push(idle.client, idle.qp);
        ready.push(busy.client, busy.qp);
        assert_eq!(ready.pop(), Some((idle.client, idle.qp)));
        assert_eq!(ready.pop(), Some((busy.client, busy.qp)));
        assert_eq!(ready.pop(), None);
        assert!(ready.is_empty());
    }

    #[test]
    fn a_newcomer_waits_for_a_round_at_most() {
        let mut ready = Ready::default();
        let old = sender(1, 1, 1, 64);
        ready.push(old.client, old.qp);
        for _ in 0..10_000 {
            let (client, qp) = ready.pop().unwrap();
            ready.charge(client, qp, old.bytes);
            ready.push(client, qp);
        }
        let new = sender(2, 2, 2, 64);
        ready.push(new.client, new.qp);
        let before = (0..100).take_while(|_| {
            let (client, qp) = ready.pop().unwrap();
            ready.charge(client, qp, 64);
            ready.push(client, qp);
            client != new.client
        });
        assert!(before.count() as u64 <= QUANTUM / UNIT_COST + 1);
    }
}
