//! What uplinks dropped for a port group, summed over all shards: the first shard takes what arrives, and each drops
//! what it cannot send.

use std::collections::BTreeMap;

use vrdma_switch::GroupId;
use vrdma_threads::NotDone;

use super::Shards;
use crate::plane::ShardCommand;

impl Shards {
    /// Returns the drops by reason, without those that an adapter of the group counts.
    ///
    /// # Errors
    /// A shard is silent.
    pub async fn group_drops(&self, group: GroupId) -> Result<BTreeMap<String, u64>, NotDone> {
        let asked = self.ask_all(|reply| ShardCommand::GroupDrops(group, reply));
        let mut sum = BTreeMap::new();
        for counts in asked.await {
            for (reason, count) in counts?.by_reason() {
                *sum.entry(reason).or_default() += count;
            }
        }
        Ok(sum)
    }
}
