//! The folder of a run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::files::{read, write, write_bytes};
use super::{CellRecord, Header, Results, check_format};
use crate::key::CellKey;

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

    /// The file of the whole run.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        self.path.join("results.json")
    }

    /// The folder's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a run has begun in the folder.
    #[must_use]
    pub fn begun(&self) -> bool {
        self.header().is_file()
    }

    fn header(&self) -> PathBuf {
        self.path.join("run.json")
    }

    /// Begins a run in the folder, or continues one that has begun.
    ///
    /// # Errors
    /// When the existing results are of another machine or of other options.
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

    /// The record of a cell that has been begun. A damaged file is moved aside, reported, and measured again.
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

    /// Stores a cell's record.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, record: &CellRecord) -> Result<()> {
        write(&self.cell_path(&record.key), record)
    }

    /// Removes a cell from the run.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn forget(&self, key: &CellKey) -> Result<()> {
        let path = self.cell_path(key);
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
    }

    /// Stores the output of a tool.
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

    /// Puts everything into one file, with the cells in the order of `order`.
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
