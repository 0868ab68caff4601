//! The objects of each owner, so that those of a context that ends are found without a look at any others.

use alloc::collections::BTreeMap;

use crate::list::{List, Member};
use crate::object::Owner;
use crate::table::Table;

/// Lists of the objects of one owner.
pub(crate) struct OfOwner;

/// The objects of one owner. Regions and windows are found through their protection domains.
#[derive(Default)]
pub(crate) struct Belongings {
    pub(crate) qps: List<OfOwner>,
    pub(crate) srqs: List<OfOwner>,
    pub(crate) cqs: List<OfOwner>,
    pub(crate) pds: List<OfOwner>,
}

impl Belongings {
    fn is_empty(&self) -> bool {
        self.qps.is_empty() && self.srqs.is_empty() && self.cqs.is_empty() && self.pds.is_empty()
    }
}

/// One of an owner's lists.
pub(crate) type Part = fn(&mut Belongings) -> &mut List<OfOwner>;

/// Everybody who owns objects.
#[derive(Default)]
pub(crate) struct Owners {
    known: BTreeMap<Owner, Belongings>,
}

impl Owners {
    pub(crate) fn all(&self) -> impl Iterator<Item = Owner> {
        self.known.keys().copied()
    }

    pub(crate) fn get(&self, owner: Owner) -> Option<&Belongings> {
        self.known.get(&owner)
    }

    /// Adds a fresh object of the table to its owner's list.
    pub(crate) fn add<T>(&mut self, owner: Owner, part: Part, table: &mut Table<T>, index: u32)
    where
        T: Member<OfOwner>,
    {
        part(self.known.entry(owner).or_default()).push(table, index);
    }

    /// Removes an object from its owner's list, before it goes.
    pub(crate) fn remove<T>(&mut self, owner: Owner, part: Part, table: &mut Table<T>, index: u32)
    where
        T: Member<OfOwner>,
    {
        let Some(belongings) = self.known.get_mut(&owner) else {
            debug_assert!(false, "{owner:?} has nothing");
            return;
        };
        part(belongings).remove(table, index);
        if belongings.is_empty() {
            self.known.remove(&owner);
        }
    }
}
