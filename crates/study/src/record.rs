//! What a run leaves: a folder that grows cell by cell, and one file of everything at its end.
//!
//! ```text
//!  FOLDER/run.json           machine, scale, repetitions
//!  FOLDER/cells/KEY.json     a cell: each repetition, median, or why there is none
//!  FOLDER/raw/KEY.N.txt      what the tool printed
//!  FOLDER/results.json       all of run.json and cells/, for `compare` and `report`
//! ```
//!
//! Files are written beside their place and renamed, so that none is ever half there.

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

/// Of all files here; others are refused by their number.
const FORMAT: u32 = 1;

/// What holds for all cells of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Of these files.
    pub format: u32,
    /// Where it was.
    pub machine: Machine,
    /// How much was measured.
    pub scale: Scale,
    /// How often.
    pub repetitions: u32,
    /// Seconds since 1970 at its begin.
    pub started: u64,
}

impl Header {
    /// Of a run that begins.
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
    /// Seconds since 1970.
    pub at: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Share of the machine's processors that was busy just before, from 0 to 1.
    pub busy_before: f64,
    /// Empty when it failed.
    pub figures: Vec<Figure>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// All turns of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellRecord {
    /// Its name.
    pub key: CellKey,
    /// Of its figures.
    pub unit: Unit,
    /// `None` of a cell that is computed or cannot run here.
    pub setting: Option<Setting>,
    /// What was run.
    pub commands: Option<Commands>,
    /// In the order in which they were made.
    pub repetitions: Vec<Repetition>,
    /// By size.
    pub figures: BTreeMap<String, Samples>,
    /// Why there are no figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl CellRecord {
    /// A cell before its first turn.
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

    /// Takes a turn in and sums up.
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

    /// Turns that brought figures.
    #[must_use]
    pub fn successes(&self) -> usize {
        self.repetitions
            .iter()
            .filter(|repetition| repetition.failure.is_none())
            .count()
    }

    /// Whether it could have been measured, and no turn was begun.
    #[must_use]
    pub fn is_unreached(&self) -> bool {
        self.setting.is_some() && self.repetitions.is_empty()
    }

    /// Turns that did not.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.repetitions.len() - self.successes()
    }
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What holds for all cells.
    #[serde(flatten)]
    pub header: Header,
    /// In the tables' order.
    pub cells: Vec<CellRecord>,
}

impl Results {
    /// Reads one file of everything.
    ///
    /// # Errors
    /// When it is not there, or not whole, or of another format.
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
