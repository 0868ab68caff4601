//! Measures cells in turns: A B A B, so that a temporary disturbance of the machine affects all rivals.
//!
//! ```text
//!   for each pass (one, or several where the time is limited: see `budget`):
//!      for each measure:
//!         for each repetition:
//!            for each cell that lacks it, if the budget allows it: start what it needs, idle check, run, parse, keep
//!         end what no later measure needs
//!   end: what was not reached says so, computed cells, everything in one file
//! ```
//!
//! A cell that fails is kept with its reason. A cell that failed twice without ever succeeding is skipped.

mod budget;
mod entry;
mod progress;
mod turn;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::cell::{Cell, Setting};
use crate::derive::derived;
use crate::hardware::Hardware;
use crate::record::{CellRecord, Folder, Header, Results};
use crate::room::Room;
use crate::tables;
use crate::tool::{Commands, Tool};
use budget::{Budget, Pass, Turn};
pub use budget::{Clock, Watch};
use entry::{Entry, carry_starts};
use progress::Progress;

/// Runs one turn.
pub trait Bench {
    /// Starts what a setting and a tool need, unless it is running.
    ///
    /// # Errors
    /// With the reason why it cannot be started.
    fn begin(&mut self, setting: Setting, tool: &Tool) -> Result<()>;

    /// Measures and returns the client's output, which must be complete within `limit`.
    ///
    /// # Errors
    /// With the reason why there is no output.
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

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All cells were measured.
    Complete,
    /// The user interrupted it.
    Interrupted,
    /// The given time was over.
    OutOfTime,
}

/// A run in progress.
pub struct Runner<'a> {
    /// The folder of its results.
    pub folder: &'a Folder,
    /// Facts that apply to all cells.
    pub header: &'a Header,
    /// The hardware of this machine.
    pub hardware: Hardware,
    /// The resources for guests and ranks.
    pub room: Room,
    /// Set to end after the present turn.
    pub stop: &'a AtomicBool,
    /// Time after which no turn begins.
    pub time: Option<Duration>,
    /// The clock that measures this time.
    pub clock: &'a dyn Clock,
}

/// The state of a run.
struct Course<'a, 'b> {
    entries: Vec<Entry<'a>>,
    groups: Vec<Range<usize>>,
    bench: &'b mut dyn Bench,
    progress: Progress,
    budget: Budget<'b>,
}

impl Runner<'_> {
    /// Measures what is missing of `cells`, and gathers everything.
    ///
    /// # Errors
    /// When the folder cannot be written; a cell's failure is no error.
    pub fn run(&self, cells: &[Cell], bench: &mut dyn Bench) -> Result<(Results, End)> {
        self.forget_unreached(cells)?;
        let entries: Result<Vec<Entry>> = cells.iter().map(|cell| self.begun(cell)).collect();
        let mut entries = entries?;
        carry_starts(&mut entries);
        let mut course = Course {
            progress: Progress::new(entries.iter().map(Entry::seconds).sum()),
            entries,
            groups: groups(cells),
            bench,
            budget: Budget::new(self.clock, self.time),
        };
        for &pass in Pass::of(self.time) {
            self.pass(&mut course, pass)?;
        }
        course.progress.finish();
        let end = self.end(&course);
        let mut records: Vec<CellRecord> = course.entries.into_iter().map(Entry::record).collect();
        self.tell_unreached(&mut records, end)?;
        self.compute(cells, &mut records)?;
        Ok((self.folder.gather(&tables::order())?, end))
    }

    fn pass(&self, course: &mut Course, pass: Pass) -> Result<()> {
        carry_starts(&mut course.entries);
        course.budget.begin_pass(pass);
        let weight = |entries: &[Entry]| entries.iter().map(Entry::seconds).sum();
        for group in course.groups.clone() {
            let entries = &course.entries;
            let (own, all) = (
                weight(&entries[group.clone()]),
                weight(&entries[group.start..]),
            );
            course.budget.begin(own, all);
            self.group(course, &group)?;
            let later = course.entries[group.end..].iter();
            let still: Vec<Setting> = later.filter_map(Entry::still_needed).collect();
            course.bench.release(&still);
        }
        Ok(())
    }

    fn group(&self, course: &mut Course, group: &Range<usize>) -> Result<()> {
        for _ in 0..self.header.repetitions {
            for (place, index) in group.clone().enumerate() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let entry = &mut course.entries[index];
                let turn = Turn {
                    is_first: entry.is_untried(),
                    place,
                    seconds: entry.turn_seconds(),
                    start: entry.start,
                };
                if entry.lacks_turns() && course.budget.allows(turn) {
                    course.progress.say(&entry.cell.key);
                    self.turn(entry, course.bench)?;
                    course.progress.advance(turn.start + turn.seconds);
                }
            }
        }
        for entry in &mut course.entries[group.clone()] {
            entry.cool_down();
        }
        Ok(())
    }

    fn end(&self, course: &Course) -> End {
        let lacks = course.entries.iter().any(Entry::lacks_turns);
        if lacks && self.stop.load(Ordering::Relaxed) {
            End::Interrupted
        } else if course.budget.has_refused() {
            End::OutOfTime
        } else {
            End::Complete
        }
    }

    /// Removes cells that another run did not reach and that are not requested now.
    fn forget_unreached(&self, cells: &[Cell]) -> Result<()> {
        for key in tables::order() {
            if cells.iter().all(|cell| cell.key != key)
                && self.folder.cell(&key)?.is_some_and(|it| it.is_unreached())
            {
                self.folder.forget(&key)?;
            }
        }
        Ok(())
    }

    /// Marks unreached cells, so that a reader of the report does not think that they failed, nor reads what an earlier
    /// run noted about them.
    fn tell_unreached(&self, records: &mut [CellRecord], end: End) -> Result<()> {
        let minutes = self.time.unwrap_or_default().as_secs() / 60;
        let why = match end {
            End::Interrupted => "not reached before the run was interrupted".to_owned(),
            End::Complete | End::OutOfTime => format!("not reached in the {minutes} minutes given"),
        };
        for record in records.iter_mut().filter(|record| record.is_unreached()) {
            record.reason = Some(format!("{why}; the same command goes on"));
            self.folder.keep(record)?;
        }
        Ok(())
    }

    fn compute(&self, cells: &[Cell], records: &mut [CellRecord]) -> Result<()> {
        for (index, cell) in cells.iter().enumerate() {
            if let Some(record) = derived(cell, records) {
                self.folder.keep(&record)?;
                records[index] = record;
            }
        }
        Ok(())
    }
}

/// Ranges of cells with the same study and measure.
fn groups(cells: &[Cell]) -> Vec<Range<usize>> {
    let same = |a: &Cell, b: &Cell| a.key.study == b.key.study && a.key.measure == b.key.measure;
    let mut start = 0;
    let chunks = cells.chunk_by(same).map(|chunk| {
        let range = start..start + chunk.len();
        start = range.end;
        range
    });
    chunks.collect()
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
