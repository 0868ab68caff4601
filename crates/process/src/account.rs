//! What a client has taken, and all clients of its user together: quotas hold for both.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::limits;
use super::queue_pairs::QueuePairs;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Protection domains.
    Pd,
    /// Memory regions and windows.
    Mr,
    /// Regions among them that are files which the daemon has mapped.
    File,
    /// Completion queues.
    Cq,
    /// Queue pairs.
    Qp,
    /// Shared receive queues.
    Srq,
    /// Bytes of ring memory.
    RingBytes,
}

const KINDS: usize = Kind::RingBytes as usize + 1;

/// By [`Kind`].
type Counts = [u64; KINDS];

/// What all clients of one user have, whichever shards serve them. Shards that count at the same
/// moment may together go over a quota by one request each.
#[derive(Debug, Default)]
pub(super) struct UserCounts {
    counts: [AtomicU64; KINDS],
    pub(super) queue_pairs: QueuePairs,
}

impl UserCounts {
    fn of(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }
}

/// What one client has. Its end gives everything back.
#[derive(Debug)]
pub(super) struct Account {
    own: Counts,
    user: Arc<UserCounts>,
}

impl Account {
    /// Of a client without objects.
    pub(super) fn new(user: Arc<UserCounts>) -> Self {
        Self {
            own: Counts::default(),
            user,
        }
    }

    /// Whether so much more is allowed.
    pub(super) fn has_room(&self, kind: Kind, count: u64) -> bool {
        let (client, user) = limits::most(kind);
        let fits = |used: u64, most: u64| count <= most.saturating_sub(used);
        fits(self.own[kind as usize], client) && fits(self.user.of(kind), user)
    }

    /// Whose it is.
    pub(super) fn user(&self) -> &Arc<UserCounts> {
        &self.user
    }

    pub(super) fn take(&mut self, kind: Kind, count: u64) {
        self.own[kind as usize] += count;
        self.user.counts[kind as usize].fetch_add(count, Ordering::Relaxed);
    }

    /// Gives back what was taken before.
    pub(super) fn give(&mut self, kind: Kind, count: u64) {
        self.own[kind as usize] -= count;
        self.user.counts[kind as usize].fetch_sub(count, Ordering::Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        for (all, own) in self.user.counts.iter().zip(self.own) {
            all.fetch_sub(own, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_less_than_its_clients_could_have() {
        let user = Arc::<UserCounts>::default();
        let (each, all) = limits::most(Kind::Pd);
        let mut clients = Vec::new();
        let mut taken = 0;
        while taken < all {
            let mut client = Account::new(Arc::clone(&user));
            while client.has_room(Kind::Pd, 1) {
                client.take(Kind::Pd, 1);
                taken += 1;
            }
            assert!(client.own[Kind::Pd as usize] <= each);
            clients.push(client);
        }
        assert_eq!(taken, all);
        let mut last = Account::new(user);
        assert!(!last.has_room(Kind::Pd, 1) && last.has_room(Kind::Qp, 1));
        clients.pop();
        assert!(last.has_room(Kind::Pd, 1), "the end of a client gives back");
        last.take(Kind::RingBytes, 100);
        last.give(Kind::RingBytes, 60);
        assert_eq!(last.user.of(Kind::RingBytes), 40);
    }
}
