//! Adapters that their VMs' clients moved elsewhere or brought here: reports of the shards to the control plane.
//!
//! There is one place for each port: if a VM moves back and forth faster than reports are read, the last move counts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use vrdma_api::Name;
use vrdma_switch::PortId;

/// An adapter whose VM has moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relocated {
    /// The adapter that had the port; another adapter may have it when this is read.
    pub name: Name,
    /// Whether its VM goes on elsewhere; otherwise here.
    pub away: bool,
}

/// Moves that were not read yet; see the module.
#[derive(Debug, Default)]
pub struct Moves {
    untold: Mutex<BTreeMap<PortId, Relocated>>,
    told: Notify,
}

impl Moves {
    /// Reports a move, which the switch of messages knows already.
    pub fn tell(&self, port: PortId, relocated: Relocated) {
        self.untold().insert(port, relocated);
        self.told.notify_one();
    }

    /// Waits for the next unread move. There is one reader.
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

    // Sound after a panic: each change to the map is done or not.
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
