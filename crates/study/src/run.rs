//! Measures cells turn by turn: A B A B, so that what disturbs the machine for a while disturbs all rivals.
//!
//! ```text
//!   for each measure:  warm up every cell
//!                      for each repetition that the budget allows:
//!                         for each cell that lacks it: idle check, run, parse, keep
//!                      computed cells
//!   end: everything in one file
//! ```
//!
//! A cell that fails is kept with its reason. One that failed twice without ever succeeding is left.

mod budget;
mod progress;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::cell::{Cell, Setting, Work};
use crate::derive::derived;
use crate::hardware::Hardware;
use crate::machine;
use crate::record::{CellRecord, Folder, Header, Repetition, Results};
use crate::room::{self, Room};
use crate::tables;
use crate::tool::{Commands, Tool};
use budget::Budget;
use progress::Progress;

/// Failures after which a cell that never succeeded is left.
const PATIENCE: usize = 2;

/// Longest reason that is kept; logs come at its end.
const REASON_MAX: usize = 4000;

/// Runs one turn.
pub trait Bench {
    /// The client's output, which must be there within `limit`.
    ///
    /// # Errors
    /// Why there is none.
    fn measure(
        &mut self,
        setting: Setting,
        tool: &Tool,
        commands: &Commands,
        limit: Duration,
    ) -> Result<String>;

    /// Ends what no setting of `still` needs.
    fn release(&mut self, still: &[Setting]);
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With every cell.
    Complete,
    /// Somebody asked for it.
    Interrupted,
    /// With the time that was given.
    OutOfTime,
}

/// A run at work.
pub struct Runner<'a> {
    /// Where it is kept.
    pub folder: &'a Folder,
    /// What holds for all cells.
    pub header: &'a Header,
    /// Of this machine.
    pub hardware: Hardware,
    /// For guests and ranks.
    pub room: Room,
    /// Set to end after the present turn.
    pub stop: &'a AtomicBool,
    /// After which no turn begins.
    pub time: Option<Duration>,
}

impl Runner<'_> {
    /// Measures what is missing of `cells`, and gathers everything.
    ///
    /// # Errors
    /// When the folder cannot be written; a cell's failure is none.
    pub fn run(&self, cells: &[Cell], bench: &mut dyn Bench) -> Result<(Results, End)> {
        let mut records = Vec::new();
        for cell in cells {
            records.push(self.begun(cell)?);
        }
        let progress = Progress::new(cells, |index| self.missing(&records[index]));
        let mut budget = Budget::new(self.time, progress.left(0..cells.len()));
        let mut end = End::Complete;
        for group in groups(cells) {
            budget.begin(progress.left(group.clone()));
            end = self.group(cells, &group, &mut records, bench, &progress, &budget)?;
            if end != End::Complete {
                break;
            }
            let still: Vec<Setting> = cells[group.end..].iter().filter_map(setting).collect();
            bench.release(&still);
        }
        progress.finish();
        if end == End::OutOfTime {
            self.tell_unreached(&mut records)?;
        }
        Ok((self.folder.gather(&tables::order())?, end))
    }

    /// A reader of the report must not think that they failed.
    fn tell_unreached(&self, records: &mut [CellRecord]) -> Result<()> {
        let minutes = self.time.unwrap_or_default().as_secs() / 60;
        for record in records {
            if record.setting.is_some() && record.repetitions.is_empty() {
                record.reason = Some(format!(
                    "not reached in the {minutes} minutes given; the same command goes on"
                ));
                self.folder.keep(record)?;
            }
        }
        Ok(())
    }

    /// The cell's record, new or from the folder. Failures of another day are forgotten.
    fn begun(&self, cell: &Cell) -> Result<CellRecord> {
        let fresh = || CellRecord::new(cell.key.clone(), cell.unit);
        let found = self
            .folder
            .cell(&cell.key)?
            .filter(|record| record.successes() > 0);
        let mut record = found.unwrap_or_else(fresh);
        match &cell.work {
            Work::Run(setting, _) if room::lack(*setting, &self.room).is_some() => {
                record.reason = room::lack(*setting, &self.room);
            }
            Work::Run(setting, _) if self.hardware.obstacle(setting.transport).is_some() => {
                record.reason = self.hardware.obstacle(setting.transport);
            }
            Work::Run(setting, tool) => {
                record.setting = Some(*setting);
                record.commands = Some(tool.commands(self.header.scale));
            }
            Work::Ranks(ranks) => {
                record.reason = Some(self.hardware.too_small(*ranks, machine::cores()));
            }
            Work::Never(reason) => record.reason = Some((*reason).to_owned()),
            Work::Derived(_) => {}
        }
        if record.setting.is_none() {
            self.folder.keep(&record)?;
        }
        Ok(record)
    }

    fn missing(&self, record: &CellRecord) -> usize {
        let wanted = self.header.repetitions as usize;
        match record.setting {
            Some(_) => wanted.saturating_sub(record.successes()),
            None => 0,
        }
    }

    fn group(
        &self,
        cells: &[Cell],
        group: &std::ops::Range<usize>,
        records: &mut [CellRecord],
        bench: &mut dyn Bench,
        progress: &Progress,
        budget: &Budget,
    ) -> Result<End> {
        let mut warm = BTreeSet::new();
        for repetition in 0..self.header.repetitions {
            if repetition > 0 && budget.share_is_over() {
                break;
            }
            for index in group.clone() {
                let (cell, record) = (&cells[index], &mut records[index]);
                let Work::Run(setting, tool) = &cell.work else {
                    continue;
                };
                if self.missing(record) == 0
                    || record.successes() == 0 && record.failures() >= PATIENCE
                {
                    continue;
                }
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(End::Interrupted);
                }
                if budget.is_over() {
                    return Ok(End::OutOfTime);
                }
                progress.say(&cell.key);
                if warm.insert(index) {
                    self.warm_up(bench, *setting, tool);
                }
                self.turn(cell, *setting, tool, record, bench)?;
                progress.advance(index);
            }
        }
        self.compute(cells, group, records)?;
        Ok(End::Complete)
    }

    fn turn(
        &self,
        cell: &Cell,
        setting: Setting,
        tool: &Tool,
        record: &mut CellRecord,
        bench: &mut dyn Bench,
    ) -> Result<()> {
        let commands = tool.commands(self.header.scale);
        let busy_before = machine::busy_share();
        let (at, since) = (now(), Instant::now());
        let output = bench.measure(setting, tool, &commands, self.limit(tool));
        let seconds = since.elapsed().as_secs_f64();
        if let Ok(output) = &output {
            self.folder
                .keep_raw(&cell.key, record.repetitions.len(), output)?;
        }
        let figures = output.and_then(|output| tool.figures(cell.unit, &output));
        let (figures, failure) = match figures {
            Ok(figures) => (figures, None),
            Err(error) => (Vec::new(), Some(shortened(&format!("{error:#}")))),
        };
        record.push(Repetition {
            at,
            seconds,
            busy_before,
            figures,
            failure,
        });
        self.folder.keep(record)
    }

    /// A few messages, whatever comes of them: the turn that follows will tell.
    fn warm_up(&self, bench: &mut dyn Bench, setting: Setting, tool: &Tool) {
        if let Some(commands) = tool.warm_up() {
            let _ = bench.measure(setting, tool, &commands, self.limit(tool));
        }
    }

    fn limit(&self, tool: &Tool) -> Duration {
        Duration::from_secs(tool.limit(self.header.scale))
    }

    fn compute(
        &self,
        cells: &[Cell],
        group: &std::ops::Range<usize>,
        records: &mut [CellRecord],
    ) -> Result<()> {
        for index in group.clone() {
            if let Some(record) = derived(&cells[index], records) {
                self.folder.keep(&record)?;
                records[index] = record;
            }
        }
        Ok(())
    }
}

fn setting(cell: &Cell) -> Option<Setting> {
    match &cell.work {
        Work::Run(setting, _) => Some(*setting),
        Work::Derived(_) | Work::Ranks(_) | Work::Never(_) => None,
    }
}

/// Runs of cells with the same study and measure.
fn groups(cells: &[Cell]) -> Vec<std::ops::Range<usize>> {
    let same = |a: &Cell, b: &Cell| a.key.study == b.key.study && a.key.measure == b.key.measure;
    let mut start = 0;
    let chunks = cells.chunk_by(same).map(|chunk| {
        let range = start..start + chunk.len();
        start = range.end;
        range
    });
    chunks.collect()
}

fn shortened(reason: &str) -> String {
    match reason.char_indices().nth(REASON_MAX) {
        Some((end, _)) => format!("{} ...", &reason[..end]),
        None => reason.to_owned(),
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
