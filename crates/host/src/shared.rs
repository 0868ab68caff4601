//! What the carriers of all shards know together: which adapter has which address, and which shard has which adapter.
//!
//! Written when an adapter comes, goes, moves, or changes its addresses; connections keep what they found until the
//! epoch changes, so the lock is taken for datagrams, frames and little else.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use vrdma_adapter::ShardId;
use vrdma_switch::{Fabric, MAX_PORTS, Policy, PortId};
use vrdma_wire::Gid;

use crate::location::Tombstones;

/// The shard that a member is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Home {
    pub(crate) shard: ShardId,
    /// See [`Member::has_gsi`](crate::Member::has_gsi).
    pub(crate) has_gsi: bool,
}

impl Home {
    /// Set in every number that encodes a home.
    const IS_ONE: u32 = 1 << 31;
    const HAS_GSI: u32 = 1 << 30;

    fn to_number(self) -> u32 {
        let gsi = if self.has_gsi { Self::HAS_GSI } else { 0 };
        Self::IS_ONE | gsi | u32::from(self.shard.0)
    }

    fn from_number(number: u32) -> Option<Self> {
        (number & Self::IS_ONE != 0).then_some(Self {
            shard: ShardId(number as u16),
            has_gsi: number & Self::HAS_GSI != 0,
        })
    }
}

/// The shared knowledge; see the module.
pub struct Shared {
    fabric: RwLock<Fabric>,
    epoch: AtomicU64,
    /// By port number: read for every unit that crosses, so without the lock.
    homes: Box<[AtomicU32]>,
    /// By port number: the policy that limits each member.
    policies: RwLock<Vec<Option<Arc<Policy>>>>,
    /// Looked at when somebody asks for an adapter that is not here, and changed when one goes or comes.
    tombstones: Mutex<Tombstones>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            fabric: RwLock::default(),
            epoch: AtomicU64::new(0),
            homes: (0..MAX_PORTS).map(|_| AtomicU32::new(0)).collect(),
            policies: RwLock::default(),
            tombstones: Mutex::default(),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns a number that changes whenever an answer of the fabric may have changed.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the shard that has a member.
    pub(crate) fn home(&self, port: PortId) -> Option<Home> {
        let home = self.homes.get(port.0 as usize)?;
        Home::from_number(home.load(Ordering::Acquire))
    }

    pub(crate) fn set_home(&self, port: PortId, home: Option<Home>) {
        if let Some(place) = self.homes.get(port.0 as usize) {
            let number = home.map_or(0, Home::to_number);
            place.store(number, Ordering::Release);
        }
    }

    /// Returns the policy that limits a member. Shards keep the answer for as long as the epoch stands.
    pub(crate) fn policy(&self, port: PortId) -> Option<Arc<Policy>> {
        let policies = self.policies.read().unwrap_or_else(PoisonError::into_inner);
        policies.get(port.0 as usize)?.clone()
    }

    /// Sets a member's policy. Call it before the member is reached by an address, which changes the epoch.
    pub(crate) fn set_policy(&self, port: PortId, policy: Option<Arc<Policy>>) {
        let mut policies = self
            .policies
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let number = port.0 as usize;
        if policies.len() <= number {
            policies.resize(number + 1, None);
        }
        policies[number] = policy;
    }

    // A thread that panicked in the middle of a change ends the daemon, so nobody sees what it left.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Fabric> {
        self.fabric.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Fabric::learn`]. A caller that asks for an address that it cannot have does not take the lock for changes.
    pub(crate) fn learn(&self, port: PortId, gid: Gid) -> Option<Gid> {
        {
            let fabric = self.read();
            let learned = fabric.learned_beside(port, gid);
            if learned.is_some() || !fabric.may_learn(port, gid) {
                return learned;
            }
        }
        self.change(|fabric| fabric.learn(port, gid))
    }

    pub(crate) fn tombstones<T>(&self, look: impl FnOnce(&mut Tombstones) -> T) -> T {
        look(
            &mut self
                .tombstones
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Fabric) -> T) -> T {
        let mut fabric = self.fabric.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut fabric);
        self.epoch.store(fabric.epoch(), Ordering::Release);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_kept_by_port() {
        let shared = Shared::default();
        let home = |shard, has_gsi| {
            let shard = ShardId(shard);
            Some(Home { shard, has_gsi })
        };
        for (port, home) in [(0, home(0, false)), (7, home(63, true)), (8, None)] {
            shared.set_home(PortId(port), home);
            assert_eq!(shared.home(PortId(port)), home);
        }
        shared.set_home(PortId(7), None);
        assert_eq!(shared.home(PortId(7)), None);
        assert_eq!(shared.home(PortId(u32::MAX)), None);
    }
}
