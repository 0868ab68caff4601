//! Published studies of RDMA in virtual machines, reproduced on this machine side by side.
//!
//! ```text
//!  table of cells --Stage (guests, containers, processes)--> real tool --parsed--> figures, kept as JSON
//!  table of published numbers ------------------------------same Key------------> report
//! ```
//!
//! A [`Key`](key::Key) names one figure; a published number and ours correspond when their keys are equal.
//! `vrdma-study` is its command line, which `vrdma study` starts. The room starts other programs' tools and parses
//! their output. It knows nothing of the engine.

#![forbid(unsafe_code)]

pub mod cell;
pub mod compare;
pub mod derive;
pub mod hardware;
pub mod key;
pub mod machine;
pub mod plan;
pub mod programs;
pub mod published;
pub mod record;
pub mod report;
pub mod room;
pub mod run;
pub mod samples;
pub mod stage;
pub mod tables;
pub mod tool;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use vrdma_lab::daemon::built_daemon;
use vrdma_lab::image::Image;

use cell::{Cell, Work};
use hardware::Hardware;
use machine::Machine;
use plan::{Scale, Unknown, chosen, in_running_order};
use record::{Folder, Header};
use room::Room;
use run::{End, Runner, Watch};
use stage::{Programs, Stages};

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Studies, measures or cells; all if empty.
    pub names: Vec<String>,
    /// Whether the scale is [`Scale::Short`].
    pub short: bool,
    /// Number of repetitions, instead of the scale's.
    pub repetitions: Option<u32>,
    /// Folder of the results.
    pub folder: Folder,
    /// Our `libibverbs.so.1`.
    pub library: PathBuf,
    /// Time after which no turn begins.
    pub time: Option<Duration>,
}

/// Outcome of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// Cells in the folder, including earlier ones.
    pub cells: usize,
    /// Cells without a figure, though they were run.
    pub failed: Vec<String>,
}

/// Description of a cell.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// Its name.
    pub cell: String,
    /// Source of its figures.
    pub how: String,
}

/// Runs the measurements; `stop` ends the run after the present turn.
///
/// # Errors
/// For an unknown name, a folder that cannot be used, a guest image that does not build. A cell that fails is no error.
pub fn run(options: &Options, stop: &AtomicBool) -> Result<Outcome> {
    let cells = in_running_order(chosen(&options.names)?);
    let scale = if options.short {
        Scale::Short
    } else {
        Scale::Full
    };
    let repetitions = options.repetitions.unwrap_or(scale.repetitions());
    let programs = Programs {
        daemon: built_daemon()?,
        library: options.library.clone(),
    };
    let machine = Machine::look(&Image::ensure()?)?;
    let busy = machine::busy_share();
    if busy > machine::BUSY_SHARE {
        eprintln!(
            "other programs keep {:.0} % of this machine busy: the figures will show that, and ratios may be off either way",
            busy * 100.0
        );
    }
    let folder = &options.folder;
    let header = folder.open(Header::new(machine, scale, repetitions, run::now()))?;
    let runner = Runner {
        folder,
        header: &header,
        hardware: Hardware::default(),
        room: Room::look(),
        stop,
        time: options.time,
        clock: &Watch::start(),
    };
    let (results, end) = runner.run(&cells, &mut Stages::new(programs))?;
    let failed = results
        .cells
        .iter()
        .filter(|cell| cell.setting.is_some() && cell.figures.is_empty());
    Ok(Outcome {
        end,
        cells: results.cells.len(),
        failed: failed.map(|cell| cell.key.to_string()).collect(),
    })
}

/// The cells that names select.
///
/// # Errors
/// For an unknown name.
pub fn list(names: &[String]) -> Result<Vec<Listed>, Unknown> {
    let listed = |cell: &Cell| Listed {
        cell: cell.key.to_string(),
        how: how(cell),
    };
    Ok(chosen(names)?.iter().map(listed).collect())
}

fn how(cell: &Cell) -> String {
    match &cell.work {
        Work::Run(setting, tool) => format!("{setting}: {}", tool.commands(Scale::Full).client),
        Work::Derived(_) => "computed from other cells".to_owned(),
        Work::Ranks(ranks) => format!("OpenFOAM with {ranks} ranks"),
        Work::Never(reason) => format!("not run: {reason}"),
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<42} {}", self.cell, self.how)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            End::Complete => {}
            End::Interrupted => writeln!(f, "interrupted; the same command goes on from here")?,
            End::OutOfTime => writeln!(f, "the time is over; the same command goes on from here")?,
        }
        write!(f, "{} cells", self.cells)?;
        if !self.failed.is_empty() {
            write!(
                f,
                ", {} without a figure: {}",
                self.failed.len(),
                self.failed.join(" ")
            )?;
        }
        Ok(())
    }
}
