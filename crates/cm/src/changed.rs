//! The connections and questions that have changed, for the owner that writes them down.

use alloc::collections::BTreeSet;

use vrdma_wire::cm::CommId;

/// Names of what has changed. Nothing is remembered unless it is tracked: an owner that tracks takes the names after
/// each command.
#[derive(Default)]
pub(crate) struct Changed {
    is_tracked: bool,
    names: BTreeSet<CommId>,
}

impl Changed {
    pub(crate) fn track(&mut self) {
        self.is_tracked = true;
    }

    pub(crate) fn note(&mut self, id: CommId) {
        if self.is_tracked {
            self.names.insert(id);
        }
    }

    pub(crate) fn take(&mut self) -> BTreeSet<CommId> {
        core::mem::take(&mut self.names)
    }
}
