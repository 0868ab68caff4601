//! Steps of an adapter whose VM goes to another host, or comes from there.

use vrdma_adapter::ShardId;
use vrdma_switch::PortId;
use vrdma_threads::{NotDone, Reply};

use super::{Shards, flat};
use crate::plane::{MigrationStep, ShardCommand};

impl Shards {
    /// Has the adapter's shard take a step.
    ///
    /// # Errors
    /// A sentence; nothing has changed.
    pub async fn migrate<T>(
        &self,
        port: PortId,
        step: impl FnOnce(Reply<Result<T, String>>) -> MigrationStep,
    ) -> Result<T, NotDone> {
        let Some(shard) = self.shard_of(port) else {
            let sentence = "it is a TAP: no shard serves it";
            return Err(NotDone::Refused(sentence.to_owned()));
        };
        let command = |reply| ShardCommand::Migration(port, step(reply));
        flat(self.line(shard)?.ask(command).await)
    }

    /// Notes that the adapter goes away, or is here, which decides who owns its addresses.
    ///
    /// # Errors
    /// A sentence.
    pub async fn set_away(&self, port: PortId, is_away: bool) -> Result<(), NotDone> {
        let shard = self.shard_of(port).unwrap_or(ShardId::FIRST);
        let step = |reply| ShardCommand::Migration(port, MigrationStep::SetAway(is_away, reply));
        self.line(shard)?.begin_last(step)?.answer().await
    }
}
