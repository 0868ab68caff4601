//! The addresses that the guest of a running VM may use.

use vrdma_api::Addresses;
use vrdma_inventory::kept;
use vrdma_switch::PortId;
use vrdma_threads::NotDone;

use super::Control;

impl Control {
    /// Has both halves of the switch keep a guest to these addresses. If one half does not answer, both get the
    /// previous addresses again once it does.
    pub(super) async fn keep_to(
        &self,
        port: PortId,
        ip: &Addresses,
        before: &Addresses,
    ) -> Result<(), NotDone> {
        let changed = self.keep_both_to(port, ip).await;
        if changed.is_err() {
            // Carried out after the change that was not answered. The reason is in the log already.
            let _ = self.keep_both_to(port, before).await;
        }
        changed
    }

    async fn keep_both_to(&self, port: PortId, ip: &Addresses) -> Result<(), NotDone> {
        let shard = self.shards.keep(port, kept(ip));
        let ethernet = self.ethernet.keep(port, kept(ip));
        let (shard, ethernet) = tokio::join!(shard, ethernet);
        shard.and(ethernet)
    }
}
