//! The files of a run: a folder that grows cell by cell, and one file of everything at its end.
//!
//! ```text
//!  FOLDER/run.json           machine, scale, repetitions
//!  FOLDER/cells/KEY.json     a cell: each repetition, median, or why there is none
//!  FOLDER/raw/KEY.N.txt      what the tool printed
//!  FOLDER/results.json       all of run.json and cells/, for `compare` and `report`
//! ```
//!
//! Files are written under another name and renamed, so that none is ever incomplete.

mod files;
mod folder;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::cell::{Setting, Unit};
use crate::key::CellKey;
use crate::machine::Machine;
use crate::plan::Scale;
use crate::samples::Samples;
use crate::tool::{Commands, Figure};
use files::read;
pub(crate) use files::write_bytes;
pub use folder::Folder;

/// Version of all files here; other versions are refused.
const FORMAT: u32 = 1;

/// Facts that apply to all cells of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of these files.
    pub format: u32,
    /// The machine of the run.
    pub machine: Machine,
    /// Extent of the run.
    pub scale: Scale,
    /// Number of repetitions.
    pub repetitions: u32,
    /// Its start, in seconds since 1970.
    pub started: u64,
}

impl Header {
    /// The header of a new run.
    #[must_use]
    pub fn new(machine: Machine, scale: Scale, repetitions: u32, started: u64) -> Self {
        Self {
            format: FORMAT,
            machine,
            scale,
            repetitions,
            started,
        }
    }
}

/// One turn of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repetition {
    /// Its start, in seconds since 1970.
    pub at: u64,
    /// Its duration, in seconds.
    pub seconds: f64,
    /// Share of the machine's processors that was busy just before, from 0 to 1.
    pub busy_before: f64,
    /// Its figures; empty when it failed.
    pub figures: Vec<Figure>,
    /// The reason why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// All turns of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Its name.
    pub key: CellKey,
    /// Unit of its figures.
    pub unit: Unit,
    /// `None` for a cell that is computed or cannot run here.
    pub setting: Option<Setting>,
    /// The commands that were run.
    pub commands: Option<Commands>,
    /// Its turns, in order.
    pub repetitions: Vec<Repetition>,
    /// Samples by size.
    pub figures: BTreeMap<String, Samples>,
    /// The reason why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CellRecord {
    /// The record of a cell before its first turn.
    #[must_use]
    pub fn new(key: CellKey, unit: Unit) -> Self {
        Self {
            key,
            unit,
            setting: None,
            commands: None,
            repetitions: Vec::new(),
            figures: BTreeMap::new(),
            reason: None,
        }
    }

    /// Adds a turn and updates the summary.
    pub fn push(&mut self, repetition: Repetition) {
        self.repetitions.push(repetition);
        let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for figure in self
            .repetitions
            .iter()
            .flat_map(|repetition| &repetition.figures)
        {
            values
                .entry(figure.size.clone())
                .or_default()
                .push(figure.value);
        }
        let summed = values
            .into_iter()
            .filter_map(|(size, values)| Some((size, Samples::of(values)?)));
        self.figures = summed.collect();
        let failure = self
            .repetitions
            .iter()
            .rev()
            .find_map(|repetition| repetition.failure.clone());
        self.reason = failure.filter(|_| self.figures.is_empty());
    }

    /// Number of turns with figures.
    #[must_use]
    pub fn successes(&self) -> usize {
        self.repetitions
            .iter()
            .filter(|repetition| repetition.failure.is_none())
            .count()
    }

    /// Whether it could have been measured, but no turn was begun.
    #[must_use]
    pub fn is_unreached(&self) -> bool {
        self.setting.is_some() && self.repetitions.is_empty()
    }

    /// Number of turns that failed.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.repetitions.len() - self.successes()
    }
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Facts that apply to all cells.
    #[serde(flatten)]
    pub header: Header,
    /// Records in the tables' order.
    pub cells: Vec<CellRecord>,
}

impl Results {
    /// Reads the file of a whole run.
    ///
    /// # Errors
    /// When it does not exist, or is damaged, or of another version.
    pub fn read(path: &Path) -> Result<Self> {
        let results: Self =
            read(path)?.with_context(|| format!("there is no {}", path.display()))?;
        check_format(path, &results.header)?;
        Ok(results)
    }

    /// A cell's record.
    #[must_use]
    pub fn cell(&self, key: &CellKey) -> Option<&CellRecord> {
        self.cells.iter().find(|cell| cell.key == *key)
    }
}

fn check_format(path: &Path, header: &Header) -> Result<()> {
    ensure!(
        header.format == FORMAT,
        "{} has format {}, and this vrdma reads {FORMAT}: measure again",
        path.display(),
        header.format
    );
    Ok(())
}
