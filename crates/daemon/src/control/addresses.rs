//! What the guest of a running VM is kept to.

use vrdma_api::Addresses;
use vrdma_switch::PortId;

use super::Control;
use crate::plane::{NotDone, gids};

impl Control {
    /// Has both halves of the switch keep a guest to these addresses. If one of them is silent, both have those
    /// of before again once it goes on.
    pub(super) async fn keep_to(
        &self,
        port: PortId,
        ip: &Addresses,
        before: &Addresses,
    ) -> Result<(), NotDone> {
        let kept = self.pin(port, ip).await;
        if kept.is_err() {
            // Carried out after what was not answered; why it was not is told already.
            let _ = self.pin(port, before).await;
        }
        kept
    }

    async fn pin(&self, port: PortId, ip: &Addresses) -> Result<(), NotDone> {
        let shard = self.shards.pin(port, gids(ip).collect());
        let ethernet = self.ethernet.pin(port, gids(ip).collect());
        let (shard, ethernet) = tokio::join!(shard, ethernet);
        shard.and(ethernet)
    }
}
