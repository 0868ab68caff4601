//! The queue pairs of an adapter: found by slot for their owners, and by number for packets and units. Queue pairs of
//! leaving owners are found by nobody.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use vrdma_wire::Qpn;

use crate::object::{Owner, QpId};
use crate::qp::Qp;
use crate::table::Table;

/// Front ends have 16 bits for slots.
pub(crate) const QP_SLOTS_MAX: u32 = (1 << 16) - 1;

/// Leaving owners, whose objects are unusable and are freed one by one. Bounded by the number of owners.
#[derive(Default)]
pub(crate) struct Leaving {
    owners: BTreeSet<Owner>,
}

impl Leaving {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Whether an owner is leaving. It is asked for every message: mostly none is leaving.
    #[inline]
    pub(crate) fn has(&self, owner: Owner) -> bool {
        !self.owners.is_empty() && self.knows(owner)
    }

    #[cold]
    #[inline(never)]
    fn knows(&self, owner: Owner) -> bool {
        self.owners.contains(&owner)
    }

    /// Returns the owner whose objects are freed next. Owners follow each other, so that each comes to its end.
    pub(crate) fn next_from(&self, owner: Owner) -> Option<Owner> {
        let behind = self.owners.range(owner..).next();
        behind.or(self.owners.first()).copied()
    }

    /// Adds an owner; false if it is leaving already.
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

    /// Returns the queue pair of a slot, whether its owner is leaving or not.
    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Qp<R>> {
        self.table.get(slot).map(|qp| &**qp)
    }

    /// Returns the queue pair of a slot mutably, whether its owner is leaving or not.
    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Qp<R>> {
        self.table.get_mut(slot).map(|qp| &mut **qp)
    }

    /// Whether a queue pair takes part in anything: those of a leaving owner do not.
    #[inline]
    pub(crate) fn is_live(&self, qp: &Qp<R>) -> bool {
        !self.leaving.has(qp.owner)
    }

    /// Returns the queue pair in a slot, if it takes part in anything.
    #[inline]
    pub(crate) fn live_mut(&mut self, slot: u32) -> Option<&mut Qp<R>> {
        let qp = self.table.get_mut(slot)?;
        (!self.leaving.has(qp.owner)).then_some(qp)
    }

    /// Returns the queue pair that a number on the wire names, if it takes part in anything.
    #[inline]
    pub(crate) fn named(&self, qpn: Qpn) -> Option<&Qp<R>> {
        let qp = self.get(self.slot_of(qpn)?)?;
        (qp.qpn == qpn && self.is_live(qp)).then_some(qp)
    }

    /// Returns the same, mutably.
    #[inline]
    pub(crate) fn named_mut(&mut self, qpn: Qpn) -> Option<&mut Qp<R>> {
        let slot = self.slot_of(qpn)?;
        let qp = self.table.get_mut(slot)?;
        (qp.qpn == qpn && !self.leaving.has(qp.owner)).then_some(qp)
    }

    /// Returns the slot that a number on the wire names.
    #[inline]
    fn slot_of(&self, qpn: Qpn) -> Option<u32> {
        if qpn == Qpn::GSI {
            return self.gsi.map(|gsi| gsi.0);
        }
        self.table.slot_named(qpn.get())
    }
}
