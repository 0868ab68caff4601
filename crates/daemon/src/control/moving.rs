//! The adapters that are moving to another shard. A second request to move one is refused, and does not wait for the
//! first.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vrdma_api::Name;

use super::answer::Problem;

/// Names of adapters that are moving: at most as many as requests that the API serves at a time.
#[derive(Debug, Default)]
pub(super) struct Moving(Mutex<BTreeSet<Name>>);

/// One move, which ends when this is dropped.
pub(super) struct Move<'a> {
    moving: &'a Moving,
    name: Name,
}

impl Moving {
    /// Marks an adapter as moving.
    pub(super) fn begin(&self, name: &Name) -> Result<Move<'_>, Problem> {
        match self.names().insert(name.clone()) {
            true => Ok(Move {
                moving: self,
                name: name.clone(),
            }),
            false => Err(Problem::conflict(format!(
                "the adapter {name} is being moved already; wait until that is done"
            ))),
        }
    }

    fn names(&self) -> MutexGuard<'_, BTreeSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        self.moving.names().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_is_moved_by_one_request_at_a_time() {
        let moving = Moving::default();
        let [a, b] = ["a", "b"].map(|name| name.parse::<Name>().unwrap());
        let first = moving.begin(&a).unwrap();
        assert!(moving.begin(&a).is_err(), "the first goes on");
        assert!(moving.begin(&b).is_ok(), "another adapter");
        drop(first);
        assert!(moving.begin(&a).is_ok(), "it is over");
    }
}
