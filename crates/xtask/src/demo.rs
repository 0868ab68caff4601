//! `cargo xtask demo`: the benefit of RDMA between two stock guests, in one table.
//!
//! ```text
//!  boot two vrdma guests -> every cell, and TCP -> end them
//!  boot two rxe guests   -> every cell          -> end them
//!  table on the screen, every repetition in demo.json
//! ```
//!
//! Never four guests at once: they would share two cores and none would be measured well.

mod cells;
mod machine;
mod measure;
pub(crate) mod perftest;
pub(crate) mod qperf;
mod samples;
mod table;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use vrdma_lab::image::Image;
use vrdma_lab::steps::Steps;

use crate::lab::daemon;
pub(crate) use cells::Measure;
pub(crate) use machine::{Machine, warn_when_busy};
pub(crate) use measure::{Comparison, compare};
pub(crate) use samples::{Figure, Samples};

/// Two virtual machines with stock Linux, RDMA between them, and one table that compares it with Linux's software RoCE
/// (rxe) and TCP in the same kind of guests.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How often each cell is measured; the table shows the median
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repetitions: u32,
    /// File for every repetition
    #[arg(long, default_value = "demo.json", value_name = "FILE")]
    json: PathBuf,
}

/// The contents of `demo.json`.
#[derive(Serialize)]
struct Record<'a> {
    machine: &'a Machine,
    repetitions: u32,
    cells: &'a [Comparison],
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let image = Image::ensure()?;
    let program = daemon(true)?;
    warn_when_busy();
    let machine = Machine::look(&image)?;
    let cells = compare(&program, arguments.repetitions, &Steps::default());
    let record = Record {
        machine: &machine,
        repetitions: arguments.repetitions,
        cells: &cells,
    };
    println!(
        "\n{}\n\n{}.",
        shown(&cells, arguments.repetitions),
        machine.facts
    );
    fs::write(&arguments.json, serde_json::to_vec_pretty(&record)?)
        .with_context(|| format!("cannot write {}", arguments.json.display()))?;
    println!("Every repetition is in {}.", arguments.json.display());
    Ok(verdict(&failures(&cells)))
}

/// The table and its explanation.
pub(crate) fn shown(cells: &[Comparison], repetitions: u32) -> String {
    format!("{}\n{}", table::render(cells), table::notes(repetitions))
}

/// Failures, which the table cannot show.
pub(crate) fn failures(cells: &[Comparison]) -> Vec<String> {
    table::failures(cells)
}

/// Prints failures below everything else, one a line, and returns the exit status.
fn verdict(failures: &[String]) -> ExitCode {
    if failures.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\nFailed:\n{}", failures.join("\n"));
    ExitCode::FAILURE
}
