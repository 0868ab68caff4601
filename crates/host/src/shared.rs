//! What the carriers of all shards know together: whose each address is, and which shard has each
//! adapter.
//!
//! Written when an adapter comes, goes, moves, or changes its addresses; connections keep what they
//! found until the epoch changes, so the lock is taken for datagrams, frames and little else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use vrdma_adapter::ShardId;
use vrdma_switch::{Fabric, PortId};

/// Where a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Home {
    pub(crate) shard: ShardId,
    /// See [`Member::has_gsi`](crate::Member::has_gsi).
    pub(crate) has_gsi: bool,
}

/// See the module.
#[derive(Default)]
pub struct Shared {
    state: RwLock<State>,
    epoch: AtomicU64,
}

/// What the lock protects.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) fabric: Fabric,
    /// By port number.
    homes: Vec<Option<Home>>,
}

impl State {
    pub(crate) fn home(&self, port: PortId) -> Option<Home> {
        *self.homes.get(port.0 as usize)?
    }

    pub(crate) fn set_home(&mut self, port: PortId, home: Option<Home>) {
        let number = port.0 as usize;
        if self.homes.len() <= number {
            self.homes.resize(number + 1, None);
        }
        self.homes[number] = home;
    }
}

impl Shared {
    /// Changes whenever the answer of the fabric may have changed.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    // A thread that panicked in the middle of a change ends the daemon, so what it left is not seen.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        self.epoch.store(state.fabric.epoch(), Ordering::Release);
        result
    }
}
