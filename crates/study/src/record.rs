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

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cell::{Setting, Unit};
use crate::key::CellKey;
use crate::machine::Machine;
use crate::plan::Scale;
use crate::samples::Samples;
use crate::tool::{Commands, Figure};

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

/// The folder of a run.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder, which need not exist yet.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The file of everything.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        self.path.join("results.json")
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a run has begun here.
    #[must_use]
    pub fn begun(&self) -> bool {
        self.header().is_file()
    }

    fn header(&self) -> PathBuf {
        self.path.join("run.json")
    }

    /// Begins a run here, or goes on with one that has begun.
    ///
    /// # Errors
    /// When what is here was measured elsewhere or otherwise.
    pub fn open(&self, header: Header) -> Result<Header> {
        let path = self.header();
        let Some(found) = read::<Header>(&path)? else {
            write(&path, &header)?;
            return Ok(header);
        };
        check_format(&path, &found)?;
        let place = self.path.display();
        if let Some(difference) = found.machine.difference(&header.machine) {
            bail!(
                "{place} holds results of another machine ({difference}); name another folder with --out"
            );
        }
        ensure!(
            found.scale == header.scale && found.repetitions == header.repetitions,
            "{place} holds a run of other length or repetitions; go on with the same options, or name another folder with --out"
        );
        Ok(found)
    }

    /// A cell that has been begun. A damaged file is put aside, told, and measured again.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn cell(&self, key: &CellKey) -> Result<Option<CellRecord>> {
        let path = self.cell_path(key);
        match read(&path) {
            Ok(record) => Ok(record),
            Err(error) => {
                let aside = path.with_extension("damaged");
                fs::rename(&path, &aside)
                    .with_context(|| format!("cannot put {} aside", path.display()))?;
                eprintln!(
                    "{error:#}; it is now {}, and the cell is measured again",
                    aside.display()
                );
                Ok(None)
            }
        }
    }

    /// Keeps a cell.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, record: &CellRecord) -> Result<()> {
        write(&self.cell_path(&record.key), record)
    }

    /// Keeps what a tool printed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_raw(&self, key: &CellKey, turn: usize, text: &str) -> Result<()> {
        let path = self
            .path
            .join("raw")
            .join(format!("{}.{turn}.txt", file_name(key)));
        write_bytes(&path, text.as_bytes())
    }

    /// Puts everything into one file, cells in the order of `order`.
    ///
    /// # Errors
    /// When a file is missing, damaged or cannot be written.
    pub fn gather(&self, order: &[CellKey]) -> Result<Results> {
        let path = self.header();
        let missing = || format!("{} holds no run", self.path.display());
        let header: Header = read(&path)?.with_context(missing)?;
        check_format(&path, &header)?;
        let read_cell = |key: &CellKey| read::<CellRecord>(&self.cell_path(key)).transpose();
        let cells = order
            .iter()
            .filter_map(read_cell)
            .collect::<Result<Vec<_>>>()?;
        let results = Results { header, cells };
        write(&self.results(), &results)?;
        Ok(results)
    }

    fn cell_path(&self, key: &CellKey) -> PathBuf {
        self.path
            .join("cells")
            .join(format!("{}.json", file_name(key)))
    }
}

fn file_name(key: &CellKey) -> String {
    key.to_string().replace('/', "+")
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

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let value = serde_json::from_slice(&text);
    value
        .map(Some)
        .with_context(|| format!("{} is damaged or no file of a study", path.display()))
}

fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write_bytes(path, &text)
}

/// Written whole or not at all.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = path.with_extension("partial");
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&partial, bytes))
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
