//! The end of a start: of a daemon, or of a worker that follows another one.

use vrdma_threads::NotDone;

use super::Shards;
use crate::plane::ShardCommand;

impl Shards {
    /// Tells the shards that all adapters of the start are there: what needs them goes on, and clients are accepted.
    ///
    /// # Errors
    /// A sentence.
    pub async fn go_on(&self) -> Result<(), NotDone> {
        let begun = self
            .lines
            .iter()
            .map(|line| line.begin_last(ShardCommand::GoOn));
        for asked in begun.collect::<Result<Vec<_>, _>>()? {
            asked.answer().await?;
        }
        Ok(())
    }
}
