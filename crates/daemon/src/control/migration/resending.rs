//! Has QEMU resend what a frozen adapter has written, in steps that a shard answers in time.
//!
//! ```text
//!   log ──look──► steps ──► shard: QEMU is told of each page
//!    ▲                        │ not done
//!    └──────put back──────────┘
//! ```

use std::sync::Arc;

use vrdma_api::{Name, WrittenMemory};
use vrdma_memory::{DirtyRun, PAGE, Space};
use vrdma_shard::Resending;
use vrdma_shard::plane::MigrationStep;
use vrdma_switch::PortId;

use super::pages::{ADDRESSES_END, LOOK_BYTES};
use super::{apart, conflict};
use crate::control::Control;
use crate::control::answer::Problem;

/// Limit on pages reported to QEMU in one step: far less than a shard could do in the time that it has to answer.
const STEP_PAGES: u64 = 4096;

impl Control {
    /// Counts how much of the guest's memory the tracked adapter has written.
    pub(in crate::control) async fn written(&self, name: &Name) -> Result<WrittenMemory, Problem> {
        let port = self.inventory().port(name)?;
        let memory = self.tracked_memory(port).await?;
        let pages = apart(move || Ok(memory.dirty_log().pages())).await?;
        Ok(WrittenMemory {
            bytes: pages * PAGE,
        })
    }

    /// Has QEMU send what the frozen adapter has written.
    pub(in crate::control) async fn resend(&self, name: &Name) -> Result<WrittenMemory, Problem> {
        let port = self.inventory().port(name)?;
        // A frozen adapter that is not tracked has a log that belongs to its client; nothing is taken from it.
        let memory = self.tracked_memory(port).await?;
        let frozen = self.shards.migrate(port, MigrationStep::FrozenMemory);
        frozen.await.map_err(conflict)?;
        let mut bytes = 0;
        let mut next = Some(0);
        while let Some(from) = next {
            let log = Arc::clone(&memory);
            let found = apart(move || Ok(look(&log, from))).await?;
            next = found.next;
            bytes += self.resend_steps(port, &memory, &found.steps).await?;
        }
        if memory.dirty_log().pages() > 0 {
            return Err(Problem::conflict(format!(
                "adapter {name} was asked for what it has written by somebody else, too: begin the migration again"
            )));
        }
        tracing::info!("adapter {name}: QEMU sends the {bytes} bytes that it has written");
        Ok(WrittenMemory { bytes })
    }

    async fn tracked_memory(&self, port: PortId) -> Result<Arc<Space>, Problem> {
        let memory = self.shards.migrate(port, MigrationStep::TrackedMemory);
        memory.await.map_err(conflict)
    }

    /// Returns how many bytes were reported to QEMU. Pages that were not reported stay in the log.
    async fn resend_steps(
        &self,
        port: PortId,
        memory: &Space,
        steps: &[Vec<DirtyRun>],
    ) -> Result<u64, Problem> {
        for (at, step) in steps.iter().enumerate() {
            let told = self.shards.migrate(port, |reply| {
                let runs = step.clone();
                MigrationStep::Resend(Resending { runs, reply })
            });
            if let Err(not_done) = told.await {
                for step in &steps[at..] {
                    memory.dirty_log().put_back(step);
                }
                return Err(conflict(not_done));
            }
        }
        let runs = steps.iter().flatten();
        Ok(runs.map(|run| run.pages * PAGE).sum())
    }
}

/// Part of the log from a guest address on, and where to continue.
struct Look {
    /// Runs in pieces that a shard takes at a time.
    steps: Vec<Vec<DirtyRun>>,
    /// `None` at the end.
    next: Option<u64>,
}

/// Takes the next [`LOOK_BYTES`] that hold any written pages from the log.
fn look(memory: &Space, from: u64) -> Look {
    let starts = (from..ADDRESSES_END).step_by(LOOK_BYTES as usize);
    let mut looks = starts.map(|start| {
        let end = start + LOOK_BYTES;
        (end, memory.dirty_log().take(start..end))
    });
    let found = looks.find(|(_, runs)| !runs.is_empty());
    Look {
        next: found.as_ref().map(|(end, _)| *end),
        steps: found.map_or_else(Vec::new, |(_, runs)| steps(&runs)),
    }
}

/// Splits the runs into pieces of up to [`STEP_PAGES`].
fn steps(runs: &[DirtyRun]) -> Vec<Vec<DirtyRun>> {
    let mut steps = Vec::new();
    let mut step = Vec::new();
    let mut room = STEP_PAGES;
    for run in runs {
        let (mut iova, mut left) = (run.iova, run.pages);
        while left > 0 {
            let pages = left.min(room);
            step.push(DirtyRun { iova, pages });
            (iova, left, room) = (iova + pages * PAGE, left - pages, room - pages);
            if room == 0 {
                steps.push(std::mem::take(&mut step));
                room = STEP_PAGES;
            }
        }
    }
    if !step.is_empty() {
        steps.push(step);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_all_pages_in_their_order_and_no_more_than_fit() {
        let run = |page: u64, pages| DirtyRun {
            iova: page * PAGE,
            pages,
        };
        let runs = [run(1, 2), run(10, 2 * STEP_PAGES), run(90_000, 1)];
        let steps = steps(&runs);
        let pages = |step: &Vec<DirtyRun>| step.iter().map(|run| run.pages).sum::<u64>();
        assert_eq!(
            steps.iter().map(pages).collect::<Vec<_>>(),
            [STEP_PAGES, STEP_PAGES, 3]
        );
        let each = |run: &DirtyRun| {
            let iova = run.iova;
            (0..run.pages).map(move |page| iova + page * PAGE)
        };
        let told: Vec<u64> = steps.iter().flatten().flat_map(each).collect();
        let wanted: Vec<u64> = runs.iter().flat_map(each).collect();
        assert_eq!(told, wanted);
    }
}
