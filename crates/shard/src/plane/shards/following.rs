//! A worker that follows another one.

use vrdma_threads::NotDone;

use super::Shards;
use crate::plane::ShardCommand;

impl Shards {
    /// All adapters of the worker before are there: what needs them goes on.
    ///
    /// # Errors
    /// A sentence.
    pub async fn go_on(&self) -> Result<(), NotDone> {
        self.first().begin_last(ShardCommand::GoOn)?.answer().await
    }
}
