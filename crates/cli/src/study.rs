//! `vrdma study`: the published studies on this machine. It needs no daemon; it starts its own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;
use vrdma_study::record::{Folder, Results};
use vrdma_study::run::End;
use vrdma_study::{Options, compare, list, report, run};

use crate::failure::Failure;
use crate::report::Report;
use crate::run::find_library;

/// Set by the first Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// What a shell says of a command that an interrupt ended.
const INTERRUPTED: u8 = 130;

#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// List the studies and their cells
    List {
        /// Studies (s0), measures (s0/send-lat-polling) or cells (s4/write-lat/F); all without one
        names: Vec<String>,
    },
    /// Measure, or go on where the last run in this folder ended
    ///
    /// Guests are booted from an image that is built once (mmdebstrap); containers need bubblewrap. The guests' agent
    /// is vrdma-lab-agent beside this program, or what VRDMA_LAB_AGENT names; in a checkout it is compiled. A
    /// cell that fails is kept with its reason, and the run goes on. After Ctrl-C the present turn is
    /// ended; another Ctrl-C ends at once. Either way the same command goes on later.
    #[command(after_help = RUN_EXAMPLES)]
    Run(StudyOptions),
    /// Write report.html and report.md: published, ours, and the ratios that carry over
    Report {
        /// The run's folder, or its results.json
        #[arg(long, default_value = FOLDER, value_name = "PATH")]
        out: PathBuf,
        /// Where the report goes; the run's folder if absent
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
        /// A Markdown file with marks for a few of the ratios, which are written there
        #[arg(long, value_name = "FILE")]
        quote: Option<PathBuf>,
    },
    /// Put the medians of two runs side by side
    #[command(after_help = "Example: vrdma study compare before/results.json after/results.json")]
    Compare {
        /// The results.json of one run
        a: PathBuf,
        /// Of the other
        b: PathBuf,
    },
}

const FOLDER: &str = "vrdma-study";

const RUN_EXAMPLES: &str = "\
Examples:
  vrdma study run s4 --short
  vrdma study run s0/send-lat-polling s1 --repetitions 7
  vrdma study run && vrdma study report";

#[derive(Debug, Args)]
pub(crate) struct StudyOptions {
    /// Studies (s0), measures (s0/send-lat-polling) or cells (s4/write-lat/F); all without one
    names: Vec<String>,
    /// Fewer messages, fewer repetitions, smaller files
    #[arg(long)]
    short: bool,
    /// How often each cell is measured: 5, with --short 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: Option<u32>,
    /// Begin no measurement after so many minutes; cells that were not reached say so, and the same command goes on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: Option<u64>,
    /// Folder of the results
    #[arg(long, default_value = FOLDER, value_name = "FOLDER")]
    out: PathBuf,
    /// Our libibverbs, unless it is beside this program
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
}

/// One command, to its end.
pub(crate) fn run_command(command: &StudyCommand, json: bool) -> Result<ExitCode, Failure> {
    let failed = |error: anyhow::Error| Failure::new(format!("{error:#}"));
    let report = match command {
        StudyCommand::List { names } => listed(names)?,
        StudyCommand::Run(options) => return measured(options, json),
        StudyCommand::Report { out, to, quote } => {
            reported(out, to.as_deref(), quote.as_deref()).map_err(failed)?
        }
        StudyCommand::Compare { a, b } => {
            let read = |path| Results::read(path).map_err(failed);
            let compared = compare::compare(&read(a)?, &read(b)?);
            Report::new(&compared, compared.to_string())
        }
    };
    report.print(json)
}

fn listed(names: &[String]) -> Result<Report, Failure> {
    let rows = list(names).map_err(|error| Failure::new(error.to_string()))?;
    let text: Vec<String> = rows.iter().map(ToString::to_string).collect();
    Ok(Report::new(&rows, text.join("\n")))
}

fn reported(out: &Path, to: Option<&Path>, quote: Option<&Path>) -> anyhow::Result<Report> {
    let (results, own) = report::read(out)?;
    let mut written = report::write(&results, to.unwrap_or(&own))?;
    if let Some(file) = quote {
        report::quote_into(file, &results)?;
        written.push(file.to_owned());
    }
    let paths: Vec<String> = written
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Ok(Report::new(&paths, paths.join("\n")))
}

fn measured(options: &StudyOptions, json: bool) -> Result<ExitCode, Failure> {
    let library = find_library(options.library.as_deref()).map_err(Failure::new)?;
    listen()?;
    let options = Options {
        names: options.names.clone(),
        short: options.short,
        repetitions: options.repetitions,
        folder: Folder::at(&options.out),
        library,
        time: options
            .minutes
            .map(|minutes| Duration::from_secs(60 * minutes)),
    };
    let outcome = run(&options, &STOP).map_err(|error| Failure::new(format!("{error:#}")))?;
    let path = options.folder.results().display().to_string();
    let value = json!({ "results": path, "cells": outcome.cells, "failed": outcome.failed });
    Report::new(&value, format!("{outcome}\n{path}")).print(json)?;
    Ok(match outcome.end {
        End::Complete | End::OutOfTime => ExitCode::SUCCESS,
        End::Interrupted => ExitCode::from(INTERRUPTED),
    })
}

/// The first interrupt ends the run in order, the second at once: guests end with this process.
fn listen() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime =
        runtime.map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
    thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if STOP.swap(true, Ordering::Relaxed) {
                    std::process::exit(INTERRUPTED.into());
                }
                eprintln!("ending after this turn; Ctrl-C again to end at once");
            }
        });
    });
    Ok(())
}
