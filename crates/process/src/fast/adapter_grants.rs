//! The grants of one adapter, indexed by its objects: an event at one object does not touch the grants of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vrdma_verbs::object::{MrId, Owner, QpId};

use super::Grant;

/// Grants that are looked at for each new one, in rotation: so no more ended grants are kept than others.
const SWEPT: usize = 2;

/// A grant, and the objects of this adapter that it concerns.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) owner: Owner,
    pub(super) qp: QpId,
    /// The region that is lent; `None` if the grant is borrowed.
    pub(super) mr: Option<MrId>,
    pub(super) grant: Arc<Grant>,
}

/// An object that grants concern.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum About {
    Owner(Owner),
    Qp(QpId),
    Mr(MrId),
}

impl Held {
    fn objects(&self) -> impl Iterator<Item = About> + use<> {
        let both = [About::Owner(self.owner), About::Qp(self.qp)];
        both.into_iter().chain(self.mr.map(About::Mr))
    }

    /// Whether the grant is not to be kept: it has ended, and nobody may wait for its copy.
    fn is_over(&self) -> bool {
        let is_awaited = self.mr.is_some() && self.grant.is_busy();
        !self.grant.holds.load(Ordering::Relaxed) && !is_awaited
    }
}

/// The grants of one adapter.
#[derive(Debug, Default)]
pub(in super::super) struct AdapterGrants {
    held: BTreeMap<u64, Held>,
    /// Number of each grant under each of its objects.
    index: BTreeSet<(About, u64)>,
    /// The number that was given last.
    last: u64,
    /// Number of the grant that was swept last.
    swept: u64,
    /// How many grants were looked at.
    #[cfg(test)]
    looks: u64,
}

impl AdapterGrants {
    /// Adds a grant: a client may reach another client's region, and both adapters hold the grant.
    pub(super) fn hold(&mut self, held: Held) {
        for _ in 0..SWEPT {
            self.sweep_one();
        }
        self.last += 1;
        let number = self.last;
        let objects = held.objects().map(|about| (about, number));
        self.index.extend(objects);
        self.held.insert(number, held);
    }

    /// Takes back the grants of a queue pair that changed, or is gone.
    pub(in super::super) fn forget_qp(&mut self, id: QpId) {
        for number in self.about(About::Qp(id)) {
            self.take_back(number);
            self.remove_if_over(number);
        }
    }

    /// Takes back the grants of a region that changes or goes; true if a copy to or from it is under way.
    pub(in super::super) fn forget_mr(&mut self, id: MrId) -> bool {
        let mut busy = false;
        for number in self.about(About::Mr(id)) {
            self.take_back(number);
            self.remove_if_over(number);
            busy |= self.held.contains_key(&number);
        }
        busy
    }

    /// Takes back the grants of a client that is gone: nobody waits for copies to or from its memory.
    pub(in super::super) fn forget_owner(&mut self, owner: Owner) {
        for number in self.about(About::Owner(owner)) {
            self.take_back(number);
            self.remove(number);
        }
    }

    fn about(&self, about: About) -> Vec<u64> {
        let all = (about, u64::MIN)..=(about, u64::MAX);
        self.index.range(all).map(|(_, number)| *number).collect()
    }

    fn take_back(&mut self, number: u64) {
        self.look();
        if let Some(held) = self.held.get(&number) {
            held.grant.take_back();
        }
    }

    /// Removes a grant that the other adapter has taken back, if it is the next in rotation.
    fn sweep_one(&mut self) {
        self.look();
        let mut next = self.held.range(self.swept + 1..).map(|(number, _)| *number);
        self.swept = next.next().unwrap_or(0);
        self.remove_if_over(self.swept);
    }

    fn remove_if_over(&mut self, number: u64) {
        if self.held.get(&number).is_some_and(Held::is_over) {
            self.remove(number);
        }
    }

    fn remove(&mut self, number: u64) {
        if let Some(held) = self.held.remove(&number) {
            for about in held.objects() {
                self.index.remove(&(about, number));
            }
        }
    }

    #[cfg(test)]
    fn look(&mut self) {
        self.looks += 1;
    }

    #[cfg(not(test))]
    fn look(&mut self) {}
}

impl Drop for AdapterGrants {
    fn drop(&mut self) {
        self.held.values().for_each(|held| held.grant.take_back());
    }
}

#[cfg(test)]
mod tests {
    use vrdma_provider::fast::{GRANTS, Page};

    use super::*;
    use crate::fast::ClientGrants;
    use crate::namespaces::Namespaces;

    /// A client that asks for grants.
    fn asker() -> ClientGrants {
        let home = Namespaces::own().unwrap();
        ClientGrants::new(Page::create().unwrap().0, home)
    }

    fn lent(number: u32, grant: Arc<Grant>) -> Held {
        Held {
            owner: Owner(number),
            qp: QpId(number),
            mr: Some(MrId(number)),
            grant,
        }
    }

    /// Makes grants of this number of other clients, two each, and of client 0.
    fn crowd(others: u32) -> (AdapterGrants, Vec<ClientGrants>) {
        let mut grants = AdapterGrants::default();
        let mut askers: Vec<_> = (0..=others).map(|_| asker()).collect();
        for (number, asker) in (0..).zip(&mut askers) {
            for _ in 0..2 {
                let (grant, _) = asker.give().unwrap();
                grants.hold(lent(number, grant));
            }
        }
        (grants, askers)
    }

    fn holding(asker: &ClientGrants) -> usize {
        let given = asker.by_index.iter().flatten();
        given
            .filter(|grant| grant.holds.load(Ordering::Relaxed))
            .count()
    }

    #[test]
    fn what_happens_to_an_object_is_no_matter_of_others() {
        let forget: [fn(&mut AdapterGrants); 3] = [
            |grants| grants.forget_qp(QpId(0)),
            |grants| assert!(!grants.forget_mr(MrId(0))),
            |grants| grants.forget_owner(Owner(0)),
        ];
        for forget in forget {
            for others in [1, 100] {
                let (mut grants, askers) = crowd(others);
                let before = grants.looks;
                forget(&mut grants);
                assert_eq!(grants.looks - before, 2, "its own, beside {others}");
                assert_eq!(holding(&askers[0]), 0);
                assert!(askers[1..].iter().all(|asker| holding(asker) == 2));
                assert_eq!(grants.held.len() as u32, 2 * others);
                assert_eq!(grants.index.len() as u32, 6 * others);
            }
        }
    }

    #[test]
    fn a_region_waits_for_a_copy_also_when_its_queue_pair_has_changed() {
        let (mut grants, askers) = crowd(0);
        let page = &askers[0].page;
        let begun = page.enter(0, 1);
        assert!(begun);
        grants.forget_qp(QpId(0));
        assert!(grants.forget_mr(MrId(0)), "the copy is under way");
        page.exit(0);
        assert!(!grants.forget_mr(MrId(0)));
        assert!(grants.held.is_empty() && grants.index.is_empty());
    }

    /// The asker's queue pair, at another adapter, changes after each grant.
    #[test]
    fn what_another_adapter_takes_back_does_not_pile_up() {
        let mut grants = AdapterGrants::default();
        let mut asker = asker();
        for _ in 0..100 * GRANTS {
            let (grant, _) = asker.give().unwrap();
            grants.hold(lent(0, Arc::clone(&grant)));
            grant.take_back();
            assert!(grants.held.len() <= 4, "{}", grants.held.len());
        }
    }
}
