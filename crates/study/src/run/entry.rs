//! A cell on its way through a run.

use std::collections::BTreeSet;

use anyhow::Result;

use super::Runner;
use crate::cell::{Cell, Setting, Work};
use crate::machine;
use crate::record::CellRecord;
use crate::room;
use crate::stage::needed;
use crate::tool::Tool;

/// Failures after which a cell that never succeeded is left.
const PATIENCE: usize = 2;

/// A cell, what is known of it, and what is missing.
pub(super) struct Entry<'a> {
    pub(super) cell: &'a Cell,
    pub(super) record: CellRecord,
    /// What it runs and where, unless something is against it.
    pub(super) runs: Option<(Setting, &'a Tool)>,
    /// Whether its programs have exchanged messages since its measure began.
    pub(super) is_warm: bool,
    /// Turns that it should have.
    wanted: usize,
    /// Seconds for what is started at its next turn, about.
    pub(super) start: u64,
}

impl Runner<'_> {
    /// The cell with its record, new or from the folder. Failures of another day are forgotten.
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
    /// Whether a turn is missing and worth it.
    pub(super) fn lacks_turns(&self) -> bool {
        let successes = self.record.successes();
        let is_hopeless = successes == 0 && self.record.failures() >= PATIENCE;
        self.runs.is_some() && successes < self.wanted && !is_hopeless
    }

    /// Whether it had no turn yet.
    pub(super) fn is_untried(&self) -> bool {
        self.record.repetitions.is_empty()
    }

    /// What all turns that it lacks take, about.
    pub(super) fn seconds(&self) -> u64 {
        if !self.lacks_turns() {
            return 0;
        }
        let turns = self.wanted - self.record.successes();
        self.start + self.turn_seconds() * turns as u64
    }

    /// What its next turn takes, about: as much as the last one.
    pub(super) fn turn_seconds(&self) -> u64 {
        let known = self.record.repetitions.last();
        let known = known.map(|turn| turn.seconds.ceil() as u64);
        let guessed = || self.runs.map_or(0, |(setting, tool)| tool.seconds(setting));
        known.unwrap_or_else(guessed)
    }

    /// Its setting, if another turn is to come.
    pub(super) fn still_needed(&self) -> Option<Setting> {
        let (setting, _) = self.runs?;
        self.lacks_turns().then_some(setting)
    }

    /// What its turns need has been started.
    pub(super) fn started(&mut self) {
        self.start = 0;
    }

    /// Its measure is over for now, and its programs may end.
    pub(super) fn cool_down(&mut self) {
        self.is_warm = false;
    }

    /// What is known of it in the end.
    pub(super) fn record(self) -> CellRecord {
        self.record
    }
}

/// The first cell of those that share guests waits for their boot.
pub(super) fn carry_starts(entries: &mut [Entry]) {
    let mut started = BTreeSet::new();
    for entry in entries {
        let needed = entry.still_needed().map(needed);
        entry.start = needed
            .filter(|&needed| started.insert(needed))
            .map_or(0, |needed| needed.seconds());
    }
}
