//! Adapters that their VMs' clients took elsewhere or brought here, from the shards that serve them to the control plane.
//!
//! One place for each port: where a VM goes to and fro faster than anybody looks, the last time counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use vrdma_api::Name;
use vrdma_switch::PortId;

/// An adapter that is somewhere else than before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relocated {
    /// Whose port it is, which may be another's when this is read.
    pub name: Name,
    /// Its VM goes on elsewhere, or here.
    pub away: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Moves {
    untold: Mutex<BTreeMap<PortId, Relocated>>,
    told: Notify,
}

impl Moves {
    /// The switch of messages knows it already.
    pub fn tell(&self, port: PortId, relocated: Relocated) {
        self.untold().insert(port, relocated);
        self.told.notify_one();
    }

    /// The next that nobody has heard of. One reader.
    pub async fn next(&self) -> (PortId, Relocated) {
        loop {
            if let Some(next) = self.take() {
                return next;
            }
            self.told.notified().await;
        }
    }

    fn take(&self) -> Option<(PortId, Relocated)> {
        self.untold().pop_first()
    }

    // What a thread that panicked left is a map that was changed or was not.
    fn untold(&self) -> MutexGuard<'_, BTreeMap<PortId, Relocated>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relocated(name: &str, away: bool) -> Relocated {
        let name = name.parse().unwrap();
        Relocated { name, away }
    }

    #[tokio::test]
    async fn the_last_move_of_each_adapter_is_told() {
        let moves = Moves::default();
        moves.tell(PortId(2), relocated("two", true));
        moves.tell(PortId(1), relocated("one", true));
        moves.tell(PortId(1), relocated("one", false));
        assert_eq!(moves.next().await, (PortId(1), relocated("one", false)));
        assert_eq!(moves.next().await, (PortId(2), relocated("two", true)));
        assert_eq!(moves.take(), None);
    }
}
