//! Contexts: the guest's kernel and the programs that opened the device, each with one doorbell page.
//!
//! ```text
//!   page      0        1        2    …      a context's handle = page + pages * generation,
//!             kernel   context  -           so that handles of dead contexts stay dead
//! ```

use std::collections::VecDeque;

use vrdma_verbs::object::{CqId, Owner, QpId};

use crate::arming::Touches;

/// A cursor that walks a list round and round; each restart asks for one more full round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    cursor: usize,
    left: usize,
}

impl Scan {
    /// Schedules one more visit to all `length` entries.
    pub(crate) fn restart(&mut self, length: usize) {
        self.left = length;
    }

    /// The next entry of a list of `length`.
    pub(crate) fn next(&mut self, length: usize) -> Option<usize> {
        self.left = self.left.min(length).checked_sub(1)?;
        let at = self.cursor % length;
        self.cursor = at + 1;
        Some(at)
    }
}

/// One context.
#[derive(Debug)]
pub(crate) struct Context {
    /// Handle of the context.
    pub(crate) owner: Owner,
    pub(crate) qps: Vec<QpId>,
    /// Queue pairs whose doorbells may have been overwritten.
    pub(crate) qp_scan: Scan,
    /// Number of completion queues.
    pub(crate) cqs: u32,
    /// Number of words of the completion doorbell that were seen.
    pub(crate) touches: Touches,
    /// Completion queues that the next word may name.
    pub(crate) unheard: Vec<CqId>,
    /// Completion queues that a word was seen for, still to be shown to the arming rules.
    pub(crate) heard: VecDeque<CqId>,
}

impl Context {
    fn new(owner: Owner) -> Self {
        Self {
            owner,
            qps: Vec::new(),
            qp_scan: Scan::default(),
            cqs: 0,
            touches: Touches::default(),
            unheard: Vec::new(),
            heard: VecDeque::new(),
        }
    }
}

/// Reasons why a context was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PageTaken {
    /// Page 0 and pages beyond the BAR have no context.
    NoSuchPage,
    /// Another context has the page.
    Owned,
}

/// All contexts, by page.
pub(crate) struct Contexts {
    pages: Vec<Option<Context>>,
    /// Pages of programs, in any order.
    live: Vec<u32>,
    generation: u32,
}

impl Contexts {
    /// The table of `pages` (a power of two) with the kernel's context alone.
    pub(crate) fn new(pages: u32) -> Self {
        let mut contexts = Self {
            pages: Vec::new(),
            live: Vec::new(),
            generation: 0,
        };
        contexts.pages.resize_with(pages as usize, || None);
        contexts.pages[0] = Some(Context::new(Owner::KERNEL));
        contexts
    }

    fn count(&self) -> u32 {
        self.pages.len() as u32
    }

    /// Doorbell page of a context.
    pub(crate) fn page_of(&self, owner: Owner) -> u32 {
        owner.0 & (self.count() - 1)
    }

    /// Pages of the programs that have the device open.
    pub(crate) fn live(&self) -> &[u32] {
        &self.live
    }

    pub(crate) fn at_page(&mut self, page: u32) -> Option<&mut Context> {
        self.pages.get_mut(page as usize)?.as_mut()
    }

    pub(crate) fn get_mut(&mut self, owner: Owner) -> Option<&mut Context> {
        let page = self.page_of(owner);
        self.at_page(page).filter(|context| context.owner == owner)
    }

    pub(crate) fn contains(&mut self, owner: Owner) -> bool {
        self.get_mut(owner).is_some()
    }

    /// Makes the context of `page`.
    pub(crate) fn create(&mut self, page: u32) -> Result<Owner, PageTaken> {
        let owner = self.next_owner(page);
        let entry = self.pages.get_mut(page as usize).filter(|_| page != 0);
        let entry = entry.ok_or(PageTaken::NoSuchPage)?;
        if entry.is_some() {
            return Err(PageTaken::Owned);
        }
        *entry = Some(Context::new(owner));
        self.live.push(page);
        Ok(owner)
    }

    fn next_owner(&mut self, page: u32) -> Owner {
        self.generation = (self.generation + 1) % (u32::MAX / self.count());
        Owner(page + self.generation * self.count())
    }

    /// Takes over a context that a previous process made; an impossible one is left out.
    pub(crate) fn adopt(&mut self, page: u32, owner: Owner) {
        let is_its_page = page != 0 && self.page_of(owner) == page && owner.0 != page;
        if is_its_page && self.pages[page as usize].is_none() {
            self.pages[page as usize] = Some(Context::new(owner));
            self.live.push(page);
            self.generation = self.generation.max(owner.0 / self.count());
        }
    }

    /// Counts a word in each page: any queue may have been armed by words that nobody remembers.
    pub(crate) fn touch_all(&mut self) {
        let contexts = self.pages.iter_mut().flatten();
        contexts.for_each(|context| context.touches.touch());
    }

    /// Forgets a program's context; false if there is none.
    pub(crate) fn destroy(&mut self, owner: Owner) -> bool {
        let live = owner != Owner::KERNEL && self.contains(owner);
        if live {
            let page = self.page_of(owner);
            self.pages[page as usize] = None;
            self.live.retain(|other| *other != page);
        }
        live
    }

    /// Number of program contexts that have queues to ring for.
    pub(crate) fn in_use(&self) -> u32 {
        let pages = self
            .live
            .iter()
            .filter_map(|page| self.pages.get(*page as usize));
        let used = |context: &&Context| !context.qps.is_empty() || context.cqs > 0;
        pages.flatten().filter(used).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_one_owner_and_handles_do_not_return() {
        let mut contexts = Contexts::new(4);
        assert_eq!(contexts.create(0), Err(PageTaken::NoSuchPage));
        assert_eq!(contexts.create(4), Err(PageTaken::NoSuchPage));
        let first = contexts.create(3).unwrap();
        assert_eq!(contexts.create(3), Err(PageTaken::Owned));
        assert!(contexts.destroy(first));
        assert!(!contexts.destroy(first));
        let second = contexts.create(3).unwrap();
        assert_ne!(first, second);
        assert!(contexts.contains(second) && !contexts.contains(first));
        assert_eq!(contexts.live(), [3]);
    }

    #[test]
    fn the_kernel_cannot_be_destroyed() {
        let mut contexts = Contexts::new(4);
        assert!(!contexts.destroy(Owner::KERNEL));
        assert!(contexts.contains(Owner::KERNEL));
    }

    #[test]
    fn a_scan_visits_everything_once_after_the_last_touch() {
        let mut scan = Scan::default();
        scan.restart(3);
        assert_eq!(scan.next(3), Some(0));
        scan.restart(3);
        let visited: Vec<_> = std::iter::from_fn(|| scan.next(3)).collect();
        assert_eq!(visited, [1, 2, 0]);
        scan.restart(3);
        assert_eq!(scan.next(1), Some(0));
        assert_eq!(scan.next(1), None);
        scan.restart(0);
        assert_eq!(scan.next(0), None);
    }
}
