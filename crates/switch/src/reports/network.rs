//! The adapters of a port group that a query concerns: no others are looked at.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use vrdma_wire::Gid;

use super::{FAMILIES, Family, OLDER_LASTS, Query, family};
use crate::PortId;

/// One port group. There is an entry for each group that one of its adapters listens to; the adapter bounds their
/// number.
#[derive(Default, Debug)]
pub(super) struct Network {
    /// Adapters that have listened to something.
    pub(super) members: usize,
    /// Until when a querier of the older version counts as heard.
    older_until: BTreeMap<Family, u64>,
    /// Adapters that a query for all groups concerns.
    listening: BTreeSet<(Family, PortId)>,
    /// Adapters that a query for a single group concerns.
    by_address: BTreeSet<(Gid, PortId)>,
}

impl Network {
    /// Notes that an adapter listens to other groups than before.
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

    /// Notes a query, and returns the adapters that may answer it.
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
