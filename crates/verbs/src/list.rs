//! Lists through the objects of a table: the queue pairs of an owner or of a completion queue, the
//! regions of a domain, the windows of a queue pair.
//!
//! ```text
//!   List { first: 5, last: 9, len: 3 }     5 ◄──► 2 ◄──► 9     oldest member first
//!                                          each object holds a Link for every list it may be in
//! ```
//!
//! Joining and leaving touch an object and its two neighbours, and nothing else of the table. The head of a list is
//! kept by the object that the members belong to; it does not know the table.

use core::marker::PhantomData;

use crate::table::Table;

/// Stands for no neighbour. No table has so many slots.
const NOBODY: u32 = u32::MAX;

/// An object's neighbours in one list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    before: u32,
    after: u32,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            before: NOBODY,
            after: NOBODY,
        }
    }
}

/// An object that lists of a kind may hold.
pub(crate) trait Member<K> {
    /// Returns its place in the list; `None` if it cannot be in one now.
    fn link(&self) -> Option<&Link>;

    /// Returns the same, mutably.
    fn link_mut(&mut self) -> Option<&mut Link>;
}

/// A list of objects of one table. `K` selects which of their links it uses.
pub(crate) struct List<K> {
    first: u32,
    last: u32,
    len: u32,
    kind: PhantomData<K>,
}

impl<K> Default for List<K> {
    fn default() -> Self {
        Self {
            first: NOBODY,
            last: NOBODY,
            len: 0,
            kind: PhantomData,
        }
    }
}

impl<K> List<K> {
    /// Returns the number of members.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the oldest member.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NOBODY).then_some(self.first)
    }

    /// Returns the member behind another one.
    pub(crate) fn after<T: Member<K>>(member: &T) -> Option<u32> {
        let after = member.link()?.after;
        (after != NOBODY).then_some(after)
    }

    /// Returns all members, oldest first.
    pub(crate) fn iter<'t, T: Member<K>>(
        &self,
        table: &'t Table<T>,
    ) -> impl Iterator<Item = (u32, &'t T)> {
        let member = |index: u32| Some((index, table.get(index)?));
        let first = self.first().and_then(member);
        core::iter::successors(first, move |(_, last)| member(Self::after(*last)?))
    }

    /// Appends an object that is in no list of this kind.
    pub(crate) fn push<T: Member<K>>(&mut self, table: &mut Table<T>, index: u32) {
        debug_assert_eq!(Self::link(table, index), Some(Link::default()));
        let before = self.last;
        Self::change(table, index, |own| own.before = before);
        match before {
            NOBODY => self.first = index,
            last => Self::change(table, last, |last| last.after = index),
        }
        self.last = index;
        self.len += 1;
    }

    /// Removes a member.
    pub(crate) fn remove<T: Member<K>>(&mut self, table: &mut Table<T>, index: u32) {
        let Some(Link { before, after }) = Self::link(table, index) else {
            debug_assert!(false, "{index} is in no list");
            return;
        };
        debug_assert_eq!(before == NOBODY, self.first == index, "of another list");
        debug_assert_eq!(after == NOBODY, self.last == index, "of another list");
        match before {
            NOBODY => self.first = after,
            before => Self::change(table, before, |before| before.after = after),
        }
        match after {
            NOBODY => self.last = before,
            after => Self::change(table, after, |after| after.before = before),
        }
        Self::change(table, index, |own| *own = Link::default());
        self.len -= 1;
    }

    fn link<T: Member<K>>(table: &Table<T>, index: u32) -> Option<Link> {
        table.get(index)?.link().copied()
    }

    fn change<T: Member<K>>(table: &mut Table<T>, index: u32, change: impl FnOnce(&mut Link)) {
        let link = table.get_mut(index).and_then(|member| member.link_mut());
        debug_assert!(link.is_some(), "{index} is gone, or cannot be a member");
        if let Some(link) = link {
            change(link);
        }
    }
}

#[cfg(test)]
mod tests;
