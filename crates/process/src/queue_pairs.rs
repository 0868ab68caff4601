//! The queue pairs of each user: connection management announces no others for it. A connection request with another
//! user's number would have the peer end that user's connection as a stale one (IBTA 12.9.8.3).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vrdma_switch::PortId;
use vrdma_wire::Qpn;

use crate::holdings::UserCounts;

/// The queue pairs of one user, by adapter and number; the quota of queue pairs bounds them. All shards share this.
#[derive(Debug, Default)]
pub(super) struct QueuePairs(Mutex<HashSet<(PortId, Qpn)>>);

impl QueuePairs {
    pub(super) fn has(&self, port: PortId, qpn: Qpn) -> bool {
        self.lock().contains(&(port, qpn))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(PortId, Qpn)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a queue pair its user's for as long as this lives.
#[derive(Debug)]
pub(super) struct Entry {
    user: Arc<UserCounts>,
    at: (PortId, Qpn),
}

impl Entry {
    pub(super) fn new(user: Arc<UserCounts>, port: PortId, qpn: Qpn) -> Self {
        user.queue_pairs.lock().insert((port, qpn));
        Self {
            user,
            at: (port, qpn),
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.user.queue_pairs.lock().remove(&self.at);
    }
}
