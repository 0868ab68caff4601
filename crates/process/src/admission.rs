//! Who may use which adapter.
//!
//! Written by the control thread when an adapter is added, changed or removed; read by every shard when
//! somebody asks for an adapter or which ones there are. What was opened before a change goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use vrdma_switch::PortId;

use crate::caller::Caller;

/// Users and groups that may use an adapter besides the daemon's own user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Admitted {
    /// Numbers of users.
    pub users: BTreeSet<u32>,
    /// Numbers of groups: the primary one of a process or one of its others.
    pub groups: BTreeSet<u32>,
}

/// Who may use each adapter, of whatever kind. An adapter that is not in it is the daemon's user's alone.
#[derive(Debug, Default)]
pub struct Admission(RwLock<Tables>);

#[derive(Debug, Default)]
struct Tables {
    by_port: BTreeMap<PortId, Admitted>,
    by_user: BTreeMap<u32, BTreeSet<PortId>>,
    by_group: BTreeMap<u32, BTreeSet<PortId>>,
}

/// The adapters that somebody may use. Some may be gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Usable {
    /// All.
    All,
    /// These.
    Only(BTreeSet<PortId>),
}

impl Admission {
    /// Who may use an adapter from now on.
    pub fn set(&self, port: PortId, admitted: Admitted) {
        let mut tables = self.write();
        tables.remove(port);
        for user in &admitted.users {
            tables.by_user.entry(*user).or_default().insert(port);
        }
        for group in &admitted.groups {
            tables.by_group.entry(*group).or_default().insert(port);
        }
        tables.by_port.insert(port, admitted);
    }

    /// The adapter is gone.
    pub fn remove(&self, port: PortId) {
        self.write().remove(port);
    }

    /// Whether somebody may use an adapter.
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

    /// The adapters that somebody may use: no look at those of others.
    pub(crate) fn usable(&self, caller: &Caller) -> Usable {
        if caller.is_ours() {
            return Usable::All;
        }
        let tables = self.read();
        let of_user = tables.by_user.get(&caller.uid);
        let of_groups = caller
            .groups()
            .filter_map(|group| tables.by_group.get(&group));
        Usable::Only(
            of_user
                .into_iter()
                .chain(of_groups)
                .flatten()
                .copied()
                .collect(),
        )
    }

    // A thread that panicked in the middle of a change ends the daemon, so what it left is not seen.
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

fn take_out(table: &mut BTreeMap<u32, BTreeSet<PortId>>, who: &BTreeSet<u32>, port: PortId) {
    for number in who {
        if let Some(ports) = table.get_mut(number) {
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

    fn only(ports: &[u32]) -> Usable {
        Usable::Only(ports.iter().copied().map(PortId).collect())
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
        assert_eq!(admission.usable(&user), only(&[1]));
        assert_eq!(admission.usable(&member), only(&[2]));
        assert_eq!(admission.usable(&primary), only(&[2]));
        assert_eq!(admission.usable(&ours), Usable::All);
        let may = |caller: &Caller| [1, 2, 3, 4].map(|port| admission.admits(PortId(port), caller));
        assert_eq!(may(&user), [true, false, false, false]);
        assert_eq!(may(&member), [false, true, false, false]);
        assert_eq!(may(&ours), [true; 4]);
    }

    #[test]
    fn a_change_leaves_nothing_of_what_was() {
        let admission = Admission::default();
        let user = Caller::of(STRANGER, 5, &[]);
        admission.set(PortId(1), admitted(&[STRANGER], &[5]));
        admission.set(PortId(1), admitted(&[STRANGER + 1], &[]));
        assert_eq!(admission.usable(&user), only(&[]));
        admission.remove(PortId(1));
        let tables = admission.read();
        assert!(tables.by_user.is_empty() && tables.by_group.is_empty());
    }
}
