//! The GIDs that the guest has bound, and the changes that the switch is told.

use std::collections::VecDeque;

use vrdma_adapter::GidChange;
use vrdma_wire::Gid;

/// Most changes that wait to be taken. Beyond that, the whole table is reported again, which is bounded.
const CHANGES_MAX: usize = 512;

/// The GID table, by index.
pub(crate) struct GidLedger {
    entries: Vec<Option<Gid>>,
    changes: VecDeque<GidChange>,
}

impl GidLedger {
    /// `count` empty entries.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            entries: vec![None; count as usize],
            changes: VecDeque::new(),
        }
    }

    /// Puts a GID into an entry, replacing the one there, or empties the entry.
    pub(crate) fn set(&mut self, index: u8, gid: Option<Gid>) {
        let Some(entry) = self.entries.get_mut(usize::from(index)) else {
            return;
        };
        let old = std::mem::replace(entry, gid);
        if old == gid {
            return;
        }
        if let Some(old) = old.filter(|old| !self.is_bound(*old)) {
            self.tell(GidChange::Unbound(old));
        }
        if let Some(gid) = gid {
            self.tell(GidChange::Bound(gid));
        }
    }

    fn is_bound(&self, gid: Gid) -> bool {
        self.entries.contains(&Some(gid))
    }

    fn tell(&mut self, change: GidChange) {
        if self.changes.len() < CHANGES_MAX {
            self.changes.push_back(change);
            return;
        }
        self.changes.clear();
        self.changes.push_back(GidChange::Cleared);
        let bound = self.entries.iter().flatten();
        self.changes.extend(bound.map(|gid| GidChange::Bound(*gid)));
    }

    /// Takes the oldest change that was not taken.
    pub(crate) fn take_change(&mut self) -> Option<GidChange> {
        self.changes.pop_front()
    }

    /// The bound GIDs with their indices.
    pub(crate) fn bound(&self) -> impl Iterator<Item = (u8, Gid)> {
        let indexed = (0..=u8::MAX).zip(&self.entries);
        indexed.filter_map(|(index, entry)| Some((index, (*entry)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(ledger: &mut GidLedger) -> Vec<GidChange> {
        std::iter::from_fn(|| ledger.take_change()).collect()
    }

    #[test]
    fn a_gid_is_unbound_when_its_last_entry_goes() {
        let (a, b) = (Gid([1; 16]), Gid([2; 16]));
        let mut ledger = GidLedger::new(4);
        ledger.set(0, Some(a));
        ledger.set(1, Some(a));
        ledger.set(0, Some(b));
        ledger.set(1, None);
        let expected = [
            GidChange::Bound(a),
            GidChange::Bound(a),
            GidChange::Bound(b),
            GidChange::Unbound(a),
        ];
        assert_eq!(changes(&mut ledger), expected);
        assert_eq!(ledger.bound().collect::<Vec<_>>(), [(0, b)]);
    }

    #[test]
    fn too_many_changes_become_the_table() {
        let mut ledger = GidLedger::new(2);
        for turn in 0..CHANGES_MAX {
            ledger.set(0, Some(Gid([(turn % 2 + 1) as u8; 16])));
        }
        let told = changes(&mut ledger);
        assert!(told.len() <= CHANGES_MAX);
        assert_eq!(told[0], GidChange::Cleared);
        assert_eq!(told.last(), Some(&GidChange::Bound(Gid([2; 16]))));
    }
}
