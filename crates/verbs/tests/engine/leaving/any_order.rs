//! Any order of making, leaving and freeing: an adapter beside a list of all owners' objects.

use std::collections::BTreeMap;

use proptest::prelude::*;
use vrdma_verbs::object::{CqId, Identity, Owner, PdId, QpSpec, QpType, WindowKind};
use vrdma_verbs::work::RecvWr;
use vrdma_verbs::{Error, Hca, Reaped};
use vrdma_wire::{Gid, Mac};

use super::region;
use crate::pair::Region;
use crate::pair::node::limits;

/// An action of one of three owners.
#[derive(Clone, Copy, Debug)]
enum Step {
    Make(u32, u8),
    Retire(u32),
    Reap(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..3u32, 0..7u8).prop_map(|(owner, what)| Step::Make(owner, what)),
        1 => (0..3u32).prop_map(Step::Retire),
        3 => (1..6u32).prop_map(Step::Reap),
    ]
}

/// An adapter beside a list of all owners' objects.
struct Beside {
    hca: Hca<Region>,
    owned: BTreeMap<Reaped, Owner>,
}

impl Beside {
    fn new() -> Self {
        let identity = Identity {
            mac: Mac([2, 0, 0, 0, 0, 1]),
            seed: 1,
        };
        Self {
            hca: Hca::new(identity, limits()),
            owned: BTreeMap::new(),
        }
    }

    fn some<T>(&self, owner: Owner, pick: impl Fn(&Reaped) -> Option<T>) -> Option<T> {
        let own = self.owned.iter().filter(|(_, whose)| **whose == owner);
        own.filter_map(|(object, _)| pick(object)).last()
    }

    fn make(&mut self, owner: Owner, what: u8) {
        let pd: Option<PdId> = self.some(owner, |object| match object {
            Reaped::Pd(id) => Some(*id),
            _ => None,
        });
        let cq: Option<CqId> = self.some(owner, |object| match object {
            Reaped::Cq(id) => Some(*id),
            _ => None,
        });
        let hca = &mut self.hca;
        let made = match (what, pd, cq) {
            (0, ..) => hca.create_pd(owner).map(Reaped::Pd),
            (1, ..) => hca.create_cq(owner).map(Reaped::Cq),
            (2, Some(pd), _) => hca.create_srq(pd, 0).map(Reaped::Srq),
            (3, Some(pd), _) => hca.register(pd, region()).map(|keys| Reaped::Mr(keys.id)),
            (4, Some(pd), _) => hca
                .alloc_mw(pd, WindowKind::Two)
                .map(|keys| Reaped::Mw(keys.id)),
            (5 | 6, Some(pd), Some(cq)) => hca
                .create_qp(QpSpec::new(QpType::Ud, pd, cq, cq))
                .map(Reaped::Qp),
            _ => return,
        };
        match made {
            Ok(object) => {
                assert!(!self.hca.is_leaving(owner));
                assert_eq!(
                    self.owned.insert(object, owner),
                    None,
                    "{object:?} is taken"
                );
                self.load(object);
            }
            Err(Error::Leaving) => assert!(self.hca.is_leaving(owner)),
            Err(error) => assert_eq!(error, Error::Exhausted),
        }
    }

    /// Attaches work to an object.
    fn load(&mut self, object: Reaped) {
        match object {
            Reaped::Qp(qp) if qp.0 % 2 == 0 => {
                let group = Gid([0xff; 16]);
                self.hca.attach_mcast(qp, group).unwrap();
            }
            Reaped::Srq(srq) => {
                let wr = RecvWr {
                    id: 1,
                    sges: Ok(Default::default()),
                };
                self.hca.post_srq_recv(srq, wr).unwrap();
            }
            _ => {}
        }
    }

    fn reap(&mut self, budget: u32) {
        let (owned, mut freed) = (&mut self.owned, 0);
        let mut gone = Vec::new();
        let more = self.hca.reap(budget, |object| {
            freed += 1;
            match object {
                Reaped::Owner(owner) => {
                    assert!(!owned.values().any(|other| *other == owner));
                    gone.push(owner);
                }
                object => assert!(owned.remove(&object).is_some(), "{object:?} is nobody's"),
            }
        });
        assert!(freed <= budget);
        assert_eq!(more, self.hca.is_reaping());
        assert!(gone.iter().all(|owner| !self.hca.is_leaving(*owner)));
    }

    fn check(&self) {
        let counts = self.hca.counts();
        let all = counts.pds + counts.mrs + counts.mws + counts.cqs + counts.qps + counts.srqs;
        assert_eq!(all as usize, self.owned.len());
    }
}

proptest! {
    #[test]
    fn everything_of_an_owner_is_freed_and_told_once(steps in prop::collection::vec(step(), 0..150)) {
        let mut beside = Beside::new();
        for step in steps {
            match step {
                Step::Make(owner, what) => beside.make(Owner(owner), what),
                Step::Retire(owner) => beside.hca.retire_owner(Owner(owner)),
                Step::Reap(budget) => beside.reap(budget),
            }
            beside.check();
        }
        for owner in 0..3 {
            beside.hca.retire_owner(Owner(owner));
        }
        while beside.hca.is_reaping() {
            beside.reap(2);
        }
        beside.check();
        prop_assert!(beside.owned.is_empty());
    }
}
