//! Follows adapters that their VMs' clients moved elsewhere or brought here without the control plane.
//!
//! The shard has told the switch of messages. What is left to tell: Ethernet, what queries report of the adapter, and
//! the next daemon.

use std::sync::Arc;

use vrdma_switch::PortId;
use vrdma_threads::Relocated;

use super::Control;
use super::answer::Problem;

impl Control {
    /// Follows moves for as long as the daemon runs.
    pub async fn follow_moves(self: Arc<Self>) {
        let moves = Arc::clone(&self.shards.known().moves);
        loop {
            let (port, relocated) = moves.next().await;
            if let Err(problem) = self.follow_move(port, &relocated).await {
                tracing::warn!(
                    "adapter {} migrated, and not all is as it should be: {}",
                    relocated.name,
                    problem.sentence()
                );
            }
        }
    }

    async fn follow_move(&self, port: PortId, relocated: &Relocated) -> Result<(), Problem> {
        let _change = self.changes.lock().await;
        let Relocated { name, away } = relocated;
        // The adapter may have been removed since, and another one may have its port.
        let known = self.inventory().port(name).ok();
        if known != Some(port) || self.inventory().adapter(name)?.away == *away {
            return Ok(());
        }
        self.note_away(name, *away);
        match away {
            true => tracing::info!(
                "adapter {name}: its VM has left with its state, and goes on elsewhere"
            ),
            false => {
                tracing::info!("adapter {name}: its VM goes on here, where another host's left off")
            }
        }
        self.ethernet.set_away(port, *away).await?;
        self.note_location(name, *away)
    }
}
