//! Who has which objects: what goes when a context ends, found without a look at anybody else's.

use alloc::collections::BTreeMap;

use crate::list::{List, Member};
use crate::object::Owner;
use crate::table::Table;

/// Lists of what one owner has.
pub(crate) struct OfOwner;

/// What one owner has. Regions and windows are found through their protection domains.
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

/// Everybody who has something.
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

    /// A fresh object of the table is the owner's.
    pub(crate) fn add<T>(&mut self, owner: Owner, part: Part, table: &mut Table<T>, index: u32)
    where
        T: Member<OfOwner>,
    {
        part(self.known.entry(owner).or_default()).push(table, index);
    }

    /// Before an object goes.
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
