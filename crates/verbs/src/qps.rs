//! The queue pairs of an adapter: by slot for their owners, by number for packets and units, and those
//! of owners that are leaving for nobody.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use vrdma_wire::Qpn;

use crate::object::{Owner, QpId};
use crate::qp::Qp;
use crate::table::Table;

/// Front ends have 16 bits for slots.
pub(crate) const QP_SLOTS_MAX: u32 = (1 << 16) - 1;

/// Owners whose objects are unusable and go one by one. As many as there are owners.
#[derive(Default)]
pub(crate) struct Leaving {
    owners: BTreeSet<Owner>,
}

impl Leaving {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// On the way of every message: mostly nobody leaves.
    #[inline]
    pub(crate) fn has(&self, owner: Owner) -> bool {
        !self.owners.is_empty() && self.knows(owner)
    }

    #[cold]
    #[inline(never)]
    fn knows(&self, owner: Owner) -> bool {
        self.owners.contains(&owner)
    }

    /// The owner whose objects go now: one after the other, so that everybody's end comes.
    pub(crate) fn next_from(&self, owner: Owner) -> Option<Owner> {
        let behind = self.owners.range(owner..).next();
        behind.or(self.owners.first()).copied()
    }

    /// False if it is leaving already.
    pub(crate) fn add(&mut self, owner: Owner) -> bool {
        self.owners.insert(owner)
    }

    pub(crate) fn remove(&mut self, owner: Owner) {
        self.owners.remove(&owner);
    }
}

pub(crate) struct Qps<R> {
    pub(crate) table: Table<Box<Qp<R>>>,
    pub(crate) gsi: Option<QpId>,
    pub(crate) leaving: Leaving,
}

impl<R> Qps<R> {
    pub(crate) fn new(table: Table<Box<Qp<R>>>) -> Self {
        Self {
            table,
            gsi: None,
            leaving: Leaving::default(),
        }
    }

    /// As its owner knows it, leaving or not.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Qp<R>> {
        self.table.get(slot).map(|qp| &**qp)
    }

    /// As its owner knows it, leaving or not.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Qp<R>> {
        self.table.get_mut(slot).map(|qp| &mut **qp)
    }

    /// Whether a queue pair takes part in anything: those of an owner that leaves do not.
    #[inline]
    pub(crate) fn is_live(&self, qp: &Qp<R>) -> bool {
        !self.leaving.has(qp.owner)
    }

    /// The queue pair in a slot, if it takes part in anything.
    #[inline]
    pub(crate) fn live_mut(&mut self, slot: u32) -> Option<&mut Qp<R>> {
        let qp = self.table.get_mut(slot)?;
        (!self.leaving.has(qp.owner)).then_some(qp)
    }

    /// The queue pair that a number on the wire names, if it takes part in anything.
    #[inline]
    pub(crate) fn named(&self, qpn: Qpn) -> Option<&Qp<R>> {
        let qp = self.get(self.slot_of(qpn)?)?;
        (qp.qpn == qpn && self.is_live(qp)).then_some(qp)
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn named_mut(&mut self, qpn: Qpn) -> Option<&mut Qp<R>> {
        let slot = self.slot_of(qpn)?;
        let qp = self.table.get_mut(slot)?;
        (qp.qpn == qpn && !self.leaving.has(qp.owner)).then_some(qp)
    }

    /// The slot that a number on the wire names.
    #[inline]
    fn slot_of(&self, qpn: Qpn) -> Option<u32> {
        if qpn == Qpn::GSI {
            return self.gsi.map(|gsi| gsi.0);
        }
        self.table.slot_named(qpn.get())
    }
}
