//! Latency of a message where its program and the daemon have a core each.
//!
//! perftest uses two programs, which share what the daemon leaves of two cores: switching between them takes as long as
//! the message. Here one thread has both ends.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use vrdma_lab::place::Place;

use super::pinned::Pinned;
use super::{LATENCY, RUN_LIMIT, Told};
use crate::compiled::compiled;
use crate::named::Only;

pub(super) const WRITE: &str = "WRITE, both ends in one thread, daemon on a core of its own";
pub(super) const SEND: &str = "SEND, both ends in one thread, daemon on a core of its own";

/// Name, arguments of the program.
const CELLS: [(&str, &str); 2] = [(WRITE, "WRITE 100000"), (SEND, "SEND 100000")];

/// The program, if a chosen row needs it.
pub(super) struct OneThread {
    cells: Vec<(&'static str, &'static str)>,
    program: Option<PathBuf>,
    _folder: TempDir,
}

impl OneThread {
    pub(super) fn compile(only: &Only) -> Result<Self> {
        let meant = CELLS.into_iter().filter(|(name, _)| only.means(name));
        let cells: Vec<_> = meant.collect();
        let folder = tempfile::tempdir()?;
        let source = include_str!("one_thread.c");
        let program = || compiled(folder.path(), "one_thread", source);
        Ok(Self {
            program: (!cells.is_empty()).then(program).transpose()?,
            cells,
            _folder: folder,
        })
    }

    pub(super) fn is_meant(&self) -> bool {
        self.program.is_some()
    }

    /// Measures each way once.
    pub(super) fn told(&self, pinned: &Pinned) -> Result<Vec<Told>> {
        let Some(program) = &self.program else {
            return Ok(Vec::new());
        };
        let [place, _] = pinned.places();
        let told = self.cells.iter().map(|(name, words)| {
            let command = format!("{} {words}", program.display());
            measure(place, &command).map(|us| told(name, us))
        });
        told.collect()
    }
}

/// The median, 99 % and 99.9 %, in microseconds.
fn measure(place: &dyn Place, command: &str) -> Result<[f64; 3]> {
    let output = place.start(command)?.end(RUN_LIMIT)?;
    let said = output.stdout_text();
    ensure!(
        output.status == 0,
        "{command}: status {}:\n{said}{}",
        output.status,
        output.stderr_text()
    );
    let figures: Result<Vec<f64>, _> = said.split_whitespace().map(str::parse).collect();
    let figures = figures.ok().and_then(|figures| figures.try_into().ok());
    figures.with_context(|| format!("{command}: no figures in:\n{said}"))
}

fn told(name: &str, [typical, p99, p999]: [f64; 3]) -> Told {
    Told {
        cell: LATENCY.to_owned(),
        name: name.to_owned(),
        unit: "us".to_owned(),
        typical,
        p99: Some(p99),
        p999: Some(p999),
    }
}
