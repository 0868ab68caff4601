//! Totals of executions over all runs: `executions.json` in the folder of results.
//!
//! Each target is added when it has ended, so that an interrupted run counts as far as it came. Simultaneous runs take
//! turns by a lock on the file.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::running::Figures;

const FILE: &str = "executions.json";

/// Totals of one target.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Total {
    pub(super) executions: u64,
    pub(super) crashes: u64,
}

/// Totals of all targets that ever ran here, by name.
pub(super) type Totals = BTreeMap<String, Total>;

/// The path of the file.
pub(super) struct Tally(PathBuf);

impl Tally {
    /// The file in the folder of results.
    pub(super) fn within(results: &Path) -> Self {
        Self(results.join(FILE))
    }

    pub(super) fn read(&self) -> Result<Totals> {
        match fs::read(&self.0) {
            Ok(text) => self.parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Totals::new()),
            Err(error) => Err(error).with_context(|| format!("reading {}", self.0.display())),
        }
    }

    /// Adds the results of one target.
    pub(super) fn add(&self, figures: &Figures) -> Result<()> {
        let failed = || format!("writing {}", self.0.display());
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&self.0).with_context(failed)?;
        file.lock().with_context(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(failed)?;
        let mut totals = self.parse(&text)?;
        let total = totals.entry(figures.target.clone()).or_default();
        total.executions = total.executions.saturating_add(figures.executions);
        total.crashes = total.crashes.saturating_add(figures.found.len() as u64);
        let text = serde_json::to_string_pretty(&totals)?;
        file.rewind()
            .and_then(|()| file.set_len(0))
            .and_then(|()| file.write_all(text.as_bytes()))
            .with_context(failed)
    }

    fn parse(&self, text: &[u8]) -> Result<Totals> {
        if text.is_empty() {
            return Ok(Totals::new());
        }
        let totals = serde_json::from_slice(text);
        totals.with_context(|| format!("{} has no totals: remove it", self.0.display()))
    }
}
