//! The users and groups that may use each adapter.
//!
//! Written by the control thread when an adapter is added, changed or removed; read by every shard when a process asks
//! for an adapter or for the list. Adapters that were opened before a change stay open.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use vrdma_switch::PortId;

use crate::caller::Caller;

/// Users and groups that may use an adapter, besides the daemon's own user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Admitted {
    /// Numbers of the users.
    pub users: BTreeSet<u32>,
    /// Numbers of the groups: a process's primary group counts, and so do its others.
    pub groups: BTreeSet<u32>,
}

/// Users and groups that may use each adapter, of whatever kind. An adapter that is not listed is for the daemon's user
/// alone.
#[derive(Debug, Default)]
pub struct Admission(RwLock<Tables>);

#[derive(Debug, Default)]
struct Tables {
    by_port: BTreeMap<PortId, Admitted>,
    by_user: Shares,
    by_group: Shares,
}

/// Adapters of each user or group. A set is copied if it changes while somebody reads it, and not for each reader.
type Shares = BTreeMap<u32, Arc<BTreeSet<PortId>>>;

/// The adapters that a process may use. Some may be gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Usable {
    /// All adapters.
    All,
    /// The union of these sets: that of the user and those of its groups.
    Only(Vec<Arc<BTreeSet<PortId>>>),
}

impl Usable {
    /// Whether an adapter is among them.
    pub(crate) fn contains(&self, port: PortId) -> bool {
        match self {
            Self::All => true,
            Self::Only(shares) => shares.iter().any(|share| share.contains(&port)),
        }
    }
}

/// The adapters of all shares in ascending order, each once.
pub(crate) fn merged(shares: &[Arc<BTreeSet<PortId>>]) -> impl Iterator<Item = PortId> {
    let after = |last: Bound<PortId>| {
        let nexts = shares.iter();
        let nexts = nexts.filter_map(move |share| share.range((last, Bound::Unbounded)).next());
        nexts.min().copied()
    };
    std::iter::successors(after(Bound::Unbounded), move |last| {
        after(Bound::Excluded(*last))
    })
}

impl Admission {
    /// Sets who may use an adapter from now on.
    pub fn set(&self, port: PortId, admitted: Admitted) {
        let mut tables = self.write();
        tables.remove(port);
        if admitted == Admitted::default() {
            return;
        }
        for user in &admitted.users {
            enter(&mut tables.by_user, *user, port);
        }
        for group in &admitted.groups {
            enter(&mut tables.by_group, *group, port);
        }
        tables.by_port.insert(port, admitted);
    }

    /// Forgets an adapter that is gone.
    pub fn remove(&self, port: PortId) {
        self.write().remove(port);
    }

    /// Whether a process may use an adapter.
    pub fn admits(&self, port: PortId, caller: &Caller) -> bool {
        if caller.is_ours() {
            return true;
        }
        let tables = self.read();
        tables.by_port.get(&port).is_some_and(|admitted| {
            admitted.users.contains(&caller.uid)
                || caller
                    .groups()
                    .any(|group| admitted.groups.contains(&group))
        })
    }

    /// Returns the adapters that a process may use, without looking at others and without a copy.
    pub(crate) fn usable(&self, caller: &Caller) -> Usable {
        if caller.is_ours() {
            return Usable::All;
        }
        let tables = self.read();
        let of_user = tables.by_user.get(&caller.uid);
        let of_groups = caller
            .groups()
            .filter_map(|group| tables.by_group.get(&group));
        Usable::Only(of_user.into_iter().chain(of_groups).cloned().collect())
    }

    // A thread that panicked in the middle of a change ends the daemon, so nobody sees a half-done change.
    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn remove(&mut self, port: PortId) {
        let Some(admitted) = self.by_port.remove(&port) else {
            return;
        };
        take_out(&mut self.by_user, &admitted.users, port);
        take_out(&mut self.by_group, &admitted.groups, port);
    }
}

fn enter(table: &mut Shares, who: u32, port: PortId) {
    Arc::make_mut(table.entry(who).or_default()).insert(port);
}

fn take_out(table: &mut Shares, who: &BTreeSet<u32>, port: PortId) {
    for number in who {
        if let Some(share) = table.get_mut(number) {
            let ports = Arc::make_mut(share);
            ports.remove(&port);
            if ports.is_empty() {
                table.remove(number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: u32 = 4242;

    fn admitted(users: &[u32], groups: &[u32]) -> Admitted {
        Admitted {
            users: users.iter().copied().collect(),
            groups: groups.iter().copied().collect(),
        }
    }

    fn listed(usable: &Usable) -> Vec<u32> {
        match usable {
            Usable::All => unreachable!("it is not the daemon's user"),
            Usable::Only(shares) => merged(shares).map(|port| port.0).collect(),
        }
    }

    #[test]
    fn who_is_named_is_admitted_and_nobody_else() {
        let admission = Admission::default();
        admission.set(PortId(1), admitted(&[STRANGER], &[]));
        admission.set(PortId(2), admitted(&[], &[77]));
        admission.set(PortId(3), Admitted::default());
        let user = Caller::of(STRANGER, 5, &[]);
        let member = Caller::of(9, 5, &[70, 77]);
        let primary = Caller::of(9, 77, &[]);
        let ours = Caller::of(rustix::process::geteuid().as_raw(), 5, &[]);
        assert_eq!(listed(&admission.usable(&user)), [1]);
        assert_eq!(listed(&admission.usable(&member)), [2]);
        assert_eq!(listed(&admission.usable(&primary)), [2]);
        assert_eq!(admission.usable(&ours), Usable::All);
        let may = |caller: &Caller| [1, 2, 3, 4].map(|port| admission.admits(PortId(port), caller));
        assert_eq!(may(&user), [true, false, false, false]);
        assert_eq!(may(&member), [false, true, false, false]);
        assert_eq!(may(&ours), [true; 4]);
    }

    #[test]
    fn what_user_and_groups_may_use_is_listed_once_and_in_order() {
        let admission = Admission::default();
        let ports = [(9, 5), (3, 77), (4, 5), (3, 5)];
        for (port, group) in ports {
            let groups = [group, 8];
            admission.set(PortId(port), admitted(&[], &groups));
        }
        admission.set(PortId(1), admitted(&[STRANGER], &[5, 77]));
        let usable = admission.usable(&Caller::of(STRANGER, 5, &[77, 8]));
        assert_eq!(listed(&usable), [1, 3, 4, 9]);
        assert!(usable.contains(PortId(9)) && !usable.contains(PortId(2)));
        admission.remove(PortId(4));
        assert_eq!(
            listed(&usable),
            [1, 3, 4, 9],
            "as it was when it was asked for"
        );
    }

    #[test]
    fn a_change_leaves_nothing_of_what_was() {
        let admission = Admission::default();
        let user = Caller::of(STRANGER, 5, &[]);
        admission.set(PortId(1), admitted(&[STRANGER], &[5]));
        admission.set(PortId(1), admitted(&[STRANGER + 1], &[]));
        assert_eq!(admission.usable(&user), Usable::Only(Vec::new()));
        admission.remove(PortId(1));
        let tables = admission.read();
        assert!(tables.by_user.is_empty() && tables.by_group.is_empty());
    }
}
