//! A cell during a run.

use std::collections::BTreeSet;

use anyhow::Result;

use super::Runner;
use crate::cell::{Cell, Setting, Work};
use crate::machine;
use crate::record::CellRecord;
use crate::room;
use crate::stage::needed;
use crate::tool::Tool;

/// Failures after which a cell that never succeeded is skipped.
const PATIENCE: usize = 2;

/// A cell, its record, and what is missing.
pub(super) struct Entry<'a> {
    pub(super) cell: &'a Cell,
    pub(super) record: CellRecord,
    /// Its setting and tool, unless there is an obstacle.
    pub(super) runs: Option<(Setting, &'a Tool)>,
    /// Whether its programs have exchanged messages since its measure began.
    pub(super) is_warm: bool,
    /// Number of turns that it should have.
    wanted: usize,
    /// Seconds to start what its next turn needs, about.
    pub(super) start: u64,
}

impl Runner<'_> {
    /// The cell with its record, new or from the folder. Failures of earlier runs are forgotten.
    pub(super) fn begun<'a>(&self, cell: &'a Cell) -> Result<Entry<'a>> {
        let fresh = || CellRecord::new(cell.key.clone(), cell.unit);
        let found = self.folder.cell(&cell.key)?;
        let found = found.filter(|record| record.successes() > 0);
        let mut record = found.unwrap_or_else(fresh);
        record.reason = self.obstacle(cell);
        let runs = match (&cell.work, &record.reason) {
            (Work::Run(setting, tool), None) => Some((*setting, tool)),
            _ => None,
        };
        if let Some((setting, tool)) = runs {
            record.setting = Some(setting);
            record.commands = Some(tool.commands(self.header.scale));
        } else {
            self.folder.keep(&record)?;
        }
        Ok(Entry {
            cell,
            record,
            runs,
            is_warm: false,
            wanted: self.header.repetitions as usize,
            start: 0,
        })
    }

    /// Why it cannot run here.
    fn obstacle(&self, cell: &Cell) -> Option<String> {
        match &cell.work {
            Work::Run(setting, _) => room::lack(*setting, &self.room)
                .or_else(|| self.hardware.obstacle(setting.transport)),
            Work::Ranks(ranks) => Some(self.hardware.too_small(*ranks, machine::cores())),
            Work::Never(reason) => Some((*reason).to_owned()),
            Work::Derived(_) => None,
        }
    }
}

impl Entry<'_> {
    /// Whether a turn is missing and worth trying.
    pub(super) fn lacks_turns(&self) -> bool {
        let successes = self.record.successes();
        let is_hopeless = successes == 0 && self.record.failures() >= PATIENCE;
        self.runs.is_some() && successes < self.wanted && !is_hopeless
    }

    /// Whether it had no turn yet.
    pub(super) fn is_untried(&self) -> bool {
        self.record.repetitions.is_empty()
    }

    /// Seconds of all turns that it lacks, about.
    pub(super) fn seconds(&self) -> u64 {
        if !self.lacks_turns() {
            return 0;
        }
        let turns = self.wanted - self.record.successes();
        self.start + self.turn_seconds() * turns as u64
    }

    /// Seconds of its next turn, about: as long as the last one.
    pub(super) fn turn_seconds(&self) -> u64 {
        let known = self.record.repetitions.last();
        let known = known.map(|turn| turn.seconds.ceil() as u64);
        let guessed = || self.runs.map_or(0, |(setting, tool)| tool.seconds(setting));
        known.unwrap_or_else(guessed)
    }

    /// Its setting, if it needs another turn.
    pub(super) fn still_needed(&self) -> Option<Setting> {
        let (setting, _) = self.runs?;
        self.lacks_turns().then_some(setting)
    }

    /// Notes that what its turns need has been started.
    pub(super) fn started(&mut self) {
        self.start = 0;
    }

    /// Notes that its measure is over for now, so that its programs may end.
    pub(super) fn cool_down(&mut self) {
        self.is_warm = false;
    }

    /// The final record.
    pub(super) fn record(self) -> CellRecord {
        self.record
    }
}

/// Assigns the time of boots: the first cell of those that share guests waits for them.
pub(super) fn carry_starts(entries: &mut [Entry]) {
    let mut started = BTreeSet::new();
    for entry in entries {
        let needed = entry.still_needed().map(needed);
        entry.start = needed
            .filter(|&needed| started.insert(needed))
            .map_or(0, |needed| needed.seconds());
    }
}
