//! Who of a port group is concerned by a question: nobody else is looked at.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use vrdma_wire::Gid;

use super::{FAMILIES, Family, OLDER_LASTS, Query, family};
use crate::PortId;

/// Of one port group. There is an entry for each of its adapters' groups, whose number the adapter bounds.
#[derive(Default, Debug)]
pub(super) struct Network {
    /// Adapters that have listened to something.
    pub(super) members: usize,
    /// A querier of the older version was heard by then.
    older_until: BTreeMap<Family, u64>,
    /// Whom a question for all groups concerns.
    listening: BTreeSet<(Family, PortId)>,
    /// Whom one for a single group does.
    by_address: BTreeSet<(Gid, PortId)>,
}

impl Network {
    /// An adapter listens to others than before.
    pub(super) fn change(&mut self, port: PortId, before: &BTreeSet<Gid>, now: &BTreeSet<Gid>) {
        for group in before.difference(now) {
            self.by_address.remove(&(*group, port));
        }
        for group in now.difference(before) {
            self.by_address.insert((*group, port));
        }
        for of in FAMILIES {
            if now.iter().any(|group| family(*group) == of) {
                self.listening.insert((of, port));
            } else {
                self.listening.remove(&(of, port));
            }
        }
    }

    /// Notes a question, and tells who may answer it.
    pub(super) fn hear(&mut self, query: &Query, now: u64) -> Vec<PortId> {
        if query.older {
            self.older_until.insert(query.family, now + OLDER_LASTS);
        }
        let [first, last] = [PortId(0), PortId(u32::MAX)];
        match query.group {
            Some(group) => {
                let concerned = self.by_address.range((group, first)..=(group, last));
                concerned.map(|entry| entry.1).collect()
            }
            None => {
                let of = query.family;
                let concerned = self.listening.range((of, first)..=(of, last));
                concerned.map(|entry| entry.1).collect()
            }
        }
    }

    /// Whether reports are of the older version.
    pub(super) fn is_older(&self, of: Family, now: u64) -> bool {
        self.older_until.get(&of).is_some_and(|until| now < *until)
    }
}
