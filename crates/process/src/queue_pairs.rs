//! Which queue pairs are a user's: connection management announces no others for it. A call with
//! somebody else's number would have the callee end that one's connection as a stale one (IBTA 12.9.8.3).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vrdma_switch::PortId;
use vrdma_wire::Qpn;

use crate::holdings::UserCounts;

/// By adapter and number; the quota of queue pairs bounds it. All shards share it.
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

/// A queue pair is its user's for as long as this lives.
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
